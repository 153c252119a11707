package contract

import "strings"

// IsName reports whether s has only letters, digits, _, . and -, and a length from the minimum least to the
// maximum most. It replaces a regular expression, which would make the start of a function slower.
func IsName(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !isNameRune(r) })
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-'
}
