package document

import (
	"strings"
	"unicode/utf8"
)

// Names are checked without regular expressions, whose compilation would make each cold start longer.
const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)

// isOf reports whether the length of s is from 1 to most, and all its characters are in set.
func isOf(s, set string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

// isName reports whether s can be the name of a limit.
func isName(s string) bool { return isOf(s, lower+"0123456789_-", 32) }

// isTier reports whether s can be the name of a tier.
func isTier(s string) bool {
	return isOf(s, letters+"_.-", 64) && strings.TrimLeft(s, "_.-") == s
}

// isClaim reports whether s is PerClaim and the name of a claim.
func isClaim(s string) bool {
	name, ok := strings.CutPrefix(s, PerClaim)
	length := utf8.RuneCountInString(name)
	return ok && length >= 1 && length <= 64 && !strings.ContainsAny(name, "\t\n\f\r ")
}

// isParameter reports whether s is PerPath and the name of a parameter.
func isParameter(s string) bool {
	name, ok := strings.CutPrefix(s, PerPath)
	return ok && isOf(name, letters+"_", 64)
}

// isHeader reports whether s is PerHeader and the name of a header field (RFC 9110, 5.6.2), in lower
// case.
func isHeader(s string) bool {
	name, ok := strings.CutPrefix(s, PerHeader)
	return ok && isOf(name, lower+"0123456789!#$%&'*+-.^_`|~", 64)
}

// reservedFields says why no limit counts by the fields that isReserved reports.
const reservedFields = "host differs between the domains of an API, and the others contain credentials; for a credential use user or apikey"

// isReserved reports whether s is PerHeader and the name of a field that cannot be counted by.
func isReserved(s string) bool {
	switch strings.TrimPrefix(s, PerHeader) {
	case "host", "authorization", "proxy-authorization", "x-api-key", "cookie":
		return strings.HasPrefix(s, PerHeader)
	}
	return false
}

// IsIdentity reports whether a word of per is an identity of a caller, which no client can choose
// freely.
func IsIdentity(word string) bool {
	switch word {
	case PerClient, PerUser, PerAPIKey, PerIP:
		return true
	}
	return strings.HasPrefix(word, PerClaim)
}
