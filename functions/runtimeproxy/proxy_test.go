package runtimeproxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/runtimeproxy"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
)

// settling has a limit of each kind that is settled after the answer.
const settling = `{"rules":[{"endpoint":"*","limits":{"global":[
	{"name":"cost","requests":1000,"window":"1h","reserve":100,"count":"cost","per":["ip"]},
	{"name":"bytes","requests":100000,"window":"1h","reserve":500,"count":"bytes","per":["ip"]},
	{"name":"failures","requests":10,"window":"1h","count":"failures","per":["ip"]},
	{"name":"slots","requests":1,"window":"5m","count":"concurrent","per":["ip"]}]}}]}`

// used returns what the client of the sample events has used of each limit.
func used(t *testing.T, e *lambdahttp.Environment) string {
	t.Helper()
	charges := e.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/"),
		caller.Caller{IP: netip.MustParsePrefix("203.0.113.7/32")})
	usage, err := e.Limiter.Inspect(t.Context(), noon, charges)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, u := range usage {
		used = append(used, strconv.FormatInt(u.Capacity-u.Remaining+u.Debt, 10))
	}
	return strings.Join(used, " ")
}

// All headers of the Runtime API reach the runtime and Lambda.
func TestProxy_headers(t *testing.T) {
	l := newLayered(t, environment(t, limited, nil), false)
	sent := http.Header{
		"Lambda-Runtime-Trace-Id":             {"Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=1"},
		"Lambda-Runtime-Client-Context":       {`{"client":{}}`},
		"Lambda-Runtime-Cognito-Identity":     {`{"identityId":"a"}`},
		"Lambda-Runtime-Invoked-Function-Arn": {"arn:aws:lambda:eu-central-1:123456789012:function:f"},
		"Lambda-Runtime-Aws-Tenant-Id":        {"blue"}, "X-Future": {"1", "2"},
	}
	for _, payload := range [][]byte{sample(t, "http-api-anonymous.json"), []byte(`{"Records":[]}`)} {
		next := l.request()
		l.events <- event{payload, sent}
		got := <-next
		for name, values := range sent {
			if !slices.Equal(got.header[name], values) {
				t.Errorf("%s: got %q, want %q", name, got.header[name], values)
			}
		}
		if got.header.Get("Lambda-Runtime-Deadline-Ms") == "" || got.header.Get("Content-Type") != "application/json" ||
			!bytes.Equal(got.body, payload) {
			t.Errorf("event: got %v %s, want the deadline, the type and the bytes of the event", got.header, got.body)
		}
		if status := l.respond(got.id, "response", `{"statusCode":200}`, map[string]string{"Content-Type": "application/weird",
			"User-Agent": "runtime/1", "X-Own": "yes"}); status != http.StatusAccepted {
			t.Errorf("status: got %d, want 202", status)
		}
		if a := <-l.answers; a.header.Get("Content-Type") != "application/weird" || a.header.Get("User-Agent") != "runtime/1" ||
			a.header.Get("X-Own") != "yes" || a.header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("answer: got %v, want the header of the runtime", a.header)
		}
	}
}

// An event that is no HTTP request, its answer and its error stay unchanged.
func TestProxy_foreign(t *testing.T) {
	l := newLayered(t, environment(t, limited, nil), false)
	payload := []byte("{ \"Records\" : [ {\"body\":\"\xff\"} ] }")
	for range 5 {
		if got, ran := l.send(payload, `{"statusCode": 200,  "headers":{}}`); !ran || string(got.body) != `{"statusCode": 200,  "headers":{}}` {
			t.Errorf("answer: got %s, want no change", got.body)
		}
	}
	next := l.request()
	l.events <- event{payload: payload}
	l.respond((<-next).id, "error", `{"errorMessage":"no"}`, map[string]string{"Lambda-Runtime-Function-Error-Type": "Own.Error"})
	if got := <-l.answers; got.path != "error" || string(got.body) != `{"errorMessage":"no"}` ||
		got.header.Get("Lambda-Runtime-Function-Error-Type") != "Own.Error" {
		t.Errorf("error: got %+v, want no change", got)
	}
	if log := l.log.String(); log != "" {
		t.Errorf("log: got %s, want none", log)
	}
}

