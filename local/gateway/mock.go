package gateway

import (
	"maps"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// mock is a MOCK integration that answers preflights, in the form in which CDK writes
// one: a 204 with headers, and without a body.
type mock struct {
	headers map[string]headerText // by canonical name
	// origins stand in Access-Control-Allow-Origin when one of them asks. Any other gets
	// the first, which is in headers.
	origins []string
}

const allowOrigin = "Access-Control-Allow-Origin"

var (
	// mockRequest is the request template. Its status picks an integration response, and
	// there is one.
	mockRequest = regexp.MustCompile(`^\s*\{\s*"?statusCode"?\s*:\s*[2-5]\d\d\s*\}\s*$`)
	// mockOrigin is one comparison of the response template.
	mockOrigin = regexp.MustCompile(`^\$origin == "([^"$#\\]+)"$`)
)

// The response template for several origins, but for the comparisons.
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

// readMock reads the rest of a MOCK integration.
func readMock(q *properties) *mock {
	m := &mock{headers: map[string]headerText{}}
	q.inert("PassthroughBehavior")
	requests := q.textMap("RequestTemplates")
	if text := requests[defaultContentType]; len(requests) != 1 || !mockRequest.MatchString(text) {
		q.refuse("RequestTemplates", text, "one for application/json, { statusCode: 200 }")
	}
	responses := q.objects("IntegrationResponses")
	if len(responses) != 1 {
		q.p.add(q.at("IntegrationResponses"), "got %d, want one", len(responses))
		return m
	}
	m.readResponse(responses[0])
	return m
}

func (m *mock) readResponse(q *properties) {
	defer q.done()
	if status := q.text("StatusCode"); status != "204" {
		q.refuse("StatusCode", status, "204: mocks answer preflights here, without a body")
	}
	parameters := q.textMap("ResponseParameters")
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		name, ok := strings.CutPrefix(key, "method.response.header.")
		text := parameters[key]
		if !ok || !headerName.MatchString(name) || len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
			q.p.add(q.at("ResponseParameters")+"."+key, "got %q, want method.response.header.<name> and a literal in single quotes", text)
			continue
		}
		m.headers[textproto.CanonicalMIMEHeaderKey(name)] = headerText(text[1 : len(text)-1])
	}
	templates := q.textMap("ResponseTemplates")
	for contentType, text := range templates {
		var ok bool
		if m.origins, ok = parseOrigins(text); !ok || len(templates) != 1 || contentType != defaultContentType {
			q.refuse("ResponseTemplates", text, "none, or one for application/json: the comparison with the list of origins that CDK writes")
		}
	}
}

// parseOrigins reads the origins out of a response template.
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

// answer is the mock's answer to a request. One whose content type has no request
// template is passed on as it is and says no status; that this is a failure is assumed.
func (m *mock) answer(header http.Header) (proxyResponse, *failure) {
	if media := mediaType(header.Get("Content-Type")); media != "" && media != defaultContentType {
		return proxyResponse{}, &mockWithoutStatus
	}
	r := proxyResponse{StatusCode: http.StatusNoContent, Headers: maps.Clone(m.headers)}
	if origin := header.Get("Origin"); slices.Contains(m.origins, origin) {
		r.Headers[allowOrigin] = headerText(origin)
	}
	return r, nil
}
