package template

import "strings"

// MatchPattern reports whether text matches pattern. In pattern, * matches any text, including
// slashes, and ? matches one character. It takes at most len(pattern)*len(text) steps.
func MatchPattern(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0 // star: index of the last * in pattern, or -1; mark: index in text at which the match of this * ends
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
