package httpclient_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

// api is an API in this process. It implements http.RoundTripper and uses the synthetic clock of the
// test.
type api struct {
	handler http.Handler
	latency time.Duration // the delay before the handler

	mu     sync.Mutex
	at     []time.Time    // times at which requests arrived
	status map[int]int    // number of responses by status
	bodies []string       // bodies of requests
	open   map[*body]bool // bodies of responses that are not closed yet
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	content := ""
	if r.Body != nil {
		all, _ := io.ReadAll(r.Body)
		content = string(all)
		_ = r.Body.Close()
	}
	a.mu.Lock()
	a.at, a.bodies = append(a.at, time.Now()), append(a.bodies, content)
	a.mu.Unlock()
	time.Sleep(a.latency)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	answer := w.Result()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == nil {
		a.status, a.open = map[int]int{}, map[*body]bool{}
	}
	a.status[answer.StatusCode]++
	b := &body{ReadCloser: answer.Body, api: a}
	a.open[b] = true
	answer.Body = b
	return answer, nil
}

// body is the body of a response. It records whether it is closed.
type body struct {
	io.ReadCloser
	api *api
}

func (b *body) Close() error {
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	delete(b.api.open, b)
	return b.ReadCloser.Close()
}

// script returns an API that answers the nth request with the nth line. A line has a status and header
// fields ("name: value"), separated by bars. The API answers all further requests with the last line.
func script(lines ...string) *api {
	n := 0
	var mu sync.Mutex
	return &api{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		line := lines[min(n, len(lines)-1)]
		n++
		mu.Unlock()
		answer(w, line)
	})}
}

func answer(w http.ResponseWriter, line string) {
	parts := strings.Split(line, " | ")
	for _, field := range parts[1:] {
		name, value, _ := strings.Cut(field, ": ")
		w.Header().Add(name, value)
	}
	status := map[string]int{"200": 200, "429": 429, "500": 500, "503": 503}[parts[0]]
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "answer "+parts[0])
}

// limited is an API behind a Gate that identifies callers by Authorization.
func limited(t *testing.T, latency time.Duration, rate algo.Rate) *api {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.Limit{Name: "items", Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			return rules.Selection{Charges: []limiter.Charge{{Subject: limiter.User(r.Caller.User), Limit: limit, Cost: 1}}}
		},
		Identify: func(_ context.Context, _ time.Time, r httplimit.Request) (caller.Caller, error) {
			return caller.Caller{User: "u" + r.Header.Get("Authorization")}, nil
		},
	})
	return &api{latency: latency, handler: gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))}
}

// get sends a GET request. It returns the status, or 0 and an error.
func get(t *testing.T, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return do(rt, r)
}

func do(rt http.RoundTripper, r *http.Request) (int, error) {
	answer, err := rt.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}
