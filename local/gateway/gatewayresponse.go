package gateway

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// gatewayResponse is what a template makes of one type of answer that API Gateway
// gives by itself.
type gatewayResponse struct {
	status    int // 0 is the type's own
	headers   []mappedHeader
	templates map[string]bodyTemplate // by content type
}

// mappedHeader is a header of a gateway response: a literal, or a variable if that has
// a source.
type mappedHeader struct {
	name     string
	literal  string
	variable expression
}

// gatewayResponseTypes are those of the developer guide, "Gateway response types for
// API Gateway". REQUEST_TOO_LARGE is missing: it cannot be customized ("Amazon API
// Gateway important notes").
var gatewayResponseTypes = []string{
	"ACCESS_DENIED", "API_CONFIGURATION_ERROR", "AUTHORIZER_CONFIGURATION_ERROR", "AUTHORIZER_FAILURE",
	"BAD_REQUEST_BODY", "BAD_REQUEST_PARAMETERS", "DEFAULT_4XX", "DEFAULT_5XX", "EXPIRED_TOKEN",
	"INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT", "INVALID_API_KEY", "INVALID_SIGNATURE",
	"MISSING_AUTHENTICATION_TOKEN", "QUOTA_EXCEEDED", "RESOURCE_NOT_FOUND", "THROTTLED", "UNAUTHORIZED",
	"UNSUPPORTED_MEDIA_TYPE", "WAF_FILTERED",
}

const defaultContentType = "application/json"

// defaultTemplate is the body of a gateway response that declares none.
var defaultTemplate = bodyTemplate{
	{text: `{"message":`}, {variable: expression{"context.", "error.messageString"}}, {text: "}"},
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (d *declarations) readGatewayResponse(api *restAPI, q *properties) {
	kind := q.required("ResponseType")
	if kind != "" && !slices.Contains(gatewayResponseTypes, kind) {
		q.refuse("ResponseType", kind, "a gateway response type that can be customized")
	}
	response := gatewayResponse{status: q.number("StatusCode", 0, 200, 599), templates: map[string]bodyTemplate{}}
	parameters := q.textMap("ResponseParameters")
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		header, problem := parseMappedHeader(key, parameters[key])
		if problem != "" {
			d.p.add(q.at("ResponseParameters")+"."+key, "%s", problem)
			continue
		}
		response.headers = append(response.headers, header)
	}
	for contentType, text := range q.textMap("ResponseTemplates") {
		template, err := parseBodyTemplate(text)
		if err != nil {
			d.p.add(q.at("ResponseTemplates")+"."+contentType, "%v", err)
		}
		response.templates[contentType] = template
	}
	if api == nil {
		return
	}
	if _, twice := api.responses[kind]; twice {
		q.refuse("ResponseType", kind, "a type that "+api.id+" does not have yet")
	}
	api.responses[kind] = response
}

func parseMappedHeader(key, value string) (h mappedHeader, problem string) {
	name, ok := strings.CutPrefix(key, "gatewayresponse.header.")
	if !ok || !headerName.MatchString(name) {
		return h, "want gatewayresponse.header.<name>"
	}
	h.name = name
	if len(value) >= 2 && strings.HasPrefix(value, "'") && strings.HasSuffix(value, "'") {
		h.literal = value[1 : len(value)-1]
		return h, ""
	}
	var err error
	if h.variable, err = parseExpression(value); err != nil {
		return h, err.Error() + "; a literal stands in single quotes"
	}
	return h, ""
}

// value returns the header's value. A variable without one leaves the header out.
func (h mappedHeader) value(v variables) (string, bool) {
	if h.variable.source == "" {
		return h.literal, true
	}
	return v.value(h.variable)
}

// template picks the body template by the first media type of the client's Accept,
// then application/json, then the first of the others. AWS documents a template per
// content type and not how one is picked.
func (g gatewayResponse) template(accept string) (contentType string, t bodyTemplate) {
	if len(g.templates) == 0 {
		return defaultContentType, defaultTemplate
	}
	contentType = mediaType(accept)
	if _, ok := g.templates[contentType]; !ok {
		contentType = defaultContentType
	}
	if _, ok := g.templates[contentType]; !ok {
		contentType = slices.Min(slices.Collect(maps.Keys(g.templates)))
	}
	return contentType, g.templates[contentType]
}

// mediaType returns the first media type of a header, without its parameters.
func mediaType(header string) string {
	first, _, _ := strings.Cut(header, ",")
	first, _, _ = strings.Cut(first, ";")
	return strings.ToLower(strings.TrimSpace(first))
}

// answer writes the API's answer to a failure: the gateway response of its type, else
// that of all 4XX or 5XX, else what API Gateway says by itself.
func (a *restAPI) answer(w http.ResponseWriter, f failure, v variables) {
	header := w.Header()
	header["x-amzn-ErrorType"] = []string{f.code}
	response, ok := a.responses[f.kind]
	if !ok {
		response, ok = a.responses[f.fallback()]
	}
	if !ok {
		writeBody(w, f.status, defaultContentType, []byte(f.body()))
		return
	}
	v.context["error.message"] = f.message
	v.context["error.messageString"] = f.messageString()
	v.context["error.responseType"] = f.kind
	contentType, template := response.template(v.header.Get("Accept"))
	for _, mapped := range response.headers {
		value, ok := mapped.value(v)
		switch {
		case !ok:
		case strings.EqualFold(mapped.name, "Content-Type"):
			contentType = value
		default:
			header[mapped.name] = []string{value}
		}
	}
	status := f.status
	if response.status != 0 {
		status = response.status
	}
	writeBody(w, status, contentType, []byte(template.render(v)))
}
