package redact

import (
	_ "embed"
	"regexp"
	"strings"
	"unicode"
)

//go:embed words.txt
var known string

// Removed replaces a private value.
const Removed = "[…]"

// Redactor removes private values. It is safe for concurrent use.
type Redactor struct{ words map[string]bool }

// New returns a redactor that also keeps the words of public texts, such as the claims of rows.
func New(public ...string) *Redactor {
	r := &Redactor{words: map[string]bool{}}
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
	// digits is a run of digits with separators, such as an account id 1234-5678-9012.
	digits = regexp.MustCompile(`\pN+([^\pL\pN\n]{1,3}\pN+)+`)
	number = regexp.MustCompile(`^[0-9]{1,6}$|^([0-9]{1,3}(ms|s|m|h)){1,3}$`) // or a duration, such as 1m30s
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

// Text returns a text without private values.
func (r *Redactor) Text(text string) string {
	text = encoded.ReplaceAllString(text, Removed)
	text = authority.ReplaceAllString(text, "://"+Removed)
	text = address.ReplaceAllStringFunc(text, func(found string) string {
		if strings.Trim(found, ":") == "" {
			return found // an ARN has empty parts
		}
		return Removed
	})
	text = digits.ReplaceAllStringFunc(text, func(found string) string {
		if countDigits(found) > maxDigits {
			return Removed
		}
		return found
	})
	text = word.ReplaceAllStringFunc(text, func(found string) string {
		if r.words[strings.ToLower(found)] || number.MatchString(found) {
			return found
		}
		return Removed
	})
	return strings.Map(func(c rune) rune {
		if c != '\n' && (unicode.IsControl(c) || c == unicode.ReplacementChar) {
			return -1
		}
		return c
	}, text)
}
