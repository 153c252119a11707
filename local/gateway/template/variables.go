package template

import (
	"fmt"
	"slices"
	"strings"
)

// contextNames lists the $context variables for which package gateway has values, except
// context.authorizer.*.
var contextNames = []string{
	"accountId", "apiId", "deploymentId", "domainName", "domainPrefix",
	"error.message", "error.messageString", "error.responseType", "extendedRequestId",
	"httpMethod", "identity.sourceIp", "identity.userAgent", "path", "protocol",
	"requestId", "requestTime", "requestTimeEpoch", "resourceId", "resourcePath", "stage",
}

// Variable is a variable in a gateway response, an identity source or an access log, such as
// context.authorizer.retryAfter.
type Variable struct {
	Source string // the name up to its last dot, such as "context.authorizer."
	Name   string
}

// variableSources are the known sources. parseVariable uses the first match, so
// "context.authorizer." must stand before its prefix "context.".
var variableSources = []string{
	"context.authorizer.", "context.", "stageVariables.",
	"method.request.header.", "method.request.path.", "method.request.querystring.",
}

// parseVariable reads the name of a variable. It rejects a variable that never has a value, because
// a typo would otherwise become empty text in an answer.
func parseVariable(text string) (Variable, error) {
	for _, source := range variableSources {
		name, ok := strings.CutPrefix(text, source)
		if !ok || name == "" {
			continue
		}
		if source == "context." && !slices.Contains(contextNames, name) {
			break
		}
		return Variable{source, name}, nil
	}
	return Variable{}, fmt.Errorf("%q: unknown variable", text)
}
