package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

func exports(t *testing.T) *limiter.Limit {
	t.Helper()
	return storetest.Must(limiter.NewLimit(limiter.Limit{Name: "exports", Rate: algo.Rate{Requests: 10, Window: 15 * time.Minute},
		Count: limiter.Count{Of: limiter.CountConcurrent}}))
}

// For a limit of requests in flight, the header fields name a unit that the draft defines. They have no reset,
// because nobody knows when a request ends.
func TestNewAnswer_concurrent(t *testing.T) {
	l := exports(t)
	got := fields(httplimit.NewAnswer(limiter.Decision{Allowed: true, At: noon, Limit: l, Capacity: 10, Remaining: 7,
		ResetAfter: 15 * time.Minute}))
	if want := `X-RateLimit-Limit: 10
X-RateLimit-Remaining: 7
RateLimit-Policy: "exports";q=10;qu="concurrent-requests"
RateLimit: "exports";r=7
`; got != want {
		t.Errorf("allowed:\n got %s\nwant %s", got, want)
	}
	refused := limiter.Decision{At: noon, Limit: l, Capacity: 10, RetryAfter: 14 * time.Minute, ResetAfter: 15 * time.Minute}
	a := httplimit.NewAnswer(refused)
	wait := a.RetryAfter
	if want := `Retry-After: ` + wait + `
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 0
RateLimit-Policy: "exports";q=10;qu="concurrent-requests"
RateLimit: "exports";r=0;t=` + wait + "\n"; fields(a) != want {
		t.Errorf("refused:\n got %s\nwant %s", fields(a), want)
	}
	w := httptest.NewRecorder()
	a.Refuse(w)
	seconds := " seconds."
	if wait == "1" {
		seconds = " second."
	}
	if got, want := w.Body.String(), `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests",`+
		`"status":429,"error":"rate_limit_exceeded",`+
		`"message":"Too many requests in flight. Retry after `+wait+seconds+`","retry_after":`+wait+`,"limit":10,`+
		`"violated-policies":["exports"]}`; got != want {
		t.Errorf("problem:\n got %s\nwant %s", got, want)
	}
}

// The waits of refused requests are 1 to 3 seconds, in about equal parts. They depend only on the decision.
func TestNewAnswer_concurrentWait(t *testing.T) {
	l, waits := exports(t), map[string]int{}
	for i := range 3000 {
		d := limiter.Decision{At: noon.Add(time.Duration(i) * time.Microsecond), Limit: l, Capacity: 10,
			RetryAfter: time.Duration(1+i) * time.Second}
		a := httplimit.NewAnswer(d)
		if again := httplimit.NewAnswer(d); again.RetryAfter != a.RetryAfter {
			t.Fatalf("the same decision: got %s and %s, want the same wait", a.RetryAfter, again.RetryAfter)
		}
		waits[a.RetryAfter]++
	}
	for _, wait := range []string{"1", "2", "3"} {
		if n := waits[wait]; n < 900 || n > 1100 || len(waits) != 3 {
			t.Errorf("waits: got %v, want about 1000 each of 1, 2 and 3", waits)
		}
	}
}

const inFlight = `{"rules":[{"endpoint":"/exports","limits":{"global":[
	{"name":"exports","requests":1,"window":"10m","per":["ip"],"count":"concurrent"},
	{"name":"calls","requests":2,"window":"1m","algorithm":"fixed_window","per":["user"]}]}},
	{"endpoint":"/queue","limits":{"global":[
		{"name":"exports","requests":1,"window":"10m","per":["ip"],"count":"concurrent"},
		{"name":"queue","requests":1,"window":"10s","burst":5,"algorithm":"leaky_bucket","per":["ip"]}]}}]}`

// newExports returns a Gate that admits one request in flight, and the store that counts its calls.
func newExports(t *testing.T) (*settling, *callCounter) {
	t.Helper()
	store := &callCounter{Store: storetest.Must(memstore.New(memstore.Options{}))}
	s := newSettling(t, store)
	s.rules = storetest.Must(rules.Parse([]byte(inFlight), rules.Options{MaxDelay: time.Minute}))
	return s, store
}

