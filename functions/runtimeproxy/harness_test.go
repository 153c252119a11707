package runtimeproxy_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/runtimeproxy"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"

	samples "github.com/weir-limits/weir/events"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// limited has limits by address that no wait of ten seconds extends, so that refusals have no jitter.
const limited = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"few","requests":2,"window":"5s","per":["ip"]}}}]}`

func environment(t testing.TB, document string, metrics io.Writer) *lambdahttp.Environment {
	t.Helper()
	return overStore(t, document, storetest.Must(memstore.New(memstore.Options{})), metrics)
}

func overStore(t testing.TB, document string, store limiter.Store, metrics io.Writer) *lambdahttp.Environment {
	t.Helper()
	parsed := storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1}))
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)})), Rules: live.Fixed(parsed),
		Logger: slog.New(slog.DiscardHandler), Identifier: caller.New(caller.Options{}), Clock: func() time.Time { return noon },
		BehindAuthorizer: true,
	}
	if metrics != nil {
		e.Recorder = telemetry.New(metrics, "test", nil)
	}
	return e
}

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b := storetest.Must(samples.Files.ReadFile(name))
	return b
}

// posted is an answer or an error that Lambda got.
type posted struct {
	id      string
	path    string
	header  http.Header
	trailer http.Header
	chunked bool // the body has no length
	body    []byte
}

type lambdaAPI struct {
	*httptest.Server

	events   chan event
	answers  chan posted
	requests chan struct{} // gets an element for each request for an event
	others   chan posted
	reading  func(*http.Request) // reads the body of an answer instead of the API; may be nil
	status   int                 // of the response to an answer

	mu   sync.Mutex
	next int
}

type event struct {
	payload []byte
	header  http.Header
}

func newLambdaAPI(t testing.TB) *lambdaAPI {
	l := &lambdaAPI{events: make(chan event), answers: make(chan posted, 1000), requests: make(chan struct{}, 1000),
		others: make(chan posted, 1000), status: http.StatusAccepted}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", l.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/{what}", l.serveAnswer)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.others <- posted{path: r.Method + " " + r.URL.String(), header: r.Header, body: body}
		w.Header().Set("Lambda-Extension-Identifier", "ext-1")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"status":"OK"}`)
	})
	l.Server = httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l
}

func (l *lambdaAPI) serveNext(w http.ResponseWriter, r *http.Request) {
	l.requests <- struct{}{}
	select {
	case e := <-l.events:
		l.mu.Lock()
		l.next++
		id := "request-" + strconv.Itoa(l.next)
		l.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
		maps.Copy(w.Header(), e.header)
		_, _ = w.Write(e.payload)
	case <-r.Context().Done():
	}
}

func (l *lambdaAPI) serveAnswer(w http.ResponseWriter, r *http.Request) {
	if l.reading != nil {
		l.reading(r)
	}
	body, _ := io.ReadAll(r.Body)
	l.answers <- posted{id: r.PathValue("id"), path: r.PathValue("what"), header: r.Header, trailer: r.Trailer, chunked: r.ContentLength < 0,
		body: body}
	w.WriteHeader(l.status)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

// address returns the host and the port.
func (l *lambdaAPI) address() string { return strings.TrimPrefix(l.URL, "http://") }

type layered struct {
	*lambdaAPI
	t      testing.TB
	proxy  *runtimeproxy.Proxy
	server *httptest.Server
	log    *lockedBuffer
}

func newLayered(t testing.TB, e *lambdahttp.Environment, concurrent bool) *layered {
	l := &layered{lambdaAPI: newLambdaAPI(t), t: t, log: &lockedBuffer{}}
	l.proxy = runtimeproxy.NewProxy(l.address, concurrent, slog.New(slog.NewTextHandler(l.log, nil)))
	l.proxy.Open(lambdahttp.NewLayer(e))
	l.server = httptest.NewServer(l.proxy.Handler())
	t.Cleanup(l.server.Close)
	return l
}

type received struct {
	status int
	id     string
	header http.Header
	body   []byte
}

// request requests the next event, as a runtime does. The result is read from the channel.
func (l *layered) request() <-chan received {
	c := make(chan received, 1)
	go func() {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, l.server.URL+"/2018-06-01/runtime/invocation/next",
			http.NoBody)
		if err != nil {
			panic(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			close(c)
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		c <- received{response.StatusCode, response.Header.Get("Lambda-Runtime-Aws-Request-Id"), response.Header, body}
	}()
	return c
}

// respond posts an answer or an error, as a runtime does. It returns the status.
func (l *layered) respond(id, what, body string, header map[string]string) int {
	l.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.server.URL+"/2018-06-01/runtime/invocation/"+id+"/"+what,
		strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// send sends an event to the function and returns the answer that Lambda gets. The function returns answer.
// ran is true if the function has received the event.
func (l *layered) send(payload []byte, answer string) (got posted, ran bool) {
	l.t.Helper()
	next := l.request()
	l.events <- event{payload: payload}
	select {
	case got = <-l.answers: // Weir's own answer
		go func() { // ends the request for the next event
			l.events <- event{payload: []byte(`{"end":true}`)}
		}()
		end := <-next
		l.respond(end.id, "response", "{}", nil)
		<-l.answers
		return got, false
	case e := <-next:
		if !bytes.Equal(e.body, payload) {
			l.t.Fatalf("event: got %s, want %s", e.body, payload)
		}
		l.respond(e.id, "response", answer, map[string]string{"Content-Type": "application/json"})
		return <-l.answers, true
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