// All other requests of the runtime, such as a failed init, pass.
func TestProxy_otherRequests(t *testing.T) {
	l := newLayered(t, environment(t, limited, nil), false)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.server.URL+"/2018-06-01/runtime/init/error?a=b",
		strings.NewReader(`{"errorMessage":"no"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Lambda-Runtime-Function-Error-Type", "Runtime.ImportModuleError")
	r.Header.Set("Lambda-Runtime-Function-Xray-Error-Cause", `{"exceptions":[]}`)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusAccepted || string(body) != `{"status":"OK"}` {
		t.Errorf("response: got %d %s, %v, want that of Lambda", response.StatusCode, body, err)
	}
	got := <-l.others
	if got.path != "POST /2018-06-01/runtime/init/error?a=b" || string(got.body) != `{"errorMessage":"no"}` ||
		got.header.Get("Lambda-Runtime-Function-Error-Type") != "Runtime.ImportModuleError" ||
		got.header.Get("Lambda-Runtime-Function-Xray-Error-Cause") != `{"exceptions":[]}` {
		t.Errorf("request: got %+v, want that of the runtime", got)
	}
}

// Each end of an invocation settles the request once, before Lambda gets the request for the next event.
func TestProxy_settles(t *testing.T) {
	payload := sample(t, "http-api-anonymous.json")
	for _, c := range []struct {
		name string
		end  func(l *layered, id string)
		want string
	}{
		{"answer", func(l *layered, id string) {
			l.respond(id, "response", `{"statusCode":200,"headers":{"Weir-Cost":"7"},"body":"abc"}`, nil)
		}, "7 3 0 0"},
		{"failure", func(l *layered, id string) { l.respond(id, "response", `{"statusCode":500}`, nil) }, "100 0 1 0"},
		{"error", func(l *layered, id string) { l.respond(id, "error", `{"errorMessage":"no"}`, nil) }, "100 0 1 0"},
		{"no answer", func(*layered, string) {}, "100 0 1 0"},
		{"an answer that Lambda rejects", func(l *layered, id string) {
			l.status = http.StatusRequestEntityTooLarge
			if status := l.respond(id, "response", `{"statusCode":200,"body":"abc"}`, nil); status != http.StatusRequestEntityTooLarge {
				t.Errorf("status: got %d, want that of Lambda", status)
			}
			l.status = http.StatusAccepted
		}, "100 3 1 0"},
		{"an answer that is too large", func(l *layered, id string) {
			body := `{"statusCode":200,"body":"` + strings.Repeat("x", lambdahttp.MaxAnswer) + `"}`
			l.status = http.StatusRequestEntityTooLarge
			l.respond(id, "response", body, nil)
			l.status = http.StatusAccepted
			if a := <-l.answers; string(a.body) != body {
				t.Errorf("answer: got %d bytes, want those of the function", len(a.body))
			}
		}, "100 0 1 0"},
		{"the end of the environment", func(l *layered, _ string) { l.proxy.Close() }, "100 0 1 0"},
	} {
		e := environment(t, settling, nil)
		l := newLayered(t, e, false)
		next := l.request()
		l.events <- event{payload: payload}
		c.end(l, (<-next).id)
		next = l.request()
		l.events <- event{payload: []byte(`{}`)} // Lambda has the request for an event, so all is settled
		<-next
		if got := used(t, e); got != c.want {
			t.Errorf("%s: used: got %s, want %s", c.name, got, c.want)
		}
		if log := l.log.String(); log != "" {
			t.Errorf("%s: log: got %s, want none", c.name, log)
		}
	}
}

// watched is a store that calls settling at each settlement.
type watched struct {
	limiter.Store
	settling func()
}

// Settle implements limiter.Store.
func (w watched) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	w.settling()
	return w.Store.Settle(ctx, now, s, charges, results, elapsed)
}

// The settlement starts after Lambda has the answer, and ends before Lambda gets the next request. Lambda
// freezes the environment after that request.
func TestProxy_freeze(t *testing.T) {
	var l *layered
	var next <-chan received
	arrived := make(chan struct{}, 2)
	e := overStore(t, settling, watched{storetest.Must(memstore.New(memstore.Options{})), func() {
		if next == nil { // the runtime requests the next event during the first settlement
			next = l.request()
			<-arrived
			for range 200_000 { // time for a request that does not wait
				runtime.Gosched()
			}
		}
		if answers, requests := len(l.answers), len(l.requests); answers != 1 || requests != 1 {
			t.Errorf("settlement: got %d answers and %d requests for an event before its end, want 1 and 1", answers, requests)
		}
	}}, nil)
	l = newLayered(t, e, false)
	handler := l.server.Config.Handler
	l.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			arrived <- struct{}{}
		}
		handler.ServeHTTP(w, r)
	})
	first := l.request()
	<-arrived
	l.events <- event{payload: sample(t, "http-api-anonymous.json")}
	l.respond((<-first).id, "response", `{"statusCode":200,"headers":{"Weir-Cost":"7"},"body":"abc"}`, nil)
	l.events <- event{payload: []byte(`{}`)}
	<-next
	if got := used(t, e); got != "7 3 0 0" {
		t.Errorf("used: got %s, want 7 3 0 0", got)
	}
}

// If the store fails, on_error decides. If Weir itself fails, the event passes, and the log and a metric report it.
func TestProxy_undecided(t *testing.T) {
	payload := sample(t, "http-api-anonymous.json")
	for _, c := range []struct {
		name, onError string
		ran           bool
	}{{"allow", "allow", true}, {"deny", "deny", false}} {
		var metrics lockedBuffer
		document := `{"rules":[{"endpoint":"*","on_error":"` + c.onError +
			`","limits":{"global":{"name":"few","requests":2,"window":"5s","per":["ip"]}}}]}`
		l := newLayered(t, overStore(t, document, down{}, &metrics), false)
		got, ran := l.send(payload, `{"statusCode":200}`)
		if ran != c.ran || !strings.Contains(string(got.body), "Weir-Degraded") {
			t.Errorf("%s: got %t %s, want %t and Weir-Degraded", c.name, ran, got.body, c.ran)
		}
	}
	var metrics lockedBuffer
	e := environment(t, limited, &metrics)
	e.Identifier = nil // panics
	l := newLayered(t, e, false)
	for range 3 {
		if got, ran := l.send(payload, `{"statusCode":200}`); !ran || string(got.body) != `{"statusCode":200}` {
			t.Errorf("panic: got %t %s, want the answer of the function", ran, got.body)
		}
	}
	if log := l.log.String(); !strings.Contains(log, "event without a decision passed to the function") {
		t.Errorf("panic: log: got %s, want the event", log)
	}
	if m := metrics.String(); !strings.Contains(m, `"Failed":1`) {
		t.Errorf("panic: metrics: got %s, want Failed", m)
	}
}

// An event passes, and the runtime does not wait for ever, if the report of a failed decision panics.
func TestProxy_panic(t *testing.T) {
	e := environment(t, limited, nil)
	e.Clock = func() time.Time { panic("clock") }
	l := newLayered(t, e, false)
	payload := bytes.Replace(sample(t, "alb-anonymous.json"), []byte(`"headers": {`), []byte(`"headers": {"a":["b"],`), 1) // of no known form
	if got, ran := l.send(payload, `{"statusCode":200}`); !ran || string(got.body) != `{"statusCode":200}` {
		t.Errorf("answer: got %t %s, want that of the function", ran, got.body)
	}
	if log := l.log.String(); strings.Count(log, "panic=clock") != 1 {
		t.Errorf("log: got %s, want one line about the panic", log)
	}
}

// A panic while an answer passes ends the request of the runtime, and not the extension: the next event passes. The function does
// not get a refused event whose answer panics.
func TestProxy_passPanics(t *testing.T) {
	e := environment(t, limited, nil)
	e.Clock = func() time.Time { panic("clock") }
	var transport panicking
	t.Cleanup(runtimeproxy.SetTransport(&transport)) // after the server has ended
	l := newLayered(t, e, false)
	unknown := bytes.Replace(sample(t, "alb-anonymous.json"), []byte(`"headers": {`), []byte(`"headers": {"a":["b"],`), 1) // of no known form
	for _, payload := range [][]byte{[]byte(`{"Records":[]}`), unknown} {
		next := l.request()
		l.events <- event{payload: payload}
		url := l.server.URL + "/2018-06-01/runtime/invocation/" + (<-next).id + "/response"
		transport.on.Store(true)
		for _, want := range []int{0, http.StatusForbidden} {
			status := 0
			r := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}")))
			if response, err := http.DefaultClient.Do(r); err == nil {
				status = response.StatusCode
				_ = response.Body.Close()
			}
			if status != want {
				t.Errorf("%.20s: got status %d, want %d (0: a closed connection)", payload, status, want)
			}
		}
		transport.on.Store(false)
		if got, ran := l.send(payload, `{"statusCode":200}`); !ran || string(got.body) != `{"statusCode":200}` {
			t.Errorf("%.20s: next event: got %t %s, want the answer of the function", payload, ran, got.body)
		}
	}
	transport.refusals.Store(true)
	l = newLayered(t, environment(t, limited, nil), false)
	next := l.request()
	l.events <- event{payload: bytes.Replace(sample(t, "alb-anonymous.json"), []byte(`"path": "/`), []byte(`"path": "`), 1)} // malformed
	select {
	case l.events <- event{payload: []byte(`{"Records":[]}`)}:
	case got := <-next:
		t.Errorf("the function got the refused event %s, want only the next one", got.body)
	}
}

// panicking is a transport that panics while it is on, or for Weir's own answers.
type panicking struct{ on, refusals atomic.Bool }

// RoundTrip implements http.RoundTripper.
func (p *panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.on.Load() || p.refusals.Load() && r.Method == http.MethodPost {
		panic(http.ErrAbortHandler)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A runtime that handles several events at once keeps the others when it requests the next one. An event without an
// answer is settled after its deadline.
func TestProxy_concurrentUnanswered(t *testing.T) {
	for _, c := range []struct {
		deadline time.Time
		want     string
	}{{time.Now().Add(time.Hour), "100 500 1 1"}, {time.Unix(1, 0), "100 0 1 0"}} {
		e := environment(t, settling, nil)
		l := newLayered(t, e, true)
		next := l.request()
		l.events <- event{payload: sample(t, "http-api-anonymous.json"),
			header: http.Header{"Lambda-Runtime-Deadline-Ms": {strconv.FormatInt(c.deadline.UnixMilli(), 10)}}}
		<-next
		next = l.request()
		l.events <- event{payload: []byte(`{}`)}
		<-next
		if got := used(t, e); got != c.want {
			t.Errorf("deadline %s: used: got %s, want %s", c.deadline, got, c.want)
		}
	}
}

// On Managed Instances, a streamed answer that continues after the deadline does not delay the next event.
func TestProxy_concurrentStream(t *testing.T) {
	e := environment(t, settling, nil)
	l := newLayered(t, e, true)
	next := l.request()
	l.events <- event{payload: sample(t, "http-api-anonymous.json"), header: http.Header{"Lambda-Runtime-Deadline-Ms": {"1"}}}
	begun := make(chan struct{})
	l.reading = func(r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1))
		close(begun)
	}
	chunks, status := l.stream((<-next).id, "text/plain", nil)
	chunks <- "abc"
	<-begun
	next = l.request()
	l.events <- event{payload: []byte(`{}`)}
	<-next
	close(chunks)
	if got := <-status; got != http.StatusAccepted {
		t.Errorf("status: got %d, want 202", got)
	}
	l.proxy.Close()
	if got := used(t, e); got != "100 3 0 0" {
		t.Errorf("used: got %s, want 100 3 0 0", got)
	}
}

// If Lambda sends the id of a running invocation again, or no id, the earlier invocation is settled as a failure.
func TestProxy_sameID(t *testing.T) {
	for _, id := range []string{"same", ""} {
		e := environment(t, strings.Replace(settling, `"slots","requests":1`, `"slots","requests":2`, 1), nil)
		l := newLayered(t, e, true)
		for range 2 {
			next := l.request()
			l.events <- event{payload: sample(t, "http-api-anonymous.json"), header: http.Header{"Lambda-Runtime-Aws-Request-Id": {id}}}
			<-next
		}
		l.proxy.Close()
		if got := used(t, e); got != "200 0 2 0" {
			t.Errorf("id %q: used: got %s, want 200 0 2 0", id, got)
		}
	}
}

// A runtime that starts before the configuration is read gets no event without a decision.
func TestProxy_beforeOpen(t *testing.T) {
	l := &layered{lambdaAPI: newLambdaAPI(t), t: t, log: &lockedBuffer{}}
	l.proxy = runtimeproxy.NewProxy(l.address, false, slog.New(slog.NewTextHandler(l.log, nil)))
	arrived, handler := make(chan struct{}, 10), l.proxy.Handler()
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(l.server.Close)
	next := l.request()
	<-arrived
	for range 200_000 { // time for a request that does not wait
		runtime.Gosched()
	}
	if requests := len(l.requests); requests != 0 {
		t.Errorf("requests for an event: got %d, want none before the end of the init", requests)
	}
	l.proxy.Open(lambdahttp.NewLayer(environment(t, limited, nil)))
	l.events <- event{payload: sample(t, "http-api-anonymous.json")}
	l.respond((<-next).id, "response", `{"statusCode":200}`, nil)
	if got := <-l.answers; !bytes.Contains(got.body, []byte("RateLimit")) {
		t.Errorf("answer: got %s, want the fields of the decision", got.body)
	}
}

// The function never gets a part of an event.
func TestProxy_largeEvent(t *testing.T) {
	l := newLayered(t, environment(t, limited, nil), false)
	for size, want := range map[int]int{6 << 20: http.StatusOK, 8<<20 + 1: http.StatusBadGateway} {
		payload := bytes.Repeat([]byte(" "), size)
		next := l.request()
		l.events <- event{payload: payload}
		if got := <-next; got.status != want || want == http.StatusOK && !bytes.Equal(got.body, payload) {
			t.Errorf("event of %d bytes: got status %d and %d bytes, want %d", size, got.status, len(got.body), want)
		}
	}
}

// If Lambda has closed the idle connection, an answer goes to Lambda over another one.
func TestProxy_closedConnection(t *testing.T) {
	for name, c := range map[string]struct {
		event  []byte
		what   string
		refuse bool
	}{
		"answer":                 {event: sample(t, "http-api-anonymous.json"), what: "response"},
		"error":                  {event: sample(t, "http-api-anonymous.json"), what: "error"},
		"answer to other events": {event: []byte(`{"Records":[]}`), what: "response"},
		"refusal":                {event: sample(t, "http-api-anonymous.json"), refuse: true},
	} {
		l := newLayered(t, environment(t, limited, nil), false)
		for range 2 {
			l.send(c.event, `{"statusCode":200}`)
		}
		if !c.refuse {
			l = newLayered(t, environment(t, limited, nil), false)
		}
		var closed atomic.Int64
		l.reading = func(*http.Request) {
			if closed.Add(1) == 1 {
				panic(http.ErrAbortHandler) // closes the connection
			}
		}
		next := l.request()
		l.events <- event{payload: c.event}
		if !c.refuse {
			if status := l.respond((<-next).id, c.what, `{"statusCode":200,"body":"abc"}`, nil); status != http.StatusAccepted {
				t.Errorf("%s: status: got %d, want 202", name, status)
			}
			next = l.request()
		}
		if c.refuse || closed.Load() == 2 {
			if got := <-l.answers; !bytes.Contains(got.body, []byte("statusCode")) || bytes.Contains(got.body, []byte("429")) != c.refuse {
				t.Errorf("%s: got %s, want the whole answer", name, got.body)
			}
		}
		l.events <- event{payload: []byte(`{}`)}
		<-next
	}
}

type down struct{ limiter.Store }

// Take implements limiter.Store.
func (down) Take(context.Context, algo.Instant, limiter.Subject, []limiter.Charge, []algo.Result) (bool, error) {
	return false, errors.New("down")
}

// A runtime that handles several events at once gets as many as the limit allows.
func TestProxy_concurrent(t *testing.T) {
	const pollers, events, allowed = 16, 400, 300
	e := environment(t, `{"rules":[{"endpoint":"*","limits":{"global":[{"name":"n","requests":300,"window":"1h","per":["ip"]},
		{"name":"slots","requests":100,"window":"5m","count":"concurrent","per":["ip"]}]}}]}`, nil)
	l := newLayered(t, e, true)
	var ran atomic.Int64
	var polling sync.WaitGroup
	for range pollers {
		polling.Go(func() {
			for {
				got := <-l.request()
				if string(got.body) == `{"end":true}` {
					return
				}
				ran.Add(1)
				if status := l.respond(got.id, "response", `{"statusCode":200,"body":"`+got.id+`"}`, nil); status != http.StatusAccepted {
					t.Errorf("status: got %d, want 202", status)
				}
			}
		})
	}
	payload := sample(t, "http-api-anonymous.json")
	go func() {
		for range events {
			l.events <- event{payload: payload}
		}
		for range pollers {
			l.events <- event{payload: []byte(`{"end":true}`)}
		}
	}()
	refused := 0
	for range events {
		switch a := <-l.answers; {
		case bytes.Contains(a.body, []byte(`"statusCode":429`)):
			refused++
		case !bytes.Contains(a.body, []byte(`"body":"`+a.id+`"`)) || !bytes.Contains(a.body, []byte("RateLimit")):
			t.Errorf("answer %s: got %s, want its own with the fields", a.id, a.body)
		}
	}
	polling.Wait()
	if ran.Load() != allowed || refused != events-allowed {
		t.Errorf("events: got %d for the function and %d refused, want %d and %d", ran.Load(), refused, allowed, events-allowed)
	}
	l.proxy.Close()
	if got := used(t, e); got != "300 0" {
		t.Errorf("used: got %s, want 300 0", got)
	}
}

// Lambda gets one answer to an event, and no answer without the changes of the layer. A failed answer counts as a failure.
func TestProxy_oneAnswer(t *testing.T) {
	const answer = `{"statusCode":200,"headers":{"Weir-Cost":"7"},"body":"abc"}`
	admitted, foreign := sample(t, "http-api-anonymous.json"), []byte(`{"Records":[]}`)
	for _, c := range []struct {
		name    string
		event   []byte
		end     func(l *layered, id string) (status []int)
		want    []int // statuses of the requests of the runtime
		answers int   // that Lambda gets
		used    string
	}{
		{"twice", admitted, func(l *layered, id string) []int {
			return []int{l.respond(id, "response", answer, nil), l.respond(id, "response", answer, nil), l.respond(id, "response", answer, nil)}
		}, []int{202, 403, 403}, 1, "7 3 0 0"},
		{"another during the first", admitted, func(l *layered, id string) (status []int) {
			l.reading = func(*http.Request) {
				l.reading = nil
				status = append(status, l.respond(id, "response", answer, nil))
			}
			return append([]int{l.respond(id, "response", answer, nil)}, status...)
		}, []int{202, 403}, 1, "7 3 0 0"},
		{"of an unknown event", admitted, func(l *layered, id string) []int {
			return []int{l.respond("other", "response", answer, nil), l.respond(id, "response", answer, nil)}
		}, []int{403, 202}, 1, "7 3 0 0"},
		{"an error after one that Lambda rejects", admitted, func(l *layered, id string) []int {
			l.status = http.StatusRequestEntityTooLarge
			first := l.respond(id, "response", answer, nil)
			l.status = http.StatusAccepted
			return []int{first, l.respond(id, "response", answer, nil), l.respond(id, "error", `{"errorMessage":"too large"}`, nil)}
		}, []int{413, 403, 202}, 2, "7 3 1 0"},
		{"again after Lambda got none", admitted, func(l *layered, id string) []int {
			first := l.unreachable(func() int { return l.respond(id, "response", answer, nil) })
			return []int{first, l.respond(id, "response", answer, nil), l.respond(id, "response", answer, nil)}
		}, []int{502, 403, 403}, 0, "7 3 1 0"},
		{"again after a part", admitted, func(l *layered, id string) []int {
			l.half(id, answer)
			return []int{l.respond(id, "response", answer, nil)}
		}, []int{403}, 0, "100 0 1 0"},
		{"none after Lambda got none", admitted, func(l *layered, id string) []int {
			return []int{l.unreachable(func() int { return l.respond(id, "response", answer, nil) })}
		}, []int{502}, 0, "7 3 1 0"},
		{"of an event without a decision", foreign, func(l *layered, id string) []int {
			l.status = http.StatusInternalServerError
			first := l.respond(id, "response", answer, nil)
			l.status = http.StatusAccepted
			return []int{first, l.respond(id, "response", answer, nil)}
		}, []int{500, 403}, 1, "0 0 0 0"},
		{"none of an event without a decision", foreign, func(*layered, string) []int { return nil }, nil, 0, "0 0 0 0"},
	} {
		for _, concurrent := range []bool{false, true} {
			if concurrent && c.answers == 0 && c.want == nil {
				continue // the runtime can answer until the deadline
			}
			e := environment(t, settling, nil)
			l := newLayered(t, e, concurrent)
			next := l.request()
			l.events <- event{payload: c.event}
			id := (<-next).id
			if got := c.end(l, id); !slices.Equal(got, c.want) {
				t.Errorf("%s: statuses: got %d, want %d", c.name, got, c.want)
			}
			next = l.request()
			l.events <- event{payload: []byte(`{}`)}
			<-next
			if l.respond(id, "response", answer, nil) != http.StatusForbidden {
				t.Errorf("%s: after the next event: got an answer for Lambda, want none", c.name)
			}
			l.proxy.Close()
			if got := used(t, e); got != c.used {
				t.Errorf("%s: used: got %s, want %s", c.name, got, c.used)
			}
			if n := l.proxy.Running(); n > 1 {
				t.Errorf("%s: got %d invocations that the proxy keeps, want at most that of the next event", c.name, n)
			}
			if len(l.answers) != c.answers {
				t.Errorf("%s: got %d answers for Lambda, want %d", c.name, len(l.answers), c.answers)
			}
			for range len(l.answers) {
				if got := <-l.answers; bytes.Contains(got.body, []byte("Weir-Cost")) && !bytes.Equal(c.event, foreign) {
					t.Errorf("%s: Lambda got %s, want no cost field", c.name, got.body)
				}
			}
		}
	}
}

// unreachable calls a function while Lambda closes each connection with an answer.
func (l *layered) unreachable(f func() int) int {
	var down atomic.Bool
	down.Store(true)
	l.reading = func(*http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
	}
	defer down.Store(false)
	return f()
}

// half posts a part of an answer, and closes the connection.
func (l *layered) half(id, answer string) {
	l.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", strings.TrimPrefix(l.server.URL, "http://"))
	if err != nil {
		l.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "POST /2018-06-01/runtime/invocation/%s/response HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", id,
		len(answer), answer[:10])
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		l.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// A request gets 503 at once if its turn in a leaky bucket comes too late before the deadline of the function.
func TestProxy_deadline(t *testing.T) {
	parsed := storetest.Must(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"queue","requests":6,"window":"1m",`+
		`"algorithm":"leaky_bucket","burst":5,"per":["ip"]}}}]}`), rules.Options{Version: 1, MaxDelay: 20 * time.Second}))
	e := environment(t, limited, nil)
	e.Rules, e.MaxDelay = live.Fixed(parsed), 20*time.Second
	l := newLayered(t, e, false)
	payload := sample(t, "http-api-anonymous.json")
	if _, ran := l.send(payload, `{"statusCode":200}`); !ran {
		t.Fatal("first request: got a refusal, want none")
	}
	next := l.request()
	l.events <- event{payload: payload, header: http.Header{"Lambda-Runtime-Deadline-Ms": {"1"}}}
	select {
	case got := <-l.answers:
		if !bytes.Contains(got.body, []byte(`"statusCode":503`)) {
			t.Errorf("answer: got %s, want 503", got.body)
		}
		l.events <- event{payload: []byte(`{}`)}
		<-next
	case <-next:
		t.Error("got an event for the function, want an answer of Weir")
	}
}
