package template

import (
	"regexp"
	"strings"
)

// verbs are the HTTP methods that a method or a route can have.
var verbs = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// Segment is one part of the path of a resource or a route.
type Segment struct {
	Kind SegmentKind
	Text string // the literal, or the name of the parameter
}

// SegmentKind determines which parts of a path a segment matches. The more specific of two kinds has the
// smaller value.
type SegmentKind int

// The kinds of segments.
const (
	Literal SegmentKind = iota // one part of a path, equal to Text
	Param                      // {name}: one part of a path
	Greedy                     // {name+}: the rest of a path
)

// The characters that the developer guide allows ("Amazon API Gateway important
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

// SplitPath returns the parts of a path. It returns none for "/".
func SplitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// permissionPath returns a path in the form that CDK writes in the ARN of a permission:
// every parameter is a wildcard.
func permissionPath(path string) string {
	parts := SplitPath(path)
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "*"
		}
	}
	return "/" + strings.Join(parts, "/")
}
