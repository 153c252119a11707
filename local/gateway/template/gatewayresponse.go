package template

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// GatewayResponse customizes one type of answer that API Gateway creates without a function,
// such as the 429 of a throttle or the 403 after an authorizer's denial.
type GatewayResponse struct {
	Status    int // 0: the default status of the type
	Headers   []MappedHeader
	Templates map[string]Text // key: content type
}

// MappedHeader is a header of a gateway response. Its value is a literal or one variable.
type MappedHeader struct {
	Name     string
	literal  string
	variable Variable
}

// gatewayResponseTypes lists the types in the developer guide, "Gateway response types for API
// Gateway". REQUEST_TOO_LARGE is left out, because a template cannot customize it ("Amazon API
// Gateway important notes").
var gatewayResponseTypes = []string{
	"ACCESS_DENIED", "API_CONFIGURATION_ERROR", "AUTHORIZER_CONFIGURATION_ERROR", "AUTHORIZER_FAILURE",
	"BAD_REQUEST_BODY", "BAD_REQUEST_PARAMETERS", "DEFAULT_4XX", "DEFAULT_5XX", "EXPIRED_TOKEN",
	"INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT", "INVALID_API_KEY", "INVALID_SIGNATURE",
	"MISSING_AUTHENTICATION_TOKEN", "QUOTA_EXCEEDED", "RESOURCE_NOT_FOUND", "THROTTLED", "UNAUTHORIZED",
	"UNSUPPORTED_MEDIA_TYPE", "WAF_FILTERED",
}

const defaultContentType = "application/json"

// defaultTemplate is the body of a gateway response that has no template.
var defaultTemplate = Text{
	{text: `{"message":`}, {variable: Variable{"context.", "error.messageString"}}, {text: "}"},
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (d *parser) readGatewayResponse(api *REST, q *properties) {
	kind := q.required("ResponseType")
	if kind != "" && !slices.Contains(gatewayResponseTypes, kind) {
		q.refuse("ResponseType", kind, "a gateway response type that can be customized")
	}
	response := GatewayResponse{Status: q.number("StatusCode", 0, 200, 599), Templates: map[string]Text{}}
	parameters := q.textMap("ResponseParameters")
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		header, problem := parseMappedHeader(key, parameters[key])
		if problem != "" {
			d.p.add(q.at("ResponseParameters")+"."+key, "%s", problem)
			continue
		}
		response.Headers = append(response.Headers, header)
	}
	for contentType, text := range q.textMap("ResponseTemplates") {
		template, err := parseBody(text)
		if err != nil {
			d.p.add(q.at("ResponseTemplates")+"."+contentType, "%v", err)
		}
		response.Templates[contentType] = template
	}
	if len(response.Templates) == 0 {
		response.Templates[defaultContentType] = defaultTemplate
	}
	if api == nil {
		return
	}
	if _, twice := api.Responses[kind]; twice {
		q.refuse("ResponseType", kind, "a type that "+api.ID+" does not have yet")
	}
	api.Responses[kind] = response
}

func parseMappedHeader(key, value string) (h MappedHeader, problem string) {
	name, ok := strings.CutPrefix(key, "gatewayresponse.header.")
	if !ok || !headerName.MatchString(name) {
		return h, "want gatewayresponse.header.<name>"
	}
	h.Name = name
	if len(value) >= 2 && strings.HasPrefix(value, "'") && strings.HasSuffix(value, "'") {
		h.literal = value[1 : len(value)-1]
		return h, ""
	}
	var err error
	if h.variable, err = parseVariable(value); err != nil {
		return h, err.Error() + "; put a literal in single quotes"
	}
	return h, ""
}

// Value returns the value of the header. lookUp returns the value of a variable. Value returns
// false if the variable has no value; the answer then omits the header.
func (h MappedHeader) Value(lookUp func(Variable) (string, bool)) (string, bool) {
	if h.variable.Source == "" {
		return h.literal, true
	}
	return lookUp(h.variable)
}
