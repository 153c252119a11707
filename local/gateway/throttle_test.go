package gateway_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway"
)

// Each method and each route has its own bucket, which refills at the rate of the stage. A throttled request does not
// reach the authorizer.
func TestThrottle(t *testing.T) {
	for kind, want := range map[gateway.Kind]string{gateway.REST: `{"message":"Too Many Requests"}`,
		gateway.HTTP: `{"message":"Too Many Requests"}`} {
		now, function := start, says(`{"statusCode":200}`)
		r := recording{API: kind, Stage: "test", Methods: []string{"GET /a/{id}", "POST /a/{id}"}, Rate: 0.5, Burst: 3}
		api := newAPI(t, r, functions{"Function": function}, func() time.Time { return now })
		calls := 0
		for _, s := range []struct {
			after        time.Duration
			method, path string
			want         int
		}{
			{0, "GET", "/a/1", 3}, {0, "GET", "/a/2", 0}, {0, "POST", "/a/1", 3}, {1999 * time.Millisecond, "GET", "/a/1", 0},
			{time.Millisecond, "GET", "/a/1", 1}, {time.Hour, "GET", "/a/1", 3},
		} {
			now = now.Add(s.after)
			for i := range 5 {
				got := do(api, request(t, s.method, s.path, http.NoBody))
				if passed := got.status == http.StatusOK; passed != (i < s.want) || !passed && (got.status != http.StatusTooManyRequests ||
					got.body != want) {
					t.Errorf("%s API: %s %s at %s, request %d: got %d %s, want %d of 5 admitted", kind, s.method, s.path, now.Sub(start), i+1, got.status,
						got.body, s.want)
				}
			}
			calls += s.want
		}
		if function.calls() != calls {
			t.Errorf("%s API: calls: got %d, want %d", kind, function.calls(), calls)
		}
	}
	guard, r := says(allows("{}")), guarded
	r.Rate, r.Burst = 1, 1
	api := newAPI(t, r, functions{"Guard": guard}, frozen)
	for range 3 {
		do(api, request(t, "GET", "/guarded", http.NoBody))
	}
	if guard.calls() != 1 {
		t.Errorf("calls of the authorizer: got %d, want 1", guard.calls())
	}
}

// A bucket admits its burst exactly, also to concurrent requests, and another gateway of the same template has a bucket of
// its own.
func TestThrottle_concurrent(t *testing.T) {
	r := plain
	r.Rate, r.Burst = 1, 10
	for range 2 {
		api := newAPI(t, r, functions{}, frozen)
		var group sync.WaitGroup
		var passed atomic.Int64
		for range 50 {
			group.Go(func() {
				if do(api, request(t, "GET", "/", http.NoBody)).status == http.StatusOK {
					passed.Add(1)
				}
			})
		}
		group.Wait()
		if got := passed.Load(); got != 10 {
			t.Errorf("got %d of 50 requests admitted, want 10", got)
		}
	}
}
