package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// GatewayResponse customizes one type of answer that API Gateway creates without a function,
// such as the 429 of a throttle or the 403 after an authorizer's denial.
type GatewayResponse struct {
	Status      int             // 0: the default status of the type
	Headers     map[string]Text // each one literal or one variable
	ContentType string
	Body        Text
}

// responseTypes lists the types in the developer guide, "Gateway response types for API
// Gateway". A template cannot customize REQUEST_TOO_LARGE.
var responseTypes = []string{
	"ACCESS_DENIED", "API_CONFIGURATION_ERROR", "AUTHORIZER_CONFIGURATION_ERROR", "AUTHORIZER_FAILURE",
	"BAD_REQUEST_BODY", "BAD_REQUEST_PARAMETERS", "DEFAULT_4XX", "DEFAULT_5XX", "EXPIRED_TOKEN",
	"INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT", "INVALID_API_KEY", "INVALID_SIGNATURE",
	"MISSING_AUTHENTICATION_TOKEN", "QUOTA_EXCEEDED", "RESOURCE_NOT_FOUND", "THROTTLED", "UNAUTHORIZED",
	"UNSUPPORTED_MEDIA_TYPE", "WAF_FILTERED",
}

const defaultContentType = "application/json"

func parseResponse(kind string, status int, parameters, templates map[string]string) (r GatewayResponse, err error) {
	if !slices.Contains(responseTypes, kind) {
		return r, fmt.Errorf("ResponseType: got %q, want a gateway response type that can be customized", kind)
	}
	r = GatewayResponse{Status: status, Headers: map[string]Text{}, ContentType: defaultContentType}
	for key, value := range parameters {
		name, ok := strings.CutPrefix(key, "gatewayresponse.header.")
		variable, isVariable := strings.CutPrefix(value, "context.")
		text, isLiteral := literal(value)
		switch {
		case ok && isLiteral:
			r.Headers[name] = Text{{text: text}}
		case ok && isVariable && known(variable):
			r.Headers[name] = Text{{variable: variable}}
		default:
			return r, fmt.Errorf("ResponseParameters: got %q: %q, want a header, and a literal in single quotes or a variable of context",
				key, value)
		}
	}
	text, ok := templates[defaultContentType]
	if !ok && len(templates) > 0 || len(templates) > 1 {
		return r, fmt.Errorf("ResponseTemplates: got %q, want one of %s", slices.Sorted(maps.Keys(templates)), defaultContentType)
	}
	if !ok {
		text = `{"message":$context.error.messageString}`
	}
	if directive.MatchString(text) {
		return r, fmt.Errorf("ResponseTemplates: got %q, want only text and variables", text)
	}
	r.Body, err = parseText(text)
	return r, err
}

func literal(value string) (text string, ok bool) {
	if len(value) < 2 || value[0] != '\'' || value[len(value)-1] != '\'' {
		return "", false
	}
	return value[1 : len(value)-1], true
}

// directive matches a Velocity statement such as #set. A # without such a keyword is text, because URLs can contain it.
var directive = regexp.MustCompile(`#(?:(?:set|if|elseif|foreach|macro|parse|include|define|evaluate)\s*\(|(?:else|end|stop|break)\b)`)

// contextNames lists the $context variables for which package gateway has values, without authorizer.*.
var contextNames = []string{
	"accountId", "apiId", "deploymentId", "domainName", "domainPrefix",
	"error.message", "error.messageString", "error.responseType", "extendedRequestId",
	"httpMethod", "identity.sourceIp", "identity.userAgent", "path", "protocol",
	"requestId", "requestTime", "requestTimeEpoch", "resourceId", "resourcePath", "stage",
}

// Text is text with variables: a header or the body of a gateway response. Values are not escaped, so a
// quote in a value ends a JSON string (developer guide, "Gateway responses in API Gateway").
type Text []textPart

// textPart is a variable of $context if variable is set, and text otherwise.
type textPart struct{ text, variable string }

var reference = regexp.MustCompile(`\$context((?:\.[A-Za-z0-9_-]+)+)|\$[A-Za-z!{]`)

// parseText reads text with variables. It rejects a variable that never has a value, because
// a typo would otherwise become empty text in an answer.
func parseText(text string) (all Text, err error) {
	end := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		if at[2] < 0 || !known(text[at[2]+1:at[3]]) {
			return nil, fmt.Errorf("%.40q: unknown variable", text[at[0]:])
		}
		all = append(all, textPart{text: text[end:at[0]]}, textPart{variable: text[at[2]+1 : at[3]]})
		end = at[1]
	}
	return append(all, textPart{text: text[end:]}), nil
}

// known reports whether a variable can have a value.
func known(variable string) bool {
	return strings.HasPrefix(variable, "authorizer.") || slices.Contains(contextNames, variable)
}

// Render returns the text with the values of its variables. Assumed: a variable without a value is empty text.
func (t Text) Render(values map[string]string) string {
	var b strings.Builder
	for _, part := range t {
		b.WriteString(part.text + values[part.variable])
	}
	return b.String()
}
