package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-limits/weir/local/gateway"
)

// Handlers run concurrently. The test runs two invocations
// that wait for each other.
func TestAPI_Concurrent_OwnHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both sync.WaitGroup
		both.Add(2)
		function := &stub{answer: func(context.Context, []byte) ([]byte, error) {
			both.Done()
			both.Wait()
			return []byte(`{"statusCode":200}`), nil
		}}
		api := newAPI(t, plain, functions{"Function": function}, frozen)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if got := do(api, request(t, "GET", "/", http.NoBody)); got.status != http.StatusOK {
					t.Errorf("status: got %d, want 200", got.status)
				}
			})
		}
		wg.Wait()
	})
}

// The log line of a failure contains the id of the request but no part of its content.
func TestAPI_Log(t *testing.T) {
	var log bytes.Buffer
	apis, err := gateway.New(guarded.stack(t), guarded.Methods, gateway.Options{
		Authorizer: says(allows("{}")), Handler: fails("out of order"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "GET", "/guarded?secret=1", io.NopCloser(strings.NewReader("")))
	r.Header.Set("Authorization", "secret")
	got := do(apis[0], r)
	for _, want := range []string{"function failed", "request=" + got.header.Get("x-amzn-RequestId"), "out of order"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log: got %q, want it to contain %q", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("log: got %q, want no content of the request", log.String())
	}
}
