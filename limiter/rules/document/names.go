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

// isOf reports whether the length of s is from least to most, and all its characters are in set.
func isOf(s, set string, least, most int) bool {
	return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

// isName reports whether s can be the name of a limit.
func isName(s string) bool { return isOf(s, lower+"0123456789_-", 1, 32) }

// isTier reports whether s can be the name of a tier.
func isTier(s string) bool {
	return isOf(s, letters+"_.-", 1, 64) && strings.TrimLeft(s, "_.-") == s
}

// isClaim reports whether s is PerClaim and the name of a claim.
func isClaim(s string) bool {
	name, ok := strings.CutPrefix(s, PerClaim)
	length := utf8.RuneCountInString(name)
	return ok && length >= 1 && length <= 64 && !strings.ContainsAny(name, "\t\n\f\r ")
}
