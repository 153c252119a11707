package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-limits/weir/local/gateway/template"
)

// httpHandler serves an HTTP API.
type httpHandler struct {
	*runtime

	api       *template.HTTP
	throttles map[*template.Route]*throttle
}

func newHTTPHandler(shared *runtime, api *template.HTTP) *httpHandler {
	h := &httpHandler{shared, api, map[*template.Route]*throttle{}}
	for _, route := range api.Routes {
		h.throttles[route] = newThrottle(route.Throttle)
	}
	if api.Default != nil {
		h.throttles[api.Default] = newThrottle(api.Default.Throttle)
	}
	return h
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := h.receive(r)
	if err != nil {
		refuseHTTP(w, err)
		return
	}
	w.Header()["Apigw-Requestid"] = []string{in.id}
	path, err := decodedPath(r)
	if err != nil {
		say(w, http.StatusBadRequest, "Bad Request")
		return
	}
	route, parameters := matchRoute(h.api, r.Method, path)
	switch {
	// A route that OPTIONS matches comes first, $default too, by the guide on CORS. That a
	// request that is no preflight gets the same, without headers, is assumed.
	case route == nil && r.Method == http.MethodOptions && h.api.CORS != nil:
		answerCORS(h.api.CORS, w.Header(), r)
		w.WriteHeader(http.StatusNoContent)
		return
	case route == nil:
		say(w, http.StatusNotFound, "Not Found")
		return
	case !h.throttles[route].allows(in.at):
		say(w, http.StatusTooManyRequests, "Too Many Requests")
		return
	}
	payload, err := h.invoke(r.Context(), route.Function, newHTTPEvent(h.api, in, route, path, parameters), route.Timeout)
	var response httpResponse
	if err == nil {
		response, err = parseHTTPResponse(payload)
	}
	if err != nil {
		h.log(r.Context(), "function failed", route.Function, in.id, err)
		failHTTP(w, err)
		return
	}
	answerCORS(h.api.CORS, w.Header(), r)
	response.write(w, func(name string) bool { return ownedByCORS(h.api.CORS, name) })
}

func (h *httpHandler) receive(r *http.Request) (*request, error) {
	line := len(r.Method) + len(r.URL.RequestURI()) + len(r.Proto) + len("  ")
	if headerSize(r)+line > maxHeader {
		return nil, errHeaderTooLarge
	}
	return receive(r, h.clock())
}

// refuseHTTP answers what does not get as far as a route. The body for one that is too
// large is observed for events that are; the others are assumed.
func refuseHTTP(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errHeaderTooLarge):
		say(w, http.StatusRequestHeaderFieldsTooLarge, "Request Header Fields Too Large")
	case errors.Is(err, errBodyTooLarge):
		say(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	case errors.Is(err, errBodyTooSlow):
		say(w, http.StatusRequestTimeout, "Request Timeout")
	default:
		say(w, http.StatusBadRequest, "Bad Request")
	}
}

// failHTTP answers what a function did not. A function that runs into its own timeout
// has failed, as for a REST API; for HTTP APIs that is assumed. One that Lambda does not
// run, because as many run as may, is a 500 too, by the Lambda developer guide.
func failHTTP(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errIntegrationTimedOut):
		say(w, http.StatusServiceUnavailable, "Service Unavailable")
	case errors.Is(err, errEventTooLarge):
		say(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	default:
		say(w, http.StatusInternalServerError, "Internal Server Error")
	}
}

// say answers with a message.
func say(w http.ResponseWriter, status int, message string) {
	writeBody(w, status, defaultContentType, fmt.Appendf(nil, `{"message":%q}`, message))
}
