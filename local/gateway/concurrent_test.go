package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/gateway"
)

// exporter is the back end of these tests. Each of its requests stays in flight until the test
// calls end.
type exporter struct {
	began  chan string // receives the name of each request that begins
	mu     sync.Mutex
	ends   map[string]chan struct{} // closing the channel of a name ends the request
	flying atomic.Int64
	most   atomic.Int64 // largest number of requests in flight
}

// ServeHTTP blocks until the test ends the request. The header field Name names the request. If the
// field Ending is "panic", ServeHTTP panics then.
func (e *exporter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	name := r.Header.Get("Name")
	if name == "" {
		return
	}
	e.mu.Lock()
	end := make(chan struct{})
	e.ends[name] = end
	e.mu.Unlock()
	n := e.flying.Add(1)
	for most := e.most.Load(); n > most && !e.most.CompareAndSwap(most, n); most = e.most.Load() {
	}
	e.began <- name
	<-end
	e.flying.Add(-1)
	if r.Header.Get("Ending") == "panic" {
		panic("export failed")
	}
}

func (e *exporter) end(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.ends[name])
}

// exports sends requests to an API in the background.
type exports struct {
	*ruled
	*exporter
	t       *testing.T
	answers chan answer
	key     string // the part of the caller's API key after "key-"
}

// post sends a request named name, and puts its answer into x.answers.
func (x *exports) post(ctx context.Context, name string, headers ...string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.api.URL+"/v1/exports", http.NoBody)
	if err != nil {
		x.t.Error(err)
		return
	}
	r.Header = http.Header{"X-Api-Key": {"key-" + x.key}, "Name": {name}, "Ending": headers}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		x.answers <- answer{}
		return
	}
	_ = response.Body.Close()
	x.answers <- answer{status: response.StatusCode, header: response.Header}
}

// flood sends 64 requests at once and returns the names of ten requests in flight. On DynamoDB, the
// 64 requests can contend so much that fewer than ten are admitted. Then flood sends ten requests
// of another caller, one after the other.
func (x *exports) flood() (flying []string) {
	x.t.Helper()
	for i := range 64 {
		go x.post(x.t.Context(), strconv.Itoa(i))
	}
	waits := map[string]int{}
	for range 64 {
		select {
		case name := <-x.began:
			flying = append(flying, name)
		case a := <-x.answers:
			waits[a.header.Get("Retry-After")]++
		}
	}
	if n := len(flying); n > 10 || waits["1"]+waits["2"]+waits["3"] != 64-n {
		x.t.Errorf("64 exports at once: got %d in flight and these Retry-After %v, want at most 10 and 1 to 3 s", n, waits)
	}
	if len(flying) == 10 {
		return flying
	}
	for _, name := range flying {
		x.end(name)
		<-x.answers
		<-x.settled
	}
	x.key, flying = "carol", nil
	x.settles.Store(0)
	for i := range 10 {
		name := "more" + strconv.Itoa(i)
		go x.post(x.t.Context(), name)
		flying = append(flying, name)
		x.begun(name)
	}
	return flying
}

// refused sends a request and checks that the limit exports refuses it, because ten are in flight.
func (x *exports) refused(when string) {
	x.t.Helper()
	a := send(x.t, x.api, "POST", "/v1/exports", "", "X-Api-Key: key-"+x.key)
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `"exports"`) || x.kind == gateway.HTTP &&
		a.header.Get("RateLimit-Policy") != `"exports";q=10;qu="concurrent-requests"` {
		x.t.Errorf("%s: got %d %s, want a refusal by the limit exports", when, a.status, a.body)
	}
}

// next sends a request, which the limit must admit as the tenth in flight.
func (x *exports) next(ctx context.Context, name string, headers ...string) {
	x.t.Helper()
	go x.post(ctx, name, headers...)
	x.begun(name)
	x.refused("after " + name)
}

// begun waits until the back end has received a request. It fails the test if an answer arrives
// first.
func (x *exports) begun(name string) {
	x.t.Helper()
	select {
	case <-x.began:
	case a := <-x.answers:
		x.t.Fatalf("%s: got %d, want the request to be admitted", name, a.status)
	}
}

func (x *exports) inFlight(want int64) {
	x.t.Helper()
	if got := x.used(x.t, "/v1/exports", caller.Caller{APIKey: x.key})["exports"]; got != want {
		x.t.Errorf("usage of the limit exports: got %d, want %d in flight", got, want)
	}
}

// The limit admits ten concurrent exports of a caller. An export ends with its answer or with a
// panic. If its client disconnects, an export ends only when the function returns.
func TestCount_concurrent(t *testing.T) {
	e := &exporter{began: make(chan string, 64)}
	onEach(t, example(t, "exports.json"), func(w http.ResponseWriter, r *http.Request) { e.ServeHTTP(w, r) }, func(t *testing.T, r *ruled) {
		e.ends = map[string]chan struct{}{}
		e.most.Store(0)
		x := &exports{r, e, t, make(chan answer, 64), "alice"}
		r.settled = make(chan struct{}, 64)
		flying := x.flood()
		x.inFlight(10)
		x.refused("the eleventh export")
		r.want(t, "POST /v1/exports", []int{200}, "X-Api-Key: key-bob")

		x.end(flying[0])
		if a := <-x.answers; a.status != http.StatusOK {
			t.Errorf("the first export: got %d, want 200", a.status)
		}
		x.next(t.Context(), "panics", "panic")
		x.end("panics")
		if a, want := <-x.answers, map[gateway.Kind]int{gateway.HTTP: http.StatusInternalServerError,
			gateway.REST: http.StatusBadGateway}[r.kind]; a.status != want {
			t.Errorf("a panic: got %d, want %d", a.status, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		x.next(ctx, "disconnects")
		cancel()
		<-x.answers
		x.refused("after a disconnection")
		for _, name := range append(flying[1:], "disconnects") {
			x.end(name)
		}
		for range 13 { // 12 exports of this caller and one export of another caller have ended
			<-r.settled
		}
		x.inFlight(0)
		if charges, settles := r.calls.Load(), r.settles.Load(); settles != 13 || charges < settles {
			t.Errorf("13 exports: got %d charges and %d releases, want 13 releases", charges, settles)
		}
		if got := e.most.Load(); got != 10 {
			t.Errorf("most in flight: got %d, want 10", got)
		}
		r.api.Close() // waits for the request whose client has disconnected
		r.api = httptest.NewServer(r.api.Config.Handler)
		t.Cleanup(r.api.Close)
		r.now = r.now.Add(time.Hour)
		r.want(t, "POST /v1/exports", []int{200}, "X-Api-Key: key-alice") // metrics are written at the next request of a later minute
		refused := 0
		for _, match := range regexp.MustCompile(`"Rule":"exports",.*?"RuleRefused":(\d+)`).FindAllStringSubmatch(r.metrics.String(), -1) {
			n, _ := strconv.Atoi(match[1])
			refused += n
		}
		// 58 refusals: 54 of the 64 exports at once, and four later ones.
		if store, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "TestCount_concurrent/"), "/"); store == "memory" && refused != 58 {
			t.Errorf("metric RuleRefused of exports: got %d, want 58", refused)
		} else if refused < 4 || refused > 58 { // on DynamoDB or Redis, a refusal because of contention counts in another metric
			t.Errorf("metric RuleRefused of exports: got %d, want 4 to 58", refused)
		}
	})
}
