package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// contextNames are the variables of $context that this gateway has values for, beside
// those of the authorizer.
var contextNames = []string{
	"accountId", "apiId", "deploymentId", "domainName", "domainPrefix",
	"error.message", "error.messageString", "error.responseType", "extendedRequestId",
	"httpMethod", "identity.sourceIp", "identity.userAgent", "path", "protocol",
	"requestId", "requestTime", "requestTimeEpoch", "resourceId", "resourcePath", "stage",
}

// expression is a variable as gateway responses and identity sources name it, as
// context.authorizer.retryAfter.
type expression struct {
	source string // with the trailing dot
	name   string
}

// The sources of variables. Those of the request come before the shorter prefix.
var expressionSources = []string{
	"context.authorizer.", "context.", "stageVariables.",
	"method.request.header.", "method.request.path.", "method.request.querystring.",
}

// parseExpression reads a variable. One that has no value here is an error: API
// Gateway would put nothing in its place, and nobody would notice.
func parseExpression(text string) (expression, error) {
	for _, source := range expressionSources {
		name, ok := strings.CutPrefix(text, source)
		if !ok || name == "" {
			continue
		}
		if source == "context." && !slices.Contains(contextNames, name) {
			break
		}
		return expression{source, name}, nil
	}
	return expression{}, fmt.Errorf("%q is no variable that this gateway has", text)
}

// variables are the values of one request, as far as it has come.
type variables struct {
	context    map[string]string // by the name after $context
	authorizer map[string]string
	stage      map[string]string
	path       map[string]string
	query      url.Values
	header     http.Header
}

// value returns what an expression stands for; ok is false if the request has no such
// value. Of several values the last counts, as in an event.
func (v variables) value(e expression) (value string, ok bool) {
	switch e.source {
	case "context.":
		value, ok = v.context[e.name]
	case "context.authorizer.":
		value, ok = v.authorizer[e.name]
	case "stageVariables.":
		value, ok = v.stage[e.name]
	case "method.request.path.":
		value, ok = v.path[e.name]
	case "method.request.querystring.":
		return last(v.query[e.name])
	case "method.request.header.":
		return last(v.header.Values(e.name))
	}
	return value, ok
}

func last(values []string) (string, bool) {
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}
