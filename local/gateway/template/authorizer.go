package template

import (
	"fmt"
	"strings"
)

// Authorizer is a REQUEST authorizer of a REST API.
type Authorizer struct {
	Function        string     // logical id
	IdentitySources []Variable // a request without one of them gets a 401
}

// parseIdentitySources reads an authorizer's IdentitySource: variables separated by
// commas. An authorizer without a cache needs no identity source. CDK then writes "".
func parseIdentitySources(text string) ([]Variable, error) {
	if text == "" {
		return nil, nil
	}
	var sources []Variable
	for part := range strings.SplitSeq(text, ",") {
		source, err := parseVariable(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		// API Gateway does not accept a path parameter here. The variables context.authorizer.* and
		// context.error.* have no value before the authorizer runs.
		switch {
		case source.Source == "method.request.path.", source.Source == "context.authorizer.",
			strings.HasPrefix(source.Name, "error."):
			return nil, fmt.Errorf("%q: not an identity source", part)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
