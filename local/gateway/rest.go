package gateway

import (
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

type restHandler struct {
	*runtime

	api       *template.REST
	throttles map[*template.Method]*throttle
}

func newRESTHandler(shared *runtime, api *template.REST) *restHandler {
	h := &restHandler{shared, api, map[*template.Method]*throttle{}}
	api.Root.Each(func(n *template.Resource) {
		for _, method := range n.Methods {
			h.throttles[method] = shared.throttle(api.Throttle)
		}
	})
	return h
}

func (h *restHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := h.receive(r)
	if err != nil {
		refuseREST(w, err)
		return
	}
	c := newRESTCall(h.api, in)
	c.route = h.unmapped(in.Host, c.path)
	w.Header()["x-amzn-RequestId"] = []string{in.id}
	w.Header()["x-amz-apigw-id"] = []string{in.extended}
	response, failed := h.serve(c)
	if failed != nil {
		h.answer(w, *failed, c)
		return
	}
	w.Header().Set("X-Amzn-Trace-Id", answerTrace(in.trace))
	response.write(w)
}

func (h *restHandler) routes(method, path string) bool {
	return h.match(method, path, map[string]string{}) != nil
}

// match returns the resource for a request, or nil.
func (h *restHandler) match(method, path string, parameters map[string]string) *template.Resource {
	return matchResource(h.api.Root, method, template.SplitPath(strings.Trim(path, "/")), parameters)
}

func (h *restHandler) receive(r *http.Request) (*request, error) {
	switch {
	case headerSize(r) > maxHeader:
		return nil, errHeaderTooLarge
	case len(r.URL.RequestURI()) > maxURL:
		return nil, errURLTooLong
	}
	return receive(r, h.clock())
}

// refuseREST answers a request that is rejected before gateway responses apply. Observed: the
// texts, 413 for a large body and 431 for a large header. Assumed: the answer to a long URL, 400
// for a broken body and 408 for a slow body.
func refuseREST(w http.ResponseWriter, err error) {
	status, text := http.StatusBadRequest, "Bad Request"
	switch {
	case errors.Is(err, errHeaderTooLarge):
		status, text = http.StatusRequestHeaderFieldsTooLarge, "HTTP header is larger than 10240 bytes."
	case errors.Is(err, errURLTooLong):
		status, text = http.StatusRequestURITooLong, "Request URI too long"
	case errors.Is(err, errBodyTooSlow):
		status, text = http.StatusRequestTimeout, "Request Timeout"
	case errors.Is(err, errBodyTooLarge):
		status, text = http.StatusRequestEntityTooLarge, "HTTP content length exceeded 10485760 bytes."
	}
	writeBody(w, status, "text/plain", []byte(text))
}

// serve handles a request in four steps: route, throttle, authorizer, integration.
func (h *restHandler) serve(c *restCall) (proxyResponse, *failure) {
	c.resource = h.match(c.Method, c.route, c.parameters)
	if c.resource == nil {
		return proxyResponse{}, &missingToken
	}
	method := c.resource.Method(c.Method)
	// Assumed: API Gateway throttles a request before it calls the authorizer.
	if !h.throttles[method].allows(c.at) {
		return proxyResponse{}, &throttled
	}
	var authorizer map[string]any
	if method.Authorizer != "" {
		var failed *failure
		authorizer, failed = h.authorize(c, method.Authorizer)
		if failed != nil {
			return proxyResponse{}, failed
		}
	}
	return h.integrate(c, method, authorizer)
}

// authorize invokes the authorizer and returns the value of requestContext.authorizer for the
// integration's event. It sets c.authorizer even if the policy denies the request, because gateway
// responses use it.
func (h *restHandler) authorize(c *restCall, function string) (map[string]any, *failure) {
	if len(c.methodARN()) > maxMethodARN {
		return nil, &methodARNTooLong
	}
	started := h.clock()
	// Measured: the timeout of integrations does not limit the authorizer.
	payload, err := h.invoke(c.Context(), function, c.authorizerEvent(), math.MaxInt64)
	latency := h.clock().Sub(started)
	if err != nil {
		if errorMessage(err) == unauthorized.message {
			return nil, &unauthorized
		}
		h.log(c.Context(), "authorizer failed", function, c.id, err)
		return nil, &authorizerFailed
	}
	output, err := parseAuthorization(payload)
	if err != nil {
		h.log(c.Context(), "authorizer failed", function, c.id, err)
		return nil, &authorizerFailed
	}
	c.authorizer = output.context
	switch output.evaluate(c.methodARN()) {
	case explicitDeny:
		return nil, &explicitlyDenied
	case implicitDeny:
		return nil, &implicitlyDenied
	case allow:
	}
	authorizer := map[string]any{}
	for key, value := range c.authorizer {
		authorizer[key] = value
	}
	authorizer["integrationLatency"] = latency.Milliseconds()
	return authorizer, nil
}

func (h *restHandler) integrate(c *restCall, m *template.Method, authorizer map[string]any) (proxyResponse, *failure) {
	payload, err := h.invoke(c.Context(), m.Function, c.proxyEvent(authorizer), m.Timeout)
	if err == nil {
		var response proxyResponse
		response, err = parseProxyResponse(payload)
		if err == nil {
			return response, nil
		}
	}
	failed := &functionFailed
	switch {
	case errors.Is(err, errEventTooLarge):
		failed = &eventTooLarge
	case errors.Is(err, errIntegrationTimedOut):
		failed = &integrationTimedOut
	}
	h.log(c.Context(), "function failed", m.Function, c.id, err)
	return proxyResponse{}, failed
}
