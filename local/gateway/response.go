package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// headerText is a response header's value in JSON: a string, or a boolean that becomes text. A
// number is an error, because AWS's treatment of numbers is unknown.
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

// statusCode is a status in JSON: a number, or a string with a number.
type statusCode int

func (s *statusCode) UnmarshalJSON(data []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	if err != nil || n < 200 || n > 599 {
		return fmt.Errorf("statusCode %.20s, want a number from 200 to 599", data)
	}
	*s = statusCode(n)
	return nil
}

type proxyResponse struct {
	StatusCode        statusCode              `json:"statusCode"`
	Headers           map[string]headerText   `json:"headers"`
	MultiValueHeaders map[string][]headerText `json:"multiValueHeaders"`
	Body              string                  `json:"body"`
	IsBase64Encoded   bool                    `json:"isBase64Encoded"`
}

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
	return r, nil
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
	all := maps.Clone(r.MultiValueHeaders)
	if all == nil {
		all = map[string][]headerText{}
	}
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
		for _, value := range values {
			h[name] = append(h[name], string(value))
		}
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
	writeBody(w, int(r.StatusCode), contentType, []byte(r.Body))
}

const defaultContentType = "application/json"

// writeBody sends an answer. It ignores write errors: they mean that the client has disconnected.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
