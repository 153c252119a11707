package gateway

import (
	"errors"
	"math"
	"net/http"
	"strings"
)

type restHandler struct {
	*runtime

	list []*route
}

func (h *restHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := h.receive(r)
	if err != nil {
		refuseREST(w, err)
		return
	}
	c := newRESTCall(h.stack.REST.Name, in)
	c.below = h.unmapped(in.Host, c.path)
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
	route, _ := h.match(method, path)
	return route != nil
}

// match returns the route for a request, or nil, and the parts of the path.
func (h *restHandler) match(method, path string) (*route, []string) {
	parts := splitPath(strings.Trim(path, "/"))
	return matchREST(h.list, method, parts, 0), parts
}

func (h *restHandler) receive(r *http.Request) (*request, error) {
	switch {
	case headerSize(r) > maxHeader:
		return nil, errHeaderTooLarge
	case len(r.URL.RequestURI()) > maxURL:
		return nil, errURLTooLong
	}
	return receive(r, h.Clock())
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
func (h *restHandler) serve(c *restCall) (response proxyResponse, failed *failure) {
	var parts []string
	c.route, parts = h.match(c.Method, c.below)
	if c.route == nil {
		return response, &missingToken
	}
	c.parameters = c.route.parameters(parts)
	// Assumed: API Gateway throttles a request before it calls the authorizer.
	if !c.route.throttle.allows(c.at) {
		return response, &throttled
	}
	var authorizer map[string]any
	if h.Authorizer != nil {
		authorizer, failed = h.authorize(c)
		if failed != nil {
			return response, failed
		}
	}
	return h.integrate(c, authorizer)
}

// authorize invokes the authorizer and returns the value of requestContext.authorizer for the
// integration's event. It sets c.authorizer even if the policy denies the request, because gateway
// responses use it.
func (h *restHandler) authorize(c *restCall) (map[string]any, *failure) {
	if len(c.methodARN()) > maxMethodARN {
		return nil, &methodARNTooLong
	}
	started := h.Clock()
	// Measured: the timeout of integrations does not limit the authorizer.
	payload, err := invoke(c.Context(), h.Authorizer, c.authorizerEvent(), h.stack.Authorizer.Timeout, math.MaxInt64)
	latency := h.Clock().Sub(started)
	if err != nil {
		if errorMessage(err) == unauthorized.message {
			return nil, &unauthorized
		}
		h.log(c.Context(), "authorizer", c.id, err)
		return nil, &authorizerFailed
	}
	output, err := parseAuthorization(payload)
	if err != nil {
		h.log(c.Context(), "authorizer", c.id, err)
		return nil, &authorizerFailed
	}
	c.authorizer = output.context
	if failed := output.failure(c.methodARN()); failed != nil {
		return nil, failed
	}
	authorizer := map[string]any{}
	for key, value := range c.authorizer {
		authorizer[key] = value
	}
	authorizer["integrationLatency"] = latency.Milliseconds()
	return authorizer, nil
}

func (h *restHandler) integrate(c *restCall, authorizer map[string]any) (proxyResponse, *failure) {
	payload, err := invoke(c.Context(), h.Handler, c.proxyEvent(authorizer), h.stack.Handler.Timeout, h.stack.REST.Wait)
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
	h.log(c.Context(), "function", c.id, err)
	return proxyResponse{}, failed
}
