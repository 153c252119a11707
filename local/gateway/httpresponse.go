package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// httpResponse is the answer of a function to an HTTP API: payload version 2.0.
type httpResponse struct {
	StatusCode      int                   `json:"statusCode"`
	Headers         map[string]headerText `json:"headers"`
	Cookies         []string              `json:"cookies"`
	Body            string                `json:"body"`
	IsBase64Encoded bool                  `json:"isBase64Encoded"`

	content []byte // the body, decoded
}

// parseHTTPResponse reads a function's answer. An answer without a statusCode is the body of a 200: a
// JSON string without its quotes, or any other answer unchanged. The developer guide documents this for
// JSON. Observed: text that is not JSON is passed on unchanged too.
func parseHTTPResponse(payload []byte) (httpResponse, error) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(payload, &keys) // only an object has a statusCode
	if keys["statusCode"] == nil {
		return inferredResponse(payload), nil
	}
	var r httpResponse
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("malformed response: %w", err)
	}
	if r.StatusCode < 200 || r.StatusCode > 599 {
		return r, fmt.Errorf("malformed response: statusCode %d, want one from 200 to 599", r.StatusCode)
	}
	r.content = []byte(r.Body)
	if r.IsBase64Encoded {
		var err error
		if r.content, err = base64.StdEncoding.DecodeString(r.Body); err != nil {
			return r, fmt.Errorf("malformed response: %w", err)
		}
	}
	return r, nil
}

func inferredResponse(payload []byte) httpResponse {
	r := httpResponse{
		StatusCode: http.StatusOK,
		Headers:    map[string]headerText{"Content-Type": defaultContentType},
		content:    bytes.TrimSpace(payload),
	}
	var text string
	if json.Unmarshal(payload, &text) == nil && bytes.HasPrefix(r.content, []byte(`"`)) {
		r.content = []byte(text)
	}
	return r
}

// Observed by clients of HTTP APIs: the gateway renames the WWW-Authenticate header of a function
// (modelix/modelix.core#1658). A REST API renames more headers. Whether an HTTP API does this too is
// unknown, so this package sends them unchanged.
const (
	challengeHeader  = "WWW-Authenticate"
	renamedChallenge = "x-amzn-remapped-www-authenticate"
)

// framing lists headers of the connection. A function cannot set them.
var framing = []string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"}

// write sends the answer. It leaves out the headers for which foreign returns true. Recorded: unlike a REST
// API, an HTTP API sends the names of headers in their canonical case.
func (r httpResponse) write(w http.ResponseWriter, foreign func(name string) bool) {
	contentType := "text/plain; charset=utf-8"
	for name, value := range r.Headers {
		switch {
		case strings.EqualFold(name, "Content-Type"):
			contentType = string(value)
		case strings.EqualFold(name, challengeHeader):
			w.Header()[renamedChallenge] = []string{string(value)}
		case !contains(framing, name) && !foreign(name):
			w.Header().Set(name, string(value))
		}
	}
	for _, cookie := range r.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	writeBody(w, r.StatusCode, contentType, r.content)
}
