package verify

import (
	_ "embed"
	"regexp"
	"strings"
	"unicode"
)

//go:embed words.txt
var known string

// removed replaces a private value.
const removed = "[…]"

// redactor removes private values from texts that a user publishes. It keeps only words that it knows and short numbers, so
// an account id, a host name or a user name does not remain only because its form or its encoding is unusual. It knows the
// words of HTTP, AWS and Weir in words.txt, and none of a language, so a redacted text is sometimes hard to read:
//
//	newRedactor("The authorizer caches nothing.").text("arn:aws:iam::123456789012:user/alice caches nothing") // "arn:aws:iam[…]user/[…] caches nothing"
type redactor struct{ words map[string]bool }

// newRedactor returns a redactor that also keeps the words of public texts, such as the claims of rows.
func newRedactor(public ...string) *redactor {
	r := &redactor{words: map[string]bool{}}
	for _, text := range append(public, known) {
		for _, word := range word.FindAllString(text, -1) {
			r.words[strings.ToLower(word)] = true
		}
	}
	return r
}

var (
	// word is a run of letters and digits of any script, with marks and format characters, which can
	// be invisible.
	word = regexp.MustCompile(`[\pL\pN\pM\p{Cf}]+`)
	// encoded is a run with an escape sequence of a URL, of JSON or Go, or of HTML.
	encoded = regexp.MustCompile(`[^\s"]*(%[0-9A-Fa-f]{2}|\\[uUx][0-9A-Fa-f]{2}|\\[0-7]{3}|&#?[0-9A-Za-z]+;)[^\s"]*`)
	// authority is the host of a URL, with its user and port.
	authority = regexp.MustCompile(`://[^\s/"'<>\[\]]+`)
	// address is an IPv4 address or another number with points, or an IPv6 or MAC address, which has at
	// least two groups and a colon twice.
	address = regexp.MustCompile(`\pN+(\.\pN+){2,}|[0-9A-Fa-f]*:([0-9A-Fa-f]*[:.]){1,}[0-9A-Fa-f.]*|[0-9A-Fa-f]{2}(-[0-9A-Fa-f]{2}){2,}`)
	// grouped is a run of digits with separators, such as an account id 1234-5678-9012.
	grouped = regexp.MustCompile(`\pN+([^\pL\pN\n]{1,3}\pN+)+`)
	number  = regexp.MustCompile(`^[0-9]{1,6}$|^([0-9]{1,3}(ms|s|m|h)){1,3}$`) // or a duration, such as 1m30s
)

// maxDigits is the number of digits that a number with separators keeps. It permits 0.0023 and 429/1000.
const maxDigits = 7

func countDigits(text string) (n int) {
	for _, c := range text {
		if unicode.IsNumber(c) {
			n++
		}
	}
	return n
}

// text returns a text without private values.
func (r *redactor) text(text string) string {
	text = encoded.ReplaceAllString(text, removed)
	text = authority.ReplaceAllString(text, "://"+removed)
	text = address.ReplaceAllStringFunc(text, func(found string) string {
		if strings.Trim(found, ":") == "" {
			return found // an ARN has empty parts
		}
		return removed
	})
	text = grouped.ReplaceAllStringFunc(text, func(found string) string {
		if countDigits(found) > maxDigits {
			return removed
		}
		return found
	})
	text = word.ReplaceAllStringFunc(text, func(found string) string {
		if r.words[strings.ToLower(found)] || number.MatchString(found) {
			return found
		}
		return removed
	})
	return strings.Map(func(c rune) rune {
		if c != '\n' && (unicode.IsControl(c) || c == unicode.ReplacementChar) {
			return -1
		}
		return c
	}, text)
}
