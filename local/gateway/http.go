package gateway

import (
	"errors"
	"fmt"
	"net/http"
)

type httpHandler struct {
	*runtime

	list []*route
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := h.receive(r)
	if err != nil {
		refuseHTTP(w, err)
		return
	}
	w.Header()["Apigw-Requestid"] = []string{in.extended}
	path, err := decodedPath(sentPath(r))
	if err != nil {
		reply(w, http.StatusBadRequest, "Bad Request")
		return
	}
	below, stage := h.unmapped(r.Host, path), h.stack.HTTP
	parts := splitPath(below)
	route := matchHTTP(h.list, r.Method, parts)
	switch {
	case route == nil:
		reply(w, http.StatusNotFound, "Not Found")
		return
	case !route.throttle.allows(in.at):
		reply(w, http.StatusTooManyRequests, "Too Many Requests")
		return
	}
	if stage.Name != DefaultStage && below == path { // a base path replaces the stage
		path = "/" + stage.Name + path
	}
	event := newHTTPEvent(stage.Name, in, route.Method+" "+route.Path, path, route.parameters(parts))
	payload, err := invoke(r.Context(), h.Handler, event, h.stack.Handler.Timeout, stage.Wait)
	var response httpResponse
	if err == nil {
		response, err = parseHTTPResponse(payload)
	}
	if err != nil {
		h.log(r.Context(), "function", in.extended, err)
		failHTTP(w, err)
		return
	}
	response.write(w)
}

// routes is true for a malformed percent-encoding, because the answer is 400.
func (h *httpHandler) routes(method, path string) bool {
	decoded, err := decodedPath(path)
	return err != nil || matchHTTP(h.list, method, splitPath(decoded)) != nil
}

func (h *httpHandler) receive(r *http.Request) (*request, error) {
	line := len(r.Method) + len(r.URL.RequestURI()) + len(r.Proto) + len("  ")
	if headerSize(r)+line > maxHeader {
		return nil, errHeaderTooLarge
	}
	return receive(r, h.Clock())
}

// refuseHTTP answers a request that is rejected before a route is selected. Observed: the body of
// the 413 for an event that is too large. Assumed: all other bodies.
func refuseHTTP(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errHeaderTooLarge):
		reply(w, http.StatusRequestHeaderFieldsTooLarge, "Request Header Fields Too Large")
	case errors.Is(err, errBodyTooLarge):
		reply(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	case errors.Is(err, errBodyTooSlow):
		reply(w, http.StatusRequestTimeout, "Request Timeout")
	default:
		reply(w, http.StatusBadRequest, "Bad Request")
	}
}

// failHTTP answers a request whose function gave no valid answer. Assumed: 500 after a timeout of
// the function. The Lambda developer guide documents 500 for a throttled invocation.
func failHTTP(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errIntegrationTimedOut):
		reply(w, http.StatusServiceUnavailable, "Service Unavailable")
	case errors.Is(err, errEventTooLarge):
		reply(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	default:
		reply(w, http.StatusInternalServerError, "Internal Server Error")
	}
}

func reply(w http.ResponseWriter, status int, message string) {
	writeBody(w, status, defaultContentType, fmt.Appendf(nil, `{"message":%q}`, message))
}
