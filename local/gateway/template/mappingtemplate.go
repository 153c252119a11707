package template

import (
	"fmt"
	"regexp"
	"strings"
)

// MappingTemplate is the body of a gateway response: text with variables, without Velocity
// statements. Values are not escaped, so a quote in a value ends a JSON string (developer guide,
// "Gateway responses in API Gateway").
type MappingTemplate []templatePart

// templatePart is a variable if variable.Source is set, and text otherwise.
type templatePart struct {
	text     string
	variable Variable
}

var (
	templateVariable  = regexp.MustCompile(`\$((?:context|stageVariables|method\.request)(?:\.[A-Za-z0-9_-]+)+)`)
	templateReference = regexp.MustCompile(`\$[A-Za-z!{]`)
	// templateDirective matches a Velocity statement such as #set. A # without such a keyword is
	// text, because URLs can contain it.
	templateDirective = regexp.MustCompile(`#(?:(?:set|if|elseif|foreach|macro|parse|include|define|evaluate)\s*\(|(?:else|end|stop|break)\b)`)
)

func parseMappingTemplate(text string) (MappingTemplate, error) {
	if directive := templateDirective.FindString(text); directive != "" {
		return nil, fmt.Errorf("%q: statements are not supported in a gateway response, only variables", directive)
	}
	var template MappingTemplate
	end := 0
	for _, at := range templateVariable.FindAllStringSubmatchIndex(text, -1) {
		e, err := parseVariable(text[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		template = append(template, templatePart{text: text[end:at[0]]}, templatePart{variable: e})
		end = at[1]
	}
	template = append(template, templatePart{text: text[end:]})
	for _, part := range template {
		if at := templateReference.FindStringIndex(part.text); at != nil {
			return nil, fmt.Errorf("%.20q: unknown variable", part.text[at[0]:])
		}
	}
	return template, nil
}

// Render returns the text with the values of its variables. lookUp returns the value of a variable.
// Assumed: a variable without a value becomes empty text.
func (t MappingTemplate) Render(lookUp func(Variable) (string, bool)) string {
	var b strings.Builder
	for _, part := range t {
		if part.variable.Source == "" {
			b.WriteString(part.text)
			continue
		}
		value, _ := lookUp(part.variable)
		b.WriteString(value)
	}
	return b.String()
}
