package template

import (
	"fmt"
	"strings"
)

// Authorizer is a REQUEST authorizer of a REST API.
type Authorizer struct {
	Function        string     // logical id of the function
	IdentitySources []Variable // a request without a value for one of them gets a 401
}

// parseIdentitySources reads an authorizer's IdentitySource: variables separated by commas. CDK
// writes "" for an authorizer without a cache, which needs no identity source.
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
		// Path parameters are not valid identity sources. context.authorizer.* and context.error.*
		// have no value before the authorizer runs.
		switch {
		case source.Source == "method.request.path.", source.Source == "context.authorizer.",
			strings.HasPrefix(source.Name, "error."):
			return nil, fmt.Errorf("%q: not an identity source", part)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
