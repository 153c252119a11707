package template

import "strings"

// MatchPattern reports whether text matches pattern. In pattern, * matches any text, including
// slashes, and ? matches one character. It takes at most len(pattern)*len(text) steps.
func MatchPattern(pattern, text string) bool {
	p, t := 0, 0
	star, end := -1, 0 // star: index of the last * in pattern, or -1; end: index in text at which the match of this * ends
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, end = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			end++
			p, t = star+1, end
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
