package lambdahttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aws/aws-lambda-go/lambda"
)

// NewHandler returns a function that runs api on events of a REST API, an HTTP API, a function URL or
// a load balancer. It enforces limits as Environment.Serve does.
func NewHandler(e *Environment, api http.Handler) lambda.Handler {
	return handler{e, e.Serve(api)}
}

type handler struct {
	*Environment
	api http.Handler
}

// Invoke implements lambda.Handler.
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var event bodyEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, h.undecided(fmt.Errorf("event: %w", err))
	}
	body, err := event.body()
	if err != nil {
		return nil, h.undecided(err)
	}
	r, err := event.request(ctx, h.Environment, body)
	if err != nil {
		return nil, h.undecided(err)
	}
	w := &response{header: http.Header{}}
	h.api.ServeHTTP(w, r)
	return json.Marshal(w.event(&event.proxyEvent))
}
