package rules

import (
	"cmp"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// Path is the path of a request, as its host delivers it. Routers of back ends read some paths differently: a back
// end may decode a segment, decode the path before it splits the path, or drop empty segments. Each result is a
// reading of the path, and rules match each reading.
//
// Create it with EncodedPath, DecodedPath or URLPath. The zero Path is "/". It is immutable.
type Path struct {
	text     string
	prefixes []string
	decoded  bool
	noPath   bool // the target of the request has no path
}

// maxPath is the length in bytes of the longest path that is read. API Gateway accepts about as much; net/http accepts
// a megabyte, and each reading of such a path would need several times its memory.
const maxPath = 8 << 10

// EncodedPath returns a percent-encoded path as the client sent it. A REST API, a function URL, a load
// balancer and a request line have such paths.
func EncodedPath(path string) Path { return Path{text: path} }

// DecodedPath returns a path that the host has already decoded, as an HTTP API does. A % without two
// hexadecimal digits after it is a literal.
func DecodedPath(path string) Path { return Path{text: path, decoded: true} }

// URLPath returns the path of a URL of package net/url. EscapedPath alone would change a RawPath with a character that
// must be encoded, and routers that read RawPath would see another path than the rules.
//
// An opaque target, such as "x:http://host/login", has no path, but a reverse proxy makes one from it. It is malformed.
func URLPath(u *url.URL) Path {
	if u.Opaque != "" || len(u.Path) > maxPath || len(u.RawPath) > maxPath {
		return Path{noPath: true}
	}
	if u.RawPath != "" {
		if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path {
			return EncodedPath(u.RawPath)
		}
	}
	return EncodedPath(u.EscapedPath())
}

// String returns the path as the host delivers it.
func (p Path) String() string { return cmp.Or(p.text, "/") }

// Below returns p without the stage or base path that the host has added, such as "/v1". Domains have different
// mappings, so the host can have added any prefix with which the path begins. Therefore, the path has one reading
// without each of these prefixes. The prefix "/" stands for a domain that adds nothing. The prefixes are plain; see
// Plain.
func (p Path) Below(prefixes []string) Path {
	p.prefixes = prefixes
	return p
}

// Plain reports whether all routers read a path in the same way, except for the settings of a document: it
// begins with a slash, and it has no %, no empty or dot segment, and no slash at the end.
func Plain(path string) bool { return plainly.isPlain(path) }

var plainly = newSpelling(document.Spelling{})

// spelling contains how back ends can read a path.
type spelling struct {
	document.Spelling

	// special contains the bytes of which a plain path has none.
	special [256]bool
}

func newSpelling(d document.Spelling) *spelling {
	s := &spelling{Spelling: d}
	special := "%?#\x7f"
	if d.IgnoreSuffix {
		special += "."
	}
	if d.IgnoreParameters {
		special += ";"
	}
	if d.BackslashIsSlash {
		special += `\`
	}
	for c := range s.special {
		s.special[c] = c <= ' ' || c >= 0x80 || strings.IndexByte(special, byte(c)) >= 0 || d.IgnoreCase && c >= 'A' && c <= 'Z'
	}
	return s
}

// isPlain reports whether a path is its only reading. This is the common case. It needs no allocation.
func (s *spelling) isPlain(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	start := true // path[i] begins a segment
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case s.special[c], start && (c == '/' || c == '.'):
			return false
		default:
			start = c == '/'
		}
	}
	return !start || len(path) == 1
}

// reading is a path as a router can understand it.
type reading struct {
	path string
	raw  bool // the router compares the segments without decoding them
}

// readings appends the readings of a path to dst, each once. A plain path has one. Other paths have at most
// nine: the segments are not decoded, decoded after the path is split, or decoded before; and empty segments
// are kept, kept except at the end, or dropped. A back end that parses the path as a URL once more adds this number
// again for each of: the text without white space at its end, the text before ? or #, also encoded, with IgnoreParameters the text before
// the first ; (Fastify with useSemicolonDelimiter), and the text after //host. IgnoreParameters and BackslashIsSlash double
// the number, because a back end can apply them before it decodes the path, after, or twice; a proxy can encode a backslash
// on the way. IgnoreSuffix adds a reading to each, and so does IgnoreCase if the path has letters outside ASCII. There are as
// many for each prefix with which the path begins; see Below.
//
// ok is false if the path is malformed: it does not begin with a slash, or is longer than maxPath; it has a dot segment
// in some reading, or a % without two hexadecimal digits after it; or its text, or its decoded text, has a control
// character or invalid UTF-8. The patterns of Starlette match /login%0a as /login, and Bottle drops invalid UTF-8.
//
// In a reading, %2F is a slash within a segment that is decoded after the split.
func (s *spelling) readings(dst []reading, p Path) (readings []reading, ok bool) {
	if len(p.text) > maxPath || p.noPath {
		return dst, false
	}
	if s.isPlain(p.text) {
		if len(p.prefixes) == 0 {
			return append(dst, reading{path: p.text}), true
		}
		for path := range below(p.text, p.prefixes, s.IgnoreCase) {
			dst = appendNew(dst, reading{path: path})
		}
		return dst, true
	}
	text := p.String()
	if text[0] != '/' {
		return dst, false
	}
	for _, text := range s.parsed(text) {
		dst, ok = s.read(dst, text, p)
		if !ok {
			return dst, false
		}
	}
	return dst, true
}

// parsed returns the text of a path, and each other text that a back end reads if a proxy in front of it encodes the path
// again, or if it then parses the path as a URL.
func (s *spelling) parsed(text string) []string {
	texts := []string{text}
	if before, _, cut := strings.Cut(text, ";"); cut && s.IgnoreParameters {
		texts = append(texts, before)
	}
	if end := encodedEnd(text); end >= 0 {
		texts = append(texts, text[:end])
	}
	if strings.ContainsFunc(text, notInURL) {
		trimmed := trim(text)
		texts = append(texts, trimmed)
		if end := strings.IndexAny(trimmed, "?#"); end >= 0 {
			texts = append(texts, trim(trimmed[:end]))
		}
	}
	for _, text := range texts {
		if sent, ok := s.proxied(text); ok {
			texts = append(texts, sent)
		}
	}
	for _, text := range texts {
		if path, ok := afterAuthority(text, s.BackslashIsSlash); ok {
			texts = append(texts, path)
		}
	}
	return texts
}

// encodedEnd returns the index of the first encoded ? or # of a path, at which it ends for a back end that decodes it before
// it parses it as a URL (h3); -1 if it has none.
func encodedEnd(text string) int {
	for i := 0; i+2 < len(text); i++ {
		if text[i] == '%' && (text[i+1] == '2' && text[i+2] == '3' || text[i+1] == '3' && text[i+2]|0x20 == 'f') {
			return i
		}
	}
	return -1
}

// proxied returns the text that a reverse proxy of package net/http/httputil sends, if its readings can be others: it decodes
// a path with a character that must be encoded, and encodes it again, so that %2F becomes a slash, and a backslash %5C.
func (s *spelling) proxied(text string) (sent string, ok bool) {
	path, err := url.PathUnescape(text)
	if err != nil {
		return "", false
	}
	sent = (&url.URL{Path: path, RawPath: text}).EscapedPath()
	before, _ := decode(text, true)
	after, _ := decode(sent, true)
	return sent, before != after || s.BackslashIsSlash && strings.Contains(text, `\`)
}

// afterAuthority returns the path of a reference such as //host/path, as parsers of URLs read it relative to a base
// (WHATWG URL, "special authority ignore slashes state"): any number of slashes, an authority, and a path.
func afterAuthority(text string, backslash bool) (path string, ok bool) {
	slashes := "/"
	if backslash {
		slashes = `/\`
	}
	rest := strings.TrimLeft(text, slashes)
	if len(text)-len(rest) < 2 {
		return "", false
	}
	end := strings.IndexAny(rest, slashes)
	if end < 0 {
		return "/", true
	}
	return rest[end:], true
}

// read appends the readings of text. text is the path p, or the path that remains when p is parsed as a URL.
func (s *spelling) read(dst []reading, text string, p Path) (readings []reading, ok bool) {
	whole, wellFormed := decode(text, false)
	if strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsFunc(whole, unicode.IsControl) || !utf8.ValidString(whole) {
		return dst, false
	}
	whole = s.separate(whole)
	if hasDots(whole) || !wellFormed && !p.decoded { // a dot segment in any other reading is also in whole
		return dst, false
	}
	raw := s.separate(text)
	segments, _ := decode(raw, true)
	separated, _ := decode(raw, false)
	for i, decoded := range [...]string{raw, segments, separated, s.separate(segments), s.separate(separated), whole} {
		for _, path := range [...]string{decoded, strings.TrimSuffix(decoded, "/"), joined(decoded)} {
			for path := range below(path, p.prefixes, s.IgnoreCase) {
				forms := []string{path}
				if s.IgnoreCase {
					forms = []string{lower(path), folded(path)}
				}
				for _, form := range forms {
					dst = appendNew(dst, reading{form, i == 0})
					if s.IgnoreSuffix {
						dst = appendNew(dst, reading{withoutSuffix(form), i == 0})
					}
				}
			}
		}
	}
	return dst, true
}

func appendNew(list []reading, r reading) []reading {
	if slices.ContainsFunc(list, func(known reading) bool { return known.path == r.path }) {
		return list
	}
	return append(list, r)
}

// segment returns a segment of the path, decoded. It returns "" if the path has fewer segments.
func (r *reading) segment(i int) (segment string) {
	for path := r.path; i >= 0; i-- {
		if path == "" {
			return ""
		}
		segment, path = next(path)
	}
	if r.raw {
		segment, _ = decode(segment, true)
	}
	return segment
}

// TrimPrefix returns a path without the longest of the prefixes, for a router, which can have only one reading. API
// Gateway chooses the mapping of a custom domain in this way.
func TrimPrefix(path string, prefixes []string) string {
	shortest := cmp.Or(path, "/")
	for rest := range below(path, prefixes, false) {
		if len(rest) < len(shortest) {
			shortest = rest
		}
	}
	return shortest
}

// below returns a path without each prefix with which it begins, or the path itself if there is none. A path begins
// only with whole segments: /v10 does not begin with /v1. With ignoreCase, a path that begins with a prefix in another
// letter case is returned with the prefix and without it: API Gateway does not remove the prefix, but a back end can.
func below(path string, prefixes []string, ignoreCase bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		none := true
		for _, prefix := range prefixes {
			prefix = strings.TrimSuffix(prefix, "/")
			rest, exact := strings.CutPrefix(path, prefix)
			if !exact && ignoreCase && len(path) >= len(prefix) && strings.EqualFold(path[:len(prefix)], prefix) {
				rest = path[len(prefix):]
			} else if !exact {
				continue
			}
			if rest != "" && rest[0] != '/' {
				continue
			}
			none = none && !exact
			if !yield(cmp.Or(rest, "/")) {
				return
			}
		}
		if none {
			yield(cmp.Or(path, "/"))
		}
	}
}

// folded returns a path in lower case, with one form of the letters that some routers compare as equal, such as s and ſ.
func folded(path string) string { return strings.ToLower(strings.ToUpper(path)) }

// lower returns a path with its ASCII letters in lower case. Some routers ignore the case of no other letters.
func lower(path string) string {
	b := []byte(path)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// withoutSuffix returns a path without the format suffix of its last segment, such as .json.
func withoutSuffix(path string) string {
	dot := strings.LastIndexByte(path, '.')
	if before := path[:max(0, dot)]; dot > strings.LastIndexByte(path, '/')+1 && !hasDots(before) {
		return before
	}
	return path
}

// decode decodes percent-encodings once. With keepSlash, an encoded slash becomes %2F. It keeps a % without two
// hexadecimal digits after it, and wellFormed is then false.
func decode(path string, keepSlash bool) (decoded string, wellFormed bool) {
	if !strings.Contains(path, "%") {
		return path, true
	}
	b := make([]byte, 0, len(path))
	wellFormed = true
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b = append(b, path[i])
			continue
		}
		n, err := strconv.ParseUint(path[i+1:min(i+3, len(path))], 16, 8)
		switch {
		case err != nil || i+2 >= len(path):
			b, wellFormed = append(b, '%'), false
			continue
		case n == '/' && keepSlash:
			b = append(b, "%2F"...)
		default:
			b = append(b, byte(n))
		}
		i += 2
	}
	return string(b), wellFormed
}

// separate applies BackslashIsSlash and IgnoreParameters to a path.
func (s *spelling) separate(path string) string {
	if s.BackslashIsSlash {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	if !s.IgnoreParameters || !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}

// notInURL reports whether parsers of URLs give a character of a path another meaning.
func notInURL(c rune) bool { return isSpace(c) || c == '?' || c == '#' }

// isSpace reports whether parsers of URLs drop a character at the end of a URL.
func isSpace(c rune) bool { return c == ' ' || c == '\u00a0' || c == '\ufeff' }

// trim returns a path as parsers of URLs return it: without white space at the end. For them, a backslash is a slash.
func trim(path string) string {
	return strings.TrimRightFunc(strings.ReplaceAll(path, `\`, "/"), isSpace)
}

// hasDots reports whether a path has a segment . or ..
func hasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// joined returns a path without empty segments.
func joined(path string) string {
	segments := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	if len(segments) == 0 {
		return ""
	}
	return "/" + strings.Join(segments, "/")
}

// next returns the first segment of a path, and the path after it. The path begins with a slash.
func next(path string) (segment, rest string) {
	if end := strings.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : 1+end], path[1+end:]
	}
	return path[1:], ""
}

// pattern is an endpoint of a rule.
type pattern struct {
	text     string
	segments []string // "{}" for a parameter
	names    []string // name of the parameter in each segment; "" for a literal segment
	below    bool     // true if the pattern also matches every path below it (/*)
}

func (p *pattern) matches(r reading) bool {
	path := r.path
	if path == "/" {
		path = ""
	}
	for _, want := range p.segments {
		if path == "" || path == "/" {
			return false
		}
		var segment string
		segment, path = next(path)
		if segment != want && want != parameter {
			return false
		}
	}
	return path == "" || p.below
}

// contains reports whether p matches every path that q matches.
func (p *pattern) contains(q pattern) bool {
	if len(p.segments) > len(q.segments) || !p.below && (q.below || len(p.segments) < len(q.segments)) {
		return false
	}
	for i, segment := range p.segments {
		if segment != parameter && segment != q.segments[i] {
			return false
		}
	}
	return true
}

const parameter = "{}"

// Names are read without regular expressions, whose compilation would make each cold start longer.
const (
	nameCharacters      = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	parameterCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
)

// isParameter reports whether a segment is a parameter, such as {id}.
func isParameter(segment string) bool {
	name, opened := strings.CutPrefix(segment, "{")
	name, closed := strings.CutSuffix(name, "}")
	return opened && closed && name != "" && strings.Trim(name, parameterCharacters) == ""
}

// parsePattern parses an endpoint. If the endpoint is invalid, problem describes valid endpoints.
func parsePattern(text string) (p pattern, problem string) {
	p.text = text
	if text == "*" {
		p.below = true
		return p, ""
	}
	rest, below := strings.CutSuffix(text, "/*")
	p.below = below
	decoded, ok := decode(rest, false)
	if !ok { // an endpoint is not percent-encoded, so a % is a literal
		decoded = rest
	}
	if hasDots(decoded) {
		return p, "want a path without the segments . and .., because Weir refuses such requests"
	}
	switch normal := joined(decoded); {
	case normal == "" && below:
		return p, `want "*" for every path`
	case below && normal != rest:
		return p, "want " + normal + "/*"
	case cmp.Or(normal, "/") != rest:
		return p, "want " + cmp.Or(normal, "/")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		name := ""
		switch {
		case isParameter(segment):
			name, segment = strings.Trim(segment, "{}"), parameter
		case strings.HasPrefix(segment, ":"), strings.HasPrefix(segment, "<"):
			return p, "want a parameter as {id}, not as :id or <id>"
		case strings.HasSuffix(segment, "+}"):
			return p, "want /* as the last segment instead of {proxy+}"
		case strings.ContainsAny(segment, "{}*"):
			return p, "want segments that are literals or one {parameter}; a * must be the whole last segment"
		case segment == "":
			continue
		}
		p.segments, p.names = append(p.segments, segment), append(p.names, name)
	}
	return p, ""
}

// name returns the default name of a limit: the last segment that is not a parameter, or "all".
func (p pattern) name() string {
	for _, segment := range slices.Backward(p.segments) {
		if segment == parameter {
			continue
		}
		if name := nameOf(segment); name != "" {
			return name
		}
		break
	}
	return "all"
}

// nameOf returns a segment as a name: in lower case, with a hyphen for each sequence of other characters.
// It returns "" if nothing remains.
func nameOf(segment string) string {
	words := strings.FieldsFunc(strings.ToLower(segment), func(c rune) bool { return !strings.ContainsRune(nameCharacters, c) })
	name := strings.Trim(strings.Join(words, "-"), "-")
	return name[:min(32, len(name))]
}

// example returns a path that matches p, and as few other patterns as possible.
func (p pattern) example() string {
	path := "/" + strings.Join(p.segments, "/")
	if p.below {
		path = strings.TrimSuffix(path, "/") + "/" + parameter
	}
	return path
}
