package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type httpResponse struct {
	StatusCode      int                   `json:"statusCode"`
	Headers         map[string]headerText `json:"headers"`
	Cookies         []string              `json:"cookies"`
	Body            string                `json:"body"`
	IsBase64Encoded bool                  `json:"isBase64Encoded"`

	content []byte // decoded body
}

// parseHTTPResponse reads a function's answer. Unlike API Gateway, it infers none from an answer without statusCode.
func parseHTTPResponse(payload []byte) (httpResponse, error) {
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
		r.content, err = base64.StdEncoding.DecodeString(r.Body)
		if err != nil {
			return r, fmt.Errorf("malformed response: %w", err)
		}
	}
	return r, nil
}

// Observed: an HTTP API renames the WWW-Authenticate header of a function
// (modelix/modelix.core#1658). A REST API renames more headers. It is unknown whether an HTTP API
// renames them too, so this package does not.
const (
	challengeHeader  = "WWW-Authenticate"
	renamedChallenge = "x-amzn-remapped-www-authenticate"
)

// framing lists the headers that belong to the connection. A function cannot set them.
var framing = []string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"}

// write sends the answer. Recorded: an HTTP API sends header names in canonical case, unlike a REST API.
func (r httpResponse) write(w http.ResponseWriter) {
	contentType := "text/plain; charset=utf-8"
	for name, value := range r.Headers {
		switch {
		case strings.EqualFold(name, "Content-Type"):
			contentType = string(value)
		case strings.EqualFold(name, challengeHeader):
			w.Header()[renamedChallenge] = []string{string(value)}
		case !contains(framing, name):
			w.Header().Set(name, string(value))
		}
	}
	for _, cookie := range r.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	writeBody(w, r.StatusCode, contentType, r.content)
}
