package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/local/lambdaenv"
)

// If Lambda throttles the function, both kinds of API answer 500. If Lambda throttles the
// authorizer, the answer is the same as after an error of the authorizer.
func TestConcurrency(t *testing.T) {
	busy := &stub{answer: func(context.Context, []byte) ([]byte, error) {
		return nil, fmt.Errorf("function f: %w", lambdaenv.ErrThrottled)
	}}
	got := send(t, plain(t, functions{"Function": busy}), "GET", "/", "")
	checkFailure(t, got, http.StatusInternalServerError, `{"message": "Internal server error"}`, "InternalServerErrorException")
	guarded(t, busy, http.StatusInternalServerError, invalid)
	if got := send(t, httpAPI(t, busy), "GET", "/", ""); got.status != http.StatusInternalServerError || got.body != `{"message":"Internal Server Error"}` {
		t.Errorf("HTTP API: got %d %s, want 500 Internal Server Error", got.status, got.body)
	}
}
