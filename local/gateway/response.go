package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// headerText is the value of a response header: text, or a boolean as text. A number is rejected,
// because it is not known how AWS treats a number.
type headerText string

func (h *headerText) UnmarshalJSON(data []byte) error {
	switch text := string(data); text {
	case "true", "false":
		*h = headerText(text)
		return nil
	}
	if !bytes.HasPrefix(data, []byte(`"`)) {
		return fmt.Errorf("a header is %.20s, want text", data)
	}
	return json.Unmarshal(data, (*string)(h))
}

// statusCode is a number, or a number as text.
type statusCode int

func (s *statusCode) UnmarshalJSON(data []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	if err != nil || n < 200 || n > 599 {
		return fmt.Errorf("statusCode %.20s, want a number from 200 to 599", data)
	}
	*s = statusCode(n)
	return nil
}

// proxyResponse is the answer of a function to a REST API.
type proxyResponse struct {
	StatusCode        statusCode              `json:"statusCode"`
	Headers           map[string]headerText   `json:"headers"`
	MultiValueHeaders map[string][]headerText `json:"multiValueHeaders"`
	Body              string                  `json:"body"`
	IsBase64Encoded   bool                    `json:"isBase64Encoded"`
}

// parseProxyResponse reads a function's answer as API Gateway does: every key is optional,
// and an unknown key is an error.
func parseProxyResponse(payload []byte) (proxyResponse, error) {
	r := proxyResponse{StatusCode: http.StatusOK}
	if !bytes.HasPrefix(bytes.TrimSpace(payload), []byte("{")) {
		return r, errors.New("malformed response: want an object")
	}
	// encoding/json ignores the case of keys, but API Gateway does not.
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(payload, &keys); err != nil {
		return r, fmt.Errorf("malformed response: %w", err)
	}
	for key := range keys {
		switch key {
		case "statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded":
		default:
			return r, fmt.Errorf("malformed response: unknown key %.40q", key)
		}
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("malformed response: %w", err)
	}
	return r, nil
}

// remapped lists the headers that a function cannot set. API Gateway sends their values under another
// name (developer guide, "Amazon API Gateway important notes", the column for Lambda). Observed: API
// Gateway also renames Content-Length, which the table in the guide does not list.
var remapped = []string{
	"Authorization", "Connection", "Content-Length", "Content-MD5", "Date", "Max-Forwards", "Server", "User-Agent",
	"WWW-Authenticate",
}

// droppedFromResponse lists the headers of a function that API Gateway does not send. They are from the
// table in the developer guide that remapped names.
var droppedFromResponse = []string{
	"Expect", "Host", "Proxy-Authenticate", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(each string) bool { return strings.EqualFold(each, name) })
}

// header returns the headers of the answer. If a header is in both maps, its name has the spelling of
// multiValueHeaders, and the values of multiValueHeaders come first. If both maps have the same value for
// a header, the value is sent once.
func (r proxyResponse) header() http.Header {
	h := http.Header{}
	spelled := map[string]string{} // by canonical name
	add := func(name string, value headerText) {
		if contains(droppedFromResponse, name) {
			return
		}
		if contains(remapped, name) {
			name = "x-amzn-Remapped-" + name
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if canonical == "Content-Type" {
			name = canonical // with another spelling, net/http would add a second Content-Type
		}
		if first, ok := spelled[canonical]; ok {
			name = first
		}
		spelled[canonical] = name
		h[name] = append(h[name], string(value))
	}
	for _, name := range slices.Sorted(maps.Keys(r.MultiValueHeaders)) {
		for _, value := range r.MultiValueHeaders[name] {
			add(name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		spelling := spelled[textproto.CanonicalMIMEHeaderKey(name)]
		if !slices.Contains(h[spelling], string(r.Headers[name])) {
			add(name, r.Headers[name])
		}
	}
	return h
}

// bytes returns the body. It decodes base64 only if the first media type of the client's
// Accept is one of the API's binary media types.
func (r proxyResponse) bytes(binary []string, accept string) ([]byte, error) {
	if !r.IsBase64Encoded || !isBinary(binary, accept) {
		return []byte(r.Body), nil
	}
	return base64.StdEncoding.DecodeString(r.Body)
}

// write sends the answer.
func (r proxyResponse) write(w http.ResponseWriter, body []byte) {
	contentType := defaultContentType
	for name, values := range r.header() {
		if name == "Content-Type" {
			contentType = values[0]
			continue
		}
		w.Header()[name] = values
	}
	writeBody(w, int(r.StatusCode), contentType, body)
}

const defaultContentType = "application/json"

// writeBody sends an answer. An error means that the client has disconnected.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
