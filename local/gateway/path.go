package gateway

import (
	"regexp"
	"strings"
)

// verbs are the methods that a method or a route can have.
var verbs = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// segment is one part of the path of a resource or a route.
type segment struct {
	kind segmentKind
	text string // the literal, or the name of the parameter
}

type segmentKind int

const (
	literal  segmentKind = iota
	variable             // {name}: one part of a path
	greedy               // {name+}: all that is left of a path
)

// The characters that the developer guide allows ("Amazon API Gateway important
// notes").
var (
	literalPart   = regexp.MustCompile(`^[A-Za-z0-9._:,-]+$`)
	parameterPart = regexp.MustCompile(`^\{([A-Za-z0-9._:-]+)(\+?)\}$`)
)

func parseSegment(part string) (segment, bool) {
	if match := parameterPart.FindStringSubmatch(part); match != nil {
		if match[2] != "" {
			return segment{greedy, match[1]}, true
		}
		return segment{variable, match[1]}, true
	}
	return segment{literal, part}, literalPart.MatchString(part)
}

// splitPath returns the parts of a path, none for "/".
func splitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// permissionPath is a declared path as CDK writes it in the ARN of a permission:
// parameters are wildcards.
func permissionPath(path string) string {
	parts := splitPath(path)
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "*"
		}
	}
	return "/" + strings.Join(parts, "/")
}
