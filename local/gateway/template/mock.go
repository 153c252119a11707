package template

import (
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// Mock is a MOCK integration in the form that CDK writes for preflights: it answers 204 with
// headers and without a body.
type Mock struct {
	Headers map[string]string // key: canonical name
	// Origins are the allowed origins if there are several. A mock echoes the Origin of a request
	// in Access-Control-Allow-Origin if Origins contains it. Otherwise the header has the value in
	// Headers, the first allowed origin.
	Origins []string
}

var (
	// mockRequest matches the request template of a MOCK integration. Its statusCode selects an
	// integration response. A mock has only one here, so the number has no effect.
	mockRequest = regexp.MustCompile(`^\s*\{\s*"?statusCode"?\s*:\s*[2-5]\d\d\s*\}\s*$`)
	// mockOrigin matches one comparison in the condition of CDK's response template, such as
	// $origin == "https://one.example".
	mockOrigin = regexp.MustCompile(`^\$origin == "([^"$#\\]+)"$`)
)

// The text of CDK's response template before and after its comparisons of the origin.
const (
	mockTemplateStart = "#set($origin = $input.params().header.get(\"Origin\"))\n" +
		"#if($origin == \"\")\n" +
		"  #set($origin = $input.params().header.get(\"origin\"))\n" +
		"#end\n" +
		"#if("
	mockTemplateEnd = ")\n" +
		"  #set($context.responseOverride.header.Access-Control-Allow-Origin = $origin)\n" +
		"#end"
)

func readMock(q *properties) *Mock {
	m := &Mock{Headers: map[string]string{}}
	q.inert("PassthroughBehavior")
	requests := q.textMap("RequestTemplates")
	if text := requests[defaultContentType]; len(requests) != 1 || !mockRequest.MatchString(text) {
		q.refuse("RequestTemplates", text, "one for application/json, { statusCode: 200 }")
	}
	responses := q.objects("IntegrationResponses")
	if len(responses) != 1 {
		q.p.add(q.at("IntegrationResponses"), "got %d responses, want one", len(responses))
		return m
	}
	m.readResponse(responses[0])
	return m
}

func (m *Mock) readResponse(q *properties) {
	defer q.done()
	if status := q.text("StatusCode"); status != "204" {
		q.refuse("StatusCode", status, "204: a mock only answers preflights, without a body")
	}
	parameters := q.textMap("ResponseParameters")
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		name, ok := strings.CutPrefix(key, "method.response.header.")
		text := parameters[key]
		if !ok || !headerName.MatchString(name) || len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
			q.p.add(q.at("ResponseParameters")+"."+key, "got %q, want method.response.header.<name> and a literal in single quotes", text)
			continue
		}
		m.Headers[textproto.CanonicalMIMEHeaderKey(name)] = text[1 : len(text)-1]
	}
	templates := q.textMap("ResponseTemplates")
	for contentType, text := range templates {
		var ok bool
		if m.Origins, ok = parseOrigins(text); !ok || len(templates) != 1 || contentType != defaultContentType {
			q.refuse("ResponseTemplates", text, "none, or one for application/json: the comparison with the list of origins that CDK writes")
		}
	}
}

// parseOrigins returns the allowed origins in CDK's response template. It returns false for any
// other text.
func parseOrigins(template string) ([]string, bool) {
	rest, begins := strings.CutPrefix(template, mockTemplateStart)
	rest, ends := strings.CutSuffix(rest, mockTemplateEnd)
	if !begins || !ends {
		return nil, false
	}
	var origins []string
	for part := range strings.SplitSeq(rest, " || ") {
		match := mockOrigin.FindStringSubmatch(part)
		if match == nil {
			return nil, false
		}
		origins = append(origins, match[1])
	}
	return origins, true
}
