package gateway

import (
	"fmt"
	"regexp"
	"strings"
)

// bodyTemplate is a mapping template of a gateway response. It knows variables and
// nothing else, and escapes nothing: a quote in a value ends a JSON string (developer
// guide, "Gateway responses in API Gateway").
type bodyTemplate []templatePart

// templatePart is a variable, or literal text if the variable has no source.
type templatePart struct {
	text     string
	variable expression
}

var (
	templateVariable = regexp.MustCompile(`\$((?:context|stageVariables|method\.request)(?:\.[A-Za-z0-9_-]+)+)`)
	// templateReference is what Velocity would take for a reference of some kind.
	templateReference = regexp.MustCompile(`\$[A-Za-z!{]`)
	// templateDirective is a statement of Velocity. A # alone is text: URLs have one.
	templateDirective = regexp.MustCompile(`#(?:(?:set|if|elseif|foreach|macro|parse|include|define|evaluate)\s*\(|(?:else|end|stop|break)\b)`)
)

func parseBodyTemplate(text string) (bodyTemplate, error) {
	if directive := templateDirective.FindString(text); directive != "" {
		return nil, fmt.Errorf("%q: a gateway response has variables and no statements", directive)
	}
	var template bodyTemplate
	end := 0
	for _, at := range templateVariable.FindAllStringSubmatchIndex(text, -1) {
		e, err := parseExpression(text[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		template = append(template, templatePart{text: text[end:at[0]]}, templatePart{variable: e})
		end = at[1]
	}
	template = append(template, templatePart{text: text[end:]})
	for _, part := range template {
		if at := templateReference.FindStringIndex(part.text); at != nil {
			return nil, fmt.Errorf("%.20q is no variable that this gateway has", part.text[at[0]:])
		}
	}
	return template, nil
}

// render fills in the variables. One without a value leaves nothing behind, which is
// assumed of AWS.
func (t bodyTemplate) render(v variables) string {
	var b strings.Builder
	for _, part := range t {
		if part.variable.source == "" {
			b.WriteString(part.text)
			continue
		}
		value, _ := v.value(part.variable)
		b.WriteString(value)
	}
	return b.String()
}
