package document

import (
	"strings"
	"unicode/utf8"
)

// Names and tokens are checked without regular expressions, whose compilation would make each cold start
// longer.
const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits
)

// isOf reports whether s has from 1 to most bytes, and all of them are in the string set.
func isOf(s, set string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

func isName(s string) bool { return isOf(s, lower+digits+"_-", 32) }

func isTier(s string) bool {
	return isOf(s, letters+"_.-", 64) && strings.TrimLeft(s, "_.-") == s
}

func isClaim(s string) bool {
	name, ok := strings.CutPrefix(s, PerClaim)
	length := utf8.RuneCountInString(name)
	return ok && length >= 1 && length <= 64 && !strings.ContainsAny(name, "\t\n\f\r ")
}

func isParameter(s string) bool {
	name, ok := strings.CutPrefix(s, PerPath)
	return ok && isOf(name, letters+"_", 64)
}

// isHeader reports whether s is PerHeader and the name of a header field (RFC 9110, 5.6.2), in lower
// case.
func isHeader(s string) bool {
	name, ok := strings.CutPrefix(s, PerHeader)
	return ok && isOf(name, lower+digits+"!#$%&'*+-.^_`|~", 64)
}

// reservedFields is the part of a message that explains why no limit counts by the fields of isReserved.
const reservedFields = "host differs between the domains of an API, and the others contain credentials; for a credential use user or apikey"

// isReserved reports whether s is PerHeader and the name of a header field by which no limit can count.
func isReserved(s string) bool {
	switch strings.TrimPrefix(s, PerHeader) {
	case "host", "authorization", "proxy-authorization", "x-api-key", "cookie", "weir-origin-secret":
		return strings.HasPrefix(s, PerHeader)
	}
	return false
}

// IsIdentity reports whether a word of per is a verified identity or an address, whose value a client
// cannot choose freely.
func IsIdentity(word string) bool {
	switch word {
	case PerClient, PerUser, PerAPIKey, PerIP:
		return true
	}
	return strings.HasPrefix(word, PerClaim)
}

// isPlainKey reports whether a key needs no quotes in the path of a problem.
func isPlainKey(s string) bool {
	return isOf(s, letters+"_$*-", maxShown) && !strings.ContainsAny(s[:1], digits+"-") && !strings.Contains(s[1:], "$")
}
