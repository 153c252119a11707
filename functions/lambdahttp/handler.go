package lambdahttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

// NewHandler returns api as a function: on the events of a REST API, an HTTP API, a
// function URL or a load balancer, with the limits of Environment.Serve.
func NewHandler(e *Environment, api http.Handler) lambda.Handler {
	return handler{e, e.Serve(api)}
}

type handler struct {
	environment *Environment
	api         http.Handler
}

// Invoke implements lambda.Handler.
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	defer h.environment.Events.Wait(ctx)
	var event proxyEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, h.environment.undecided(fmt.Errorf("event: %w", err))
	}
	r, err := event.request(ctx, h.environment.basePath(event.RequestContext.DomainName))
	if err != nil {
		return nil, h.environment.undecided(err)
	}
	w := &response{header: http.Header{}}
	h.api.ServeHTTP(w, r)
	return json.Marshal(w.event(&event))
}

// response is an http.ResponseWriter that keeps the answer.
type response struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // informational ones have no way through an event
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

// event returns the answer in the form that the host of the request wants.
func (r *response) event(request *proxyEvent) any {
	r.WriteHeader(http.StatusOK)
	body, base64 := r.text()
	switch request.host() {
	case httpAPI:
		cookies := r.sent["Set-Cookie"]
		delete(r.sent, "Set-Cookie")
		return events.APIGatewayV2HTTPResponse{StatusCode: r.status, Headers: joined(r.sent), Cookies: cookies, Body: body, IsBase64Encoded: base64}
	case loadBalancer:
		answer := events.ALBTargetGroupResponse{StatusCode: r.status, StatusDescription: fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)), Body: body, IsBase64Encoded: base64}
		if len(request.MultiHeaders) > 0 { // the target group is set to several values a name
			answer.MultiValueHeaders = r.sent
		} else {
			cookies := r.sent["Set-Cookie"]
			delete(r.sent, "Set-Cookie")
			answer.Headers = joined(r.sent)
			for i, cookie := range cookies {
				answer.Headers[spelling("Set-Cookie", i)] = cookie
			}
		}
		return answer
	default:
		return events.APIGatewayProxyResponse{StatusCode: r.status, MultiValueHeaders: r.sent, Body: body, IsBase64Encoded: base64}
	}
}

// text returns the body as text, encoded if it is none.
func (r *response) text() (body string, encoded bool) {
	if b := r.body.Bytes(); !utf8.Valid(b) || r.sent.Get("Content-Encoding") != "" {
		return base64.StdEncoding.EncodeToString(b), true
	}
	return r.body.String(), false
}

// spelled returns a copy of h with the fields of a decision as they are documented:
// hosts pass names on as they are.
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

// joined returns h with one value a name (RFC 9110, 5.3).
func joined(h http.Header) map[string]string {
	single := make(map[string]string, len(h))
	for name, values := range h {
		single[name] = strings.Join(values, ", ")
	}
	return single
}

// spelling returns name with the case of some letters changed, others for every i below
// two to the power of their number: names have no case, and a load balancer that takes
// one value a name passes all spellings on. Cookies cannot be joined (RFC 6265, 3).
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
