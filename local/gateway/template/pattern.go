package template

import "strings"

// MatchPattern reports whether text matches a pattern. In a pattern, * matches any text,
// including slashes, and ? matches one character. MatchPattern takes at most
// len(pattern)*len(text) steps.
func MatchPattern(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0 // index of the last * in pattern (-1: none), and index in text where its match ends
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
