package template

import (
	"regexp"
	"strings"
)

var verbs = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// Segment is one part of the path of a resource or a route, between two slashes.
type Segment struct {
	Kind SegmentKind
	Text string // the literal, or the parameter's name
}

// SegmentKind defines which parts of a path a segment matches. A smaller value is more specific.
type SegmentKind int

// The kinds of segments.
const (
	Literal SegmentKind = iota // matches one part, equal to Text
	Param                      // {name}: matches one part
	Greedy                     // {name+}: matches the rest of the path
)

// The characters that a path part may contain (developer guide, "Amazon API Gateway important
// notes").
var (
	literalPart   = regexp.MustCompile(`^[A-Za-z0-9._:,-]+$`)
	parameterPart = regexp.MustCompile(`^\{([A-Za-z0-9._:-]+)(\+?)\}$`)
)

func parseSegment(part string) (Segment, bool) {
	if match := parameterPart.FindStringSubmatch(part); match != nil {
		if match[2] != "" {
			return Segment{Greedy, match[1]}, true
		}
		return Segment{Param, match[1]}, true
	}
	return Segment{Literal, part}, literalPart.MatchString(part)
}

// SplitPath returns the parts of a path between the slashes. It returns none for "/".
func SplitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// permissionPath returns a path with * for every parameter, as CDK writes it in the ARN of a
// permission.
func permissionPath(path string) string {
	parts := SplitPath(path)
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "*"
		}
	}
	return "/" + strings.Join(parts, "/")
}
