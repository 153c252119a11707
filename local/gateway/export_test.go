package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/weir-limits/weir/local/lambdaenv"
)

// Invoke returns a handler for the Invoke operation of the AWS Lambda API ("Invoke" in its
// reference), for functions that invoke other functions. Set AWS_ENDPOINT_URL_LAMBDA of an AWS SDK
// to the URL of its server. Invoke checks no credentials, so serve it on the loopback interface
// only. An invocation of type Event is answered after the function has run, so that a test can rely
// on its effect.
func (g *Gateway) Invoke() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2015-03-31/functions/{name}/invocations", g.serveInvoke)
	return mux
}

func (g *Gateway) serveInvoke(w http.ResponseWriter, r *http.Request) {
	f := g.function(r.PathValue("name"))
	if f == nil {
		refuseInvoke(w, http.StatusNotFound, "ResourceNotFoundException", "Function not found: "+r.PathValue("name"))
		return
	}
	event, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		refuseInvoke(w, http.StatusRequestEntityTooLarge, "RequestTooLargeException", "Request must be smaller than 6291456 bytes for the InvokeFunction operation")
		return
	}
	if !json.Valid(event) {
		refuseInvoke(w, http.StatusBadRequest, "InvalidRequestContentException", "Could not parse request body into json")
		return
	}
	answer, err := f.invoke(r.Context(), event, math.MaxInt64)
	switch {
	case errors.Is(err, lambdaenv.ErrThrottled):
		refuseInvoke(w, http.StatusTooManyRequests, "TooManyRequestsException", "Rate Exceeded.")
	case r.Header.Get("X-Amz-Invocation-Type") == "Event":
		if err != nil {
			g.shared.log(r.Context(), "function failed", f.ID, "", err)
		}
		w.WriteHeader(http.StatusAccepted)
	case err != nil:
		g.shared.log(r.Context(), "function failed", f.ID, "", err)
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer, _ = json.Marshal(reportedError(err)) // Marshal never fails for texts
		writeBody(w, http.StatusOK, defaultContentType, answer)
	default:
		w.Header().Set("X-Amz-Executed-Version", "$LATEST")
		writeBody(w, http.StatusOK, defaultContentType, answer)
	}
}

// function returns the function with this name or ARN, or nil.
func (g *Gateway) function(name string) *function {
	for _, f := range g.shared.functions {
		if name == f.ARN || strings.HasSuffix(f.ARN, ":function:"+name) {
			return f
		}
	}
	return nil
}

func reportedError(err error) messages.InvokeResponse_Error {
	if own, ok := errors.AsType[messages.InvokeResponse_Error](err); ok {
		return own
	}
	return messages.InvokeResponse_Error{Type: reflect.TypeOf(err).String(), Message: errorMessage(err)}
}

func refuseInvoke(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("X-Amzn-Errortype", kind)
	writeBody(w, status, defaultContentType, fmt.Appendf(nil, `{"Type":"User","Message":%q}`, message))
}

// Delivered waits until the subscribers of the access logs have received the lines of all requests
// that were answered before the call. CloudWatch Logs delivers a line some seconds later; this
// gateway sends it at once.
func (g *Gateway) Delivered(ctx context.Context) error {
	for _, s := range g.subscribers {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until the queue is empty and the function has received every event.
func (s *subscriber) wait(ctx context.Context) error {
	s.mu.Lock()
	sending := s.sending
	s.mu.Unlock()
	if sending == nil {
		return nil
	}
	select {
	case <-sending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
