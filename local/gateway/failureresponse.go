package gateway

import (
	"net/http"
	"strings"
)

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
	response, ok := h.stack.Responses[f.kind]
	if !ok {
		response, ok = h.stack.Responses[f.fallback()]
	}
	v["error.message"] = f.message
	v["error.messageString"] = f.messageString()
	v["error.responseType"] = f.kind
	status, contentType, content := f.status, defaultContentType, f.body()
	if response.Status != 0 {
		status = response.Status
	}
	if response.Body != "" {
		content = render(response.Body, v)
	} else if ok {
		content = render(`{"message":$context.error.messageString}`, v)
	}
	for name, text := range response.Headers {
		value, variable := v[strings.TrimPrefix(text, "context.")], !strings.HasPrefix(text, "'")
		if !variable {
			value = strings.Trim(text, "'")
		}
		switch {
		case value == "":
		case strings.EqualFold(name, "Content-Type"):
			contentType = value
		default:
			header[name] = []string{value}
		}
	}
	writeBody(w, status, contentType, []byte(content))
}
