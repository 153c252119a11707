package gateway_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/local/gateway"
)

// hanging returns a function that ignores its deadline. release ends its invocations.
func hanging() (function *stub, release func()) {
	gone := make(chan struct{})
	function = &stub{answer: func(context.Context, []byte) ([]byte, error) {
		<-gone
		return []byte(`{"statusCode":200}`), nil
	}}
	return function, func() { close(gone); synctest.Wait() }
}

func TestTimeout(t *testing.T) {
	rest := func(path string) recording {
		return recording{API: gateway.REST, Stage: "test", Methods: []string{"GET " + path}}
	}
	function, wait, guard, web := rest("/"), rest("/"), rest("/"), rest("/")
	function.Timeout, wait.Wait, guard.Authorizer, web.API, web.Wait = 3, 1000, true, gateway.HTTP, 1000
	webFunction := web
	webFunction.Timeout, webFunction.Wait = 10, 0
	tests := []struct {
		name   string
		api    recording
		status int
		body   string
		after  time.Duration
	}{
		{"REST function", function, 502, `{"message": "Internal server error"}`, 3 * time.Second},
		{"REST integration", wait, 504, `{"message": "Endpoint request timed out"}`, time.Second},
		{"REST authorizer", guard, 500, `{"message":null}`, 5 * time.Second},
		{"HTTP integration", web, 503, `{"message":"Service Unavailable"}`, time.Second},
		{"HTTP function", webFunction, 500, `{"message":"Internal Server Error"}`, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				function, release := hanging()
				defer release()
				api := newAPI(t, tt.api, functions{"Function": function, "Guard": function}, frozen)
				begun := time.Now()
				got := do(api, request(t, "GET", "/", http.NoBody))
				if got.status != tt.status || got.body != tt.body || time.Since(begun) != tt.after {
					t.Errorf("response: got %d %s after %v, want %d %s after %v", got.status, got.body, time.Since(begun), tt.status, tt.body, tt.after)
				}
			})
		})
	}
}

// A function runs until its own timeout, even if the client disconnects or the gateway stops
// waiting.
func TestTimeout_FunctionContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ended := make(chan time.Duration, 1)
		function := &stub{answer: func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			ended <- time.Since(begun)
			return nil, ctx.Err()
		}}
		api := newAPI(t, plain, functions{"Function": function}, frozen)
		r := request(t, "GET", "/", http.NoBody)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		do(api, r.WithContext(ctx))
		if got := <-ended; got != time.Minute {
			t.Errorf("end of the function's context: got %v, want 1m", got)
		}
	})
}
