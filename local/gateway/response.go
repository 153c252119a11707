package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

type (
	proxyResponse events.APIGatewayProxyResponse
	httpResponse  events.APIGatewayV2HTTPResponse
)

// parseProxyResponse reads a function's answer to a REST API. As on AWS, every key is optional and
// an unknown key is an error.
func parseProxyResponse(payload []byte) (proxyResponse, error) {
	r := proxyResponse{StatusCode: http.StatusOK}
	if !bytes.HasPrefix(bytes.TrimSpace(payload), []byte("{")) {
		return r, errors.New("malformed response: want an object")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("malformed response: %w", err)
	}
	return r, checkStatus(r.StatusCode)
}

func checkStatus(status int) error {
	if status < 200 || status > 599 {
		return fmt.Errorf("malformed response: statusCode %d, want one from 200 to 599", status)
	}
	return nil
}

// remapped lists the headers that a function cannot set. API Gateway sends the function's value
// under the name x-amzn-Remapped-… (developer guide, "Amazon API Gateway important notes", the
// column for Lambda). Observed: this includes Content-Length, which the guide does not list.
var remapped = []string{
	"Authorization", "Connection", "Content-Length", "Content-MD5", "Date", "Max-Forwards", "Server", "User-Agent",
	"WWW-Authenticate",
}

// droppedFromResponse lists the headers of a function that API Gateway does not send. The source is
// the table that the comment on remapped names.
var droppedFromResponse = []string{
	"Expect", "Host", "Proxy-Authenticate", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(each string) bool { return strings.EqualFold(each, name) })
}

// header merges the two header maps of the answer, the values of multiValueHeaders first. It sends a value that both
// maps have once.
func (r proxyResponse) header() http.Header {
	all := map[string][]string{}
	maps.Copy(all, r.MultiValueHeaders)
	for name, value := range r.Headers {
		same := name // the spelling of multiValueHeaders
		for other := range r.MultiValueHeaders {
			if strings.EqualFold(other, name) {
				same = other
			}
		}
		if !slices.Contains(all[same], value) {
			all[same] = append(slices.Clone(all[same]), value)
		}
	}
	h := http.Header{}
	for name, values := range all {
		switch {
		case contains(droppedFromResponse, name):
			continue
		case contains(remapped, name):
			name = "x-amzn-Remapped-" + name
		case strings.EqualFold(name, "Content-Type"):
			name = "Content-Type" // net/http recognizes only this name; it would add a second Content-Type
		}
		h[name] = append(h[name], values...)
	}
	return h
}

// write sends the answer. A body in base64 stays as it is, because the API has no binary media types.
func (r proxyResponse) write(w http.ResponseWriter) {
	contentType := defaultContentType
	for name, values := range r.header() {
		if name == "Content-Type" {
			contentType = values[0]
			continue
		}
		w.Header()[name] = values
	}
	writeBody(w, r.StatusCode, contentType, []byte(r.Body))
}

// parseHTTPResponse reads a function's answer. Unlike API Gateway, it infers none from an answer without statusCode.
func parseHTTPResponse(payload []byte) (r httpResponse, err error) {
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("malformed response: %w", err)
	}
	if r.IsBase64Encoded {
		content, err := base64.StdEncoding.DecodeString(r.Body)
		if err != nil {
			return r, fmt.Errorf("malformed response: %w", err)
		}
		r.Body = string(content)
	}
	return r, checkStatus(r.StatusCode)
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
			contentType = value
		case strings.EqualFold(name, challengeHeader):
			w.Header()[renamedChallenge] = []string{value}
		case !contains(framing, name):
			w.Header().Set(name, value)
		}
	}
	for _, cookie := range r.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	writeBody(w, r.StatusCode, contentType, []byte(r.Body))
}

const defaultContentType = "application/json"

// writeBody sends an answer. It ignores write errors: they mean that the client has disconnected.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
