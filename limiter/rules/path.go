package rules

import (
	"regexp"
	"slices"
	"strings"
)

// NormalizePath returns the normal form of a request's path: percent-encodings
// decoded once, empty and "." segments dropped, ".." resolved, no slash at the end.
// Pass the path as the client spelled it, without stage or base path. A router that
// shares it sends every spelling of a path to the same place as the rules.
func NormalizePath(path string) string {
	if isNormal(path) {
		return path
	}
	segments := make([]string, 0, strings.Count(path, "/")+1)
	for segment := range strings.SplitSeq(decode(path), "/") {
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

// isNormal reports that a path need not be touched: the common case, for which it
// costs no allocation.
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

// decode replaces %XX by the byte; what is no escape stays as it is.
func decode(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if hi, lo := unhex(path[i+1]), unhex(path[i+2]); hi < 16 && lo < 16 {
				b = append(b, hi<<4|lo)
				i += 2
				continue
			}
		}
		b = append(b, path[i])
	}
	return string(b)
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// pattern is an endpoint of a rule.
type pattern struct {
	text     string
	segments []string // "{}" for a parameter
	below    bool     // everything below too
}

const parameter = "{}"

var parameterSegment = regexp.MustCompile(`^\{[A-Za-z0-9_]+\}$`)

// parsePattern reads an endpoint; problem says what is wrong with it.
func parsePattern(text string) (p pattern, problem string) {
	p.text = text
	if text == "*" {
		p.below = true
		return p, ""
	}
	rest, below := strings.CutSuffix(text, "/*")
	p.below = below
	if rest == "" && below {
		return p, `write "*" for every path`
	}
	if normal := NormalizePath(rest); normal != rest {
		if below {
			normal += "/*"
		}
		return p, "write " + strings.TrimPrefix(normal, "//")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		switch {
		case parameterSegment.MatchString(segment):
			segment = parameter
		case strings.ContainsAny(segment, "{}*"):
			return p, "a segment is literal or one {parameter}, and * stands alone at the end"
		case segment == "":
			continue
		}
		p.segments = append(p.segments, segment)
	}
	return p, ""
}

var unnamed = regexp.MustCompile(`[^a-z0-9_-]+`)

// name returns what a limit is called that has no name: the last segment that is not a
// parameter, or "all".
func (p pattern) name() string {
	for _, segment := range slices.Backward(p.segments) {
		if segment == parameter {
			continue
		}
		if name := strings.Trim(unnamed.ReplaceAllString(strings.ToLower(segment), "-"), "-"); name != "" {
			return name[:min(32, len(name))]
		}
		break
	}
	return "all"
}
