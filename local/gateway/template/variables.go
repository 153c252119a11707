package template

import (
	"fmt"
	"regexp"
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

// Text is text with variables: the body of a gateway response, or one line of an access log. Values are not escaped, so a
// quote in a value ends a JSON string (developer guide, "Gateway responses in API Gateway"). Assumed: the same is true of
// access logs.
type Text []textPart

// textPart is a variable if variable.Source is set, and text otherwise.
type textPart struct {
	text     string
	variable Variable
}

var (
	textVariable  = regexp.MustCompile(`\$((?:context|stageVariables|method\.request)(?:\.[A-Za-z0-9_-]+)+)`)
	textReference = regexp.MustCompile(`\$[A-Za-z!{]`)
	// textDirective matches a Velocity statement such as #set. A # without such a keyword is
	// text, because URLs can contain it.
	textDirective = regexp.MustCompile(`#(?:(?:set|if|elseif|foreach|macro|parse|include|define|evaluate)\s*\(|(?:else|end|stop|break)\b)`)
)

// parseText reads text with variables, whose names parse reads.
func parseText(text string, parse func(name string) (Variable, error)) (Text, error) {
	var all Text
	end := 0
	for _, at := range textVariable.FindAllStringSubmatchIndex(text, -1) {
		v, err := parse(text[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		all = append(all, textPart{text: text[end:at[0]]}, textPart{variable: v})
		end = at[1]
	}
	all = append(all, textPart{text: text[end:]})
	for _, part := range all {
		if at := textReference.FindStringIndex(part.text); at != nil {
			return nil, fmt.Errorf("%.20q: unknown variable", part.text[at[0]:])
		}
	}
	return all, nil
}

// parseBody reads the body of a gateway response: text with variables, without Velocity statements.
func parseBody(text string) (Text, error) {
	if directive := textDirective.FindString(text); directive != "" {
		return nil, fmt.Errorf("%q: statements are not supported in a gateway response, only variables", directive)
	}
	return parseText(text, parseVariable)
}

// Render returns the text with the values of its variables. lookUp returns the value of a variable, and absent replaces a
// variable without a value. Assumed: that is empty text in a body. It is - in an access log.
func (t Text) Render(lookUp func(Variable) (string, bool), absent string) string {
	var b strings.Builder
	for _, part := range t {
		text := part.text
		if part.variable.Source != "" {
			var ok bool
			if text, ok = lookUp(part.variable); !ok {
				text = absent
			}
		}
		b.WriteString(text)
	}
	return b.String()
}
