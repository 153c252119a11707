package rules

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// ErrMalformedPath is the error of a path that contains a % without two hexadecimal digits after it.
// Programs interpret such a path differently. Do not route it: answer 400.
var ErrMalformedPath = errors.New("path: malformed percent-encoding (want % and two hexadecimal digits)")

// Path is the normal form of a request's path. Percent-encodings are decoded once, empty and "."
// segments are dropped, and ".." is resolved. A slash at the end, the stage and the base path are
// removed. Rules and the router use the same Path, so they select the same endpoint for a request.
// Create it with ParsePath, DecodedPath or URLPath. The zero Path is "/". It is immutable and
// comparable with ==.
type Path struct{ normal string }

// ParsePath parses a percent-encoded path as the client sent it. A REST API, a function URL, a load
// balancer and a request line have such paths. prefix is the normal form of the stage or base path,
// such as "/v1"; ParsePath removes it from the beginning of the path. The error is ErrMalformedPath.
func ParsePath(encoded, prefix string) (Path, error) {
	if isNormal(encoded) {
		return Path{encoded}.without(prefix), nil
	}
	decoded, err := url.PathUnescape(encoded)
	if err != nil {
		return Path{}, ErrMalformedPath
	}
	return DecodedPath(decoded, prefix), nil
}

// MustParsePath calls ParsePath without a prefix. It panics if the path is malformed.
func MustParsePath(encoded string) Path {
	p, err := ParsePath(encoded, "")
	if err != nil {
		panic(err)
	}
	return p
}

// DecodedPath parses a path that the host has already decoded, as an HTTP API does: a % is a literal.
// ParsePath describes prefix.
func DecodedPath(decoded, prefix string) Path { return Path{normalize(decoded)}.without(prefix) }

// URLPath parses the path of a URL of package net/url.
func URLPath(u *url.URL) Path {
	p, err := ParsePath(u.EscapedPath(), "")
	if err != nil { // impossible: EscapedPath returns a well-formed path
		return DecodedPath(u.Path, "")
	}
	return p
}

// String returns the path in its normal form, decoded.
func (p Path) String() string {
	if p.normal == "" {
		return "/"
	}
	return p.normal
}

// URL returns the URL for a router. URLPath of that URL returns p.
func (p Path) URL(rawQuery string) *url.URL { return &url.URL{Path: p.String(), RawQuery: rawQuery} }

// without returns p without a prefix. It removes whole segments: /v10 does not have the prefix /v1.
func (p Path) without(prefix string) Path {
	rest, ok := strings.CutPrefix(p.normal, prefix)
	if prefix == "" || !ok || rest != "" && rest[0] != '/' {
		return p
	}
	return Path{rest}
}

// normalize returns the normal form of a decoded path.
func normalize(path string) string {
	segments := make([]string, 0, strings.Count(path, "/")+1)
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// isNormal reports whether an encoded path is already in normal form. This is the common case. It
// needs no allocation.
func isNormal(path string) bool {
	if path == "/" {
		return true
	}
	start := true
	for i := range len(path) {
		switch c := path[i]; {
		case c == '%', c == '/' && start && i > 0, c == '.' && start:
			return false
		default:
			start = c == '/'
		}
	}
	return path != "" && path[0] == '/' && !start
}

// pattern is an endpoint of a rule.
type pattern struct {
	text     string
	segments []string // "{}" for a parameter
	names    []string // name of the parameter in each segment; "" for a literal segment
	below    bool     // true if the pattern also matches every path below it (/*)
}

// segment returns a segment of the path. It returns "" if the path has fewer segments.
func (p Path) segment(i int) string {
	rest := strings.TrimPrefix(p.normal, "/")
	for range i {
		_, rest, _ = strings.Cut(rest, "/")
	}
	segment, _, _ := strings.Cut(rest, "/")
	return segment
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
	if rest == "" && below {
		return p, `want "*" for every path`
	}
	path, err := ParsePath(rest, "")
	if err != nil { // an endpoint is not percent-encoded, so a % is a literal
		path = DecodedPath(rest, "")
	}
	if normal := path.String(); normal != rest {
		if below {
			normal += "/*"
		}
		return p, "want " + strings.TrimPrefix(normal, "//")
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
func (p pattern) example() Path {
	path := "/" + strings.Join(p.segments, "/")
	if p.below {
		path = strings.TrimSuffix(path, "/") + "/" + parameter
	}
	return Path{path}
}
