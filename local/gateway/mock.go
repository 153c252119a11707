package gateway

import (
	"net/http"
	"slices"

	"github.com/weir-limits/weir/local/gateway/template"
)

// answerMock returns the answer of a MOCK integration. If no request template matches the content
// type of the request, the mock has no status. Assumed: the request then fails.
func answerMock(m *template.Mock, header http.Header) (proxyResponse, *failure) {
	if media := mediaType(header.Get("Content-Type")); media != "" && media != defaultContentType {
		return proxyResponse{}, &mockWithoutStatus
	}
	r := proxyResponse{StatusCode: http.StatusNoContent, Headers: map[string]headerText{}}
	for name, value := range m.Headers {
		r.Headers[name] = headerText(value)
	}
	if origin := header.Get("Origin"); slices.Contains(m.Origins, origin) {
		r.Headers[allowOrigin] = headerText(origin)
	}
	return r, nil
}
