package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// throttled serves template/testdata/good/throttle.json. *now is the time of its clock.
func throttled(t *testing.T, kind gateway.Kind, function *stub, now *time.Time) *gateway.API {
	t.Helper()
	return newAPI(t, "template/testdata/good/throttle.json", kind, functions{"Function": function}, func() time.Time { return *now })
}

// passed sends n requests at the same time of the clock. It returns how many the API admitted, and
// the last answer.
func passed(t *testing.T, api *gateway.API, method, path string, n int) (passed int, last answer) {
	t.Helper()
	for range n {
		r := request(t, method, path, http.NoBody)
		r.Header.Set("Origin", "https://one.example")
		if last = do(api, r); last.status == http.StatusOK {
			passed++
		}
	}
	return passed, last
}

// Each method has its own bucket, which refills at its own rate.
func TestREST_Throttle(t *testing.T) {
	now := start
	function := says(`{"statusCode":200}`)
	api := throttled(t, gateway.REST, function, &now)
	steps := []struct {
		after        time.Duration
		method, path string
		want         int
	}{
		{0, "POST", "/", 3},
		{0, "GET", "/slow/a", 1},
		{0, "GET", "/slow/b", 0}, // this path belongs to the same method as the previous line
		{499 * time.Millisecond, "POST", "/", 0},
		{time.Millisecond, "POST", "/", 1},
		{1499 * time.Millisecond, "GET", "/slow/a", 0},
		{time.Millisecond, "GET", "/slow/a", 1},
		{time.Hour, "POST", "/", 3},
	}
	calls := 0
	for _, s := range steps {
		now = now.Add(s.after)
		if got, _ := passed(t, api, s.method, s.path, 5); got != s.want {
			t.Errorf("%s %s at %s: got %d of 5 requests admitted, want %d", s.method, s.path, now.Sub(start), got, s.want)
		}
		if calls += s.want; function.calls() != calls {
			t.Errorf("calls: got %d, want %d", function.calls(), calls)
		}
	}
}

// A throttled request gets the gateway response THROTTLED and does not reach the authorizer.
func TestREST_Throttle_Response(t *testing.T) {
	now := start
	function := says(allows(`{}`)) // a valid answer of an authorizer, but a malformed answer of a back end
	_, got := passed(t, throttled(t, gateway.REST, function, &now), "GET", "/", 4)
	if got.status != http.StatusTooManyRequests || got.body != `{"status":429,"type":"THROTTLED"}` {
		t.Errorf("throttled request: got %d %s, want 429 and the gateway response", got.status, got.body)
	}
	checkHeaders(t, got.header, map[string]string{
		"Retry-After": "1", "Access-Control-Allow-Origin": "https://one.example", "x-amzn-ErrorType": "TooManyRequestsException",
	})
	if calls := function.calls(); calls != 2*3 {
		t.Errorf("calls of the authorizer and the function: got %d, want 6, two for each of 3 requests", calls)
	}
}

func TestHTTP_Throttle(t *testing.T) {
	now := start
	function := says(`{"statusCode":200}`)
	api := throttled(t, gateway.HTTP, function, &now)
	for _, path := range []string{"/", "/else"} { // the template has a route for /, while /else matches only $default
		got, last := passed(t, api, "GET", path, 5)
		if got != 3 || last.status != http.StatusTooManyRequests || last.body != `{"message":"Too Many Requests"}` {
			t.Errorf("%s: got %d of 5 requests admitted, last response %d %s, want 3 and 429 Too Many Requests", path, got, last.status, last.body)
		}
	}
	now = now.Add(time.Second)
	if got, _ := passed(t, api, "GET", "/", 5); got != 2 || function.calls() != 8 {
		t.Errorf("one second later: got %d of 5 requests admitted and %d calls, want 2 and 8", got, function.calls())
	}
}

func TestThrottle_TwoGateways(t *testing.T) {
	parsed, function := templatetest.Parse(t, "template/testdata/good/throttle.json"), says(`{"statusCode":200}`)
	for _, kind := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		for range 2 {
			api := apiOf(t, parsed, kind, functions{"Function": function}, frozen)
			if got, _ := passed(t, api, "POST", "/", 5); got != 3 {
				t.Errorf("%s: got %d of 5 requests admitted, want 3", kind, got)
			}
		}
	}
}