// released fails the test if a request is in flight, or if the number of settlements differs.
func (s *settling) released(store *callCounter, settlements int) {
	s.t.Helper()
	c := caller.Caller{Rejected: true, IP: address}
	if got := s.used("/exports", c)["exports"]; got != 0 || len(s.settled) != settlements || store.settles != settlements ||
		s.settled[settlements-1].Refunds.Given != 1 {
		s.t.Errorf("got %d requests in flight after %d settlements with %d calls: %+v; want none in flight, after %d settlements", got,
			len(s.settled), store.settles, s.settled, settlements)
	}
}

// Each way in which an answer ends releases the slot once. While the handler runs, the request holds the
// slot.
func TestGate_Wrap_slots(t *testing.T) {
	for name, end := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"body":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") },
		"stream": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "text")
				w.(http.Flusher).Flush()
			}
		},
		"failure": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"panic":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panic afterward": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newExports(t)
			s.get("/exports", func(w http.ResponseWriter, r *http.Request) {
				if refused := s.get("/exports", func(http.ResponseWriter,
					*http.Request) {
					t.Error("the API got a second request")
				}); refused.StatusCode != http.StatusTooManyRequests || !strings.Contains(refused.Header.Get("RateLimit"), "exports") {
					t.Errorf("while one request is in flight: got %s, RateLimit %s; want a 429 that names the limit exports", refused.Status,
						refused.Header.Get("RateLimit"))
				}
				if len(s.settled) != 0 {
					t.Errorf("while the handler runs: got settlements %+v, want none", s.settled)
				}
				end(w, r)
			})
			s.released(store, 1)
		})
	}
}

// If a client disconnects while the handler runs, the slot stays taken until the handler ends.
func TestGate_Wrap_slotDisconnected(t *testing.T) {
	s, store := newExports(t)
	handling, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wrapped := s.gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(handling)
		<-r.Context().Done()
		<-release
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		r.RemoteAddr = "203.0.113.7:80"
		wrapped.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-handling; cancel() }()
	if a, err := http.DefaultClient.Do(storetest.Must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/exports",
		http.NoBody))); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, %v; want a cancelled request", a, err)
	}
	refused := s.get("/exports", func(http.ResponseWriter, *http.Request) { t.Error("the API got a second request") })
	if refused.StatusCode != http.StatusTooManyRequests {
		t.Errorf("while the handler runs: got %s, want 429", refused.Status)
	}
	close(release)
	<-done
	s.released(store, 1)
}

func TestGate_Wrap_slotUnserved(t *testing.T) {
	s, store := newExports(t)
	unreached := func(http.ResponseWriter, *http.Request) { t.Error("the API got the request") }
	if a := s.get("/exports", unreached, "Authorization: bad"); a.StatusCode != http.StatusUnauthorized {
		t.Fatalf("bad credential: got %s, want 401", a.Status)
	}
	s.released(store, 1)

	s.get("/queue", func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.gate.Wrap(http.HandlerFunc(unreached)).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/queue", http.NoBody))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("the queue: got %d, want 503", w.Code)
	}
	s.released(store, 3)

	for range 2 {
		if a := s.get("/exports", func(http.ResponseWriter, *http.Request) {}); a.StatusCode != http.StatusOK {
			t.Fatalf("within all limits: got %s, want 200", a.Status)
		}
	}
	settles := store.settles
	if a := s.get("/exports", unreached); a.StatusCode != http.StatusTooManyRequests || !strings.Contains(a.Header.Get("RateLimit"), "calls") {
		t.Errorf("third call: got %s, RateLimit %s; want a 429 of calls", a.Status, a.Header.Get("RateLimit"))
	}
	if got := s.used("/exports", user)["exports"]; got != 0 || len(s.settled) != 5 || store.settles > settles+1 {
		t.Errorf("after a refusal by another limit: got %d in flight, %d settlements and %d more calls; want none, 5, and at most a refund", got,
			len(s.settled), store.settles-settles)
	}
}
