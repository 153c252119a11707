package template

import (
	"strings"
	"testing"
)

// FuzzParseBody searches for a body that crashes the parser, or whose output
// is longer than its text and values together.
func FuzzParseBody(f *testing.F) {
	for _, text := range []string{
		`{"message":"$context.authorizer.message","limit":$context.authorizer.limit}`, `$context.error.messageString`, `$stageVariables.x$method.request.header.Origin`, `#set($x = 1)`, `$input.body`, `${context.x}`, `$!context.x`, `$context`, `$$context.requestId`, `https://x/#quota`, `#if(`, "$context.",
	} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		parsed, err := parseBody(text)
		if err != nil {
			return
		}
		values := map[string]string{}
		for _, part := range parsed {
			values[part.variable.Name] = value
		}
		got := parsed.Render(func(v Variable) (string, bool) { value, ok := values[v.Name]; return value, ok }, "")
		if most := len(text) + len(parsed)*len(value); len(got) > most {
			t.Errorf("%q with %q: got %d bytes, want at most %d", text, value, len(got), most)
		}
		if !strings.Contains(text, "$") && got != text {
			t.Errorf("%q: got %q, want the same text, because it has no variable", text, got)
		}
	})
}

// FuzzParseOrigins searches for a response template that parseOrigins accepts although CDK would
// not write it.
func FuzzParseOrigins(f *testing.F) {
	one := `$origin == "https://one.example"`
	for _, comparison := range []string{one, one + " || " + one, "", one + " && " + one, one + ` || $x`, `$origin == "a$b"`, `$origin == "a#b"`, `$origin == "\"`} {
		f.Add(mockTemplateStart + comparison + mockTemplateEnd)
	}
	f.Add(mockTemplateStart)
	f.Add(`{ statusCode: 204 }`)
	f.Fuzz(func(t *testing.T, template string) {
		origins, ok := parseOrigins(template)
		if !ok {
			return
		}
		var comparisons []string
		for _, origin := range origins {
			if strings.ContainsAny(origin, `"$#\`) {
				t.Errorf("%q: got origin %q, want one without \", $, # and \\", template, origin)
			}
			comparisons = append(comparisons, `$origin == "`+origin+`"`)
		}
		if again := mockTemplateStart + strings.Join(comparisons, " || ") + mockTemplateEnd; again != template {
			t.Errorf("template from the origins of %q: got %q, want the same template", template, again)
		}
		_ = mockRequest.MatchString(template)
	})
}
