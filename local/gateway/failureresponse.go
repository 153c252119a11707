package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// pickTemplate returns the body template for the first media type in the client's Accept header.
// Without such a template it returns the one for application/json, or else the first one in
// alphabetical order. AWS does not document the choice.
func pickTemplate(all map[string]template.Text, accept string) (contentType string, t template.Text) {
	contentType = mediaType(accept)
	if _, ok := all[contentType]; !ok {
		contentType = defaultContentType
	}
	if _, ok := all[contentType]; !ok {
		contentType = slices.Min(slices.Collect(maps.Keys(all)))
	}
	return contentType, all[contentType]
}

func mediaType(header string) string {
	first, _, _ := strings.Cut(header, ",")
	first, _, _ = strings.Cut(first, ";")
	return strings.ToLower(strings.TrimSpace(first))
}

// answer writes the answer to a failure. It uses the template's gateway response for the type of
// the failure, or else the one for DEFAULT_4XX or DEFAULT_5XX. Without both, it uses API Gateway's
// default.
func (h *restHandler) answer(w http.ResponseWriter, f failure, c *restCall) {
	v, header := c.variables(), w.Header()
	header["x-amzn-ErrorType"] = []string{f.code}
	response, ok := h.api.Responses[f.kind]
	if !ok {
		response, ok = h.api.Responses[f.fallback()]
	}
	v.context["error.message"] = f.message
	v.context["error.messageString"] = f.messageString()
	v.context["error.responseType"] = f.kind
	if !ok {
		body := []byte(f.body())
		h.logAccess(c, v, f.status, len(body))
		writeBody(w, f.status, defaultContentType, body)
		return
	}
	contentType, body := pickTemplate(response.Templates, v.header.Get("Accept"))
	for _, mapped := range response.Headers {
		value, ok := mapped.Value(v.value)
		switch {
		case !ok:
		case strings.EqualFold(mapped.Name, "Content-Type"):
			contentType = value
		default:
			header[mapped.Name] = []string{value}
		}
	}
	status := f.status
	if response.Status != 0 {
		status = response.Status
	}
	content := []byte(body.Render(v.value, ""))
	h.logAccess(c, v, status, len(content))
	writeBody(w, status, contentType, content)
}
