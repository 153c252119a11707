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
	tests := []struct {
		name, template string
		kind           gateway.Kind
		path           string
		status         int
		body           string
		after          time.Duration
	}{
		{"REST function", "plain", gateway.REST, "/", 502, `{"message": "Internal server error"}`, 3 * time.Second},
		{"REST integration", "plain", gateway.REST, "/slow", 504, `{"message": "Endpoint request timed out"}`, time.Second},
		{"REST authorizer", "plain", gateway.REST, "/guarded", 500, `{"message":null}`, 5 * time.Second},
		{"HTTP integration", "http", gateway.HTTP, "/slow", 503, `{"message":"Service Unavailable"}`, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				function, release := hanging()
				defer release()
				api := newAPI(t, "template/testdata/good/"+tt.template+".json", tt.kind, functions{
					"Function": function, "Guard": function, "Slow": function,
				}, frozen)
				begun := time.Now()
				got := do(api, request(t, "GET", tt.path, http.NoBody))
				if got.status != tt.status || got.body != tt.body || time.Since(begun) != tt.after {
					t.Errorf("response: got %d %s after %v, want %d %s after %v", got.status, got.body, time.Since(begun), tt.status, tt.body, tt.after)
				}
			})
		})
	}
}

func TestTimeout_HTTPFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		function, release := hanging()
		defer release()
		api := newAPI(t, "template/testdata/good/sample.json", gateway.HTTP, functions{"AuthorizerFunction": function, "HandlerFunction": function}, frozen)
		begun := time.Now()
		got := do(api, request(t, "GET", "/api/v1/search", http.NoBody))
		if got.status != http.StatusInternalServerError || time.Since(begun) != 10*time.Second {
			t.Errorf("response: got %d after %v, want 500 after 10s", got.status, time.Since(begun))
		}
	})
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
		api := newAPI(t, "template/testdata/good/plain.json", gateway.REST, functions{"Function": function, "Guard": function, "Slow": function}, frozen)
		r := request(t, "GET", "/slow", http.NoBody)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		do(api, r.WithContext(ctx))
		if got := <-ended; got != time.Minute {
			t.Errorf("end of the function's context: got %v, want 1m", got)
		}
	})
}
