package lambdahttp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// response is an http.ResponseWriter that keeps the answer. The event method returns it.
type response struct {
	header http.Header
	sent   http.Header // a copy of the header at the time of WriteHeader
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // an event has one status, so a 1xx status is ignored
		r.status, r.sent = status, spelled(r.header)
	}
}

func (r *response) Write(b []byte) (int, error) {
	if r.status == 0 {
		if r.header.Get("Content-Type") == "" {
			r.header.Set("Content-Type", http.DetectContentType(b))
		}
		r.WriteHeader(http.StatusOK)
	}
	return r.body.Write(b)
}

// event returns the answer in the form that the host expects.
func (r *response) event(request *proxyEvent) any {
	r.WriteHeader(http.StatusOK)
	body, base64 := r.text()
	switch request.host() {
	case httpAPI:
		headers, cookies := r.splitCookies()
		return events.APIGatewayV2HTTPResponse{StatusCode: r.status, Headers: headers, Cookies: cookies, Body: body, IsBase64Encoded: base64}
	case loadBalancer:
		answer := events.ALBTargetGroupResponse{StatusCode: r.status, StatusDescription: fmt.Sprintf("%d %s", r.status,
			http.StatusText(r.status)), Body: body, IsBase64Encoded: base64}
		if len(request.MultiHeaders) > 0 { // the target group has multi-value headers enabled
			answer.MultiValueHeaders = r.sent
			return answer
		}
		var cookies []string
		answer.Headers, cookies = r.splitCookies()
		for i, cookie := range cookies {
			answer.Headers[spelling("Set-Cookie", i)] = cookie
		}
		return answer
	default:
		return events.APIGatewayProxyResponse{StatusCode: r.status, MultiValueHeaders: r.sent, Body: body, IsBase64Encoded: base64}
	}
}

// StreamType is the content type of a streamed answer that begins with metadata: a JSON object with the
// status and the header fields, then [StreamDelimiter], then the body.
const StreamType = "application/vnd.awslambda.http-integration-response"

// StreamDelimiter ends the metadata of a streamed answer. JSON contains no zero byte.
const StreamDelimiter = "\x00\x00\x00\x00\x00\x00\x00\x00"

func (r *response) stream() ([]byte, error) {
	r.WriteHeader(http.StatusOK)
	headers, cookies := r.splitCookies()
	return io.ReadAll(&events.LambdaFunctionURLStreamingResponse{StatusCode: r.status, Headers: headers, Cookies: cookies, Body: &r.body})
}

// splitCookies removes the cookies from the header, because they cannot be joined in one value (RFC 6265, 3). It returns the
// header with one value for each name, and the cookies.
func (r *response) splitCookies() (headers map[string]string, cookies []string) {
	cookies = r.sent["Set-Cookie"]
	delete(r.sent, "Set-Cookie")
	return joined(r.sent), cookies
}

// text returns the body. It encodes the body in base64 if it is not text.
func (r *response) text() (body string, encoded bool) {
	if b := r.body.Bytes(); !utf8.Valid(b) || r.sent.Get("Content-Encoding") != "" {
		return base64.StdEncoding.EncodeToString(b), true
	}
	return r.body.String(), false
}

// spelled returns a copy of h in which the fields of a decision have their documented spelling. Hosts
// pass this spelling on unchanged.
func spelled(h http.Header) http.Header {
	h = h.Clone()
	for name := range fieldKeys {
		canonical := http.CanonicalHeaderKey(name)
		if values, ok := h[canonical]; ok && canonical != name {
			h[name] = values
			delete(h, canonical)
		}
	}
	return h
}

// joined returns h with a single value for each name (RFC 9110, 5.3).
func joined(h http.Header) map[string]string {
	single := make(map[string]string, len(h))
	for name, values := range h {
		single[name] = strings.Join(values, ", ")
	}
	return single
}

// spelling returns a header name in the i-th combination of upper and lower case. With it, an answer to
// a load balancer that accepts only one value for each name can still set several cookies: each cookie
// gets another spelling of Set-Cookie. The load balancer treats two spellings as two names, and clients
// ignore the case. A name with n letters has 2^n spellings.
func spelling(name string, i int) string {
	b := []byte(name)
	for at, c := range b {
		if c == '-' {
			continue
		}
		if i&1 == 1 {
			b[at] ^= 'a' ^ 'A'
		}
		i >>= 1
	}
	return string(b)
}
