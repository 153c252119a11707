package template

import (
	"fmt"
	"slices"
	"strings"
)

// contextNames lists the variables of $context for which package gateway has values. The
// variables context.authorizer.* are not in the list.
var contextNames = []string{
	"accountId", "apiId", "deploymentId", "domainName", "domainPrefix",
	"error.message", "error.messageString", "error.responseType", "extendedRequestId",
	"httpMethod", "identity.sourceIp", "identity.userAgent", "path", "protocol",
	"requestId", "requestTime", "requestTimeEpoch", "resourceId", "resourcePath", "stage",
}

// Variable is a variable of a gateway response or an identity source, such as
// context.authorizer.retryAfter.
type Variable struct {
	Source string // up to the last dot, such as "context.authorizer."
	Name   string
}

// variableSources are the known sources. parseVariable uses the first one that matches. Therefore,
// "context.authorizer." comes before its prefix "context.".
var variableSources = []string{
	"context.authorizer.", "context.", "stageVariables.",
	"method.request.header.", "method.request.path.", "method.request.querystring.",
}

// parseVariable reads a variable. A variable that never has a value is an error. Without this error, a
// typo would become empty text in an answer.
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
