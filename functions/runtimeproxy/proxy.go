package runtimeproxy

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// These are headers of the Runtime API.
const (
	headerRequest  = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline = "Lambda-Runtime-Deadline-Ms"
	headerARN      = "Lambda-Runtime-Invoked-Function-Arn"
	headerMode     = "Lambda-Runtime-Function-Response-Mode"

	// These are trailers of a streamed answer that ends with an error.
	headerErrorType = "Lambda-Runtime-Function-Error-Type"
	headerErrorBody = "Lambda-Runtime-Function-Error-Body"
)

// maxEvent bounds the size of an event. Lambda's maximum is 6 MB.
const maxEvent = 8 << 20

// client calls Lambda's APIs. It has no timeout: a request for an event lasts until there is an event, and Lambda
// freezes this process. It ignores the variables of HTTP proxies.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

// Proxy is a Runtime API in front of Lambda's Runtime API. It is safe for concurrent use.
type Proxy struct {
	api        func() string // host and port of Lambda's Runtime API, or of another proxy before it
	concurrent bool          // the runtime handles several events at once
	logger     *slog.Logger
	ready      chan struct{} // closed when layer is set
	layer      *lambdahttp.Layer
	requested  chan struct{} // closed when the runtime has requested an event
	first      sync.Once     // closes requested

	mu      sync.Mutex
	running map[string]*invocation // events of the function, by request id, until they are settled
}

// NewProxy returns a Proxy before the Runtime API at the address that api returns. Before [Proxy.Open] no event
// gets through.
func NewProxy(api func() string, concurrent bool, logger *slog.Logger) *Proxy {
	return &Proxy{
		api: api, concurrent: concurrent, logger: logger, ready: make(chan struct{}), requested: make(chan struct{}),
		running: map[string]*invocation{},
	}
}

// Open lets events through. layer decides them.
func (p *Proxy) Open(layer *lambdahttp.Layer) {
	p.layer = layer
	close(p.ready)
}

// Handler returns the API for the runtime.
func (p *Proxy) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", p.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, false) })
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, true) })
	mux.HandleFunc("/", p.pass)
	return mux
}

// next returns the next event that the function must answer.
func (p *Proxy) next(w http.ResponseWriter, r *http.Request) {
	p.first.Do(func() { close(p.requested) })
	select {
	case <-p.ready:
	case <-r.Context().Done():
		return
	}
	for {
		p.finish(p.unanswered)
		e, err := p.event(r)
		switch {
		case r.Context().Err() != nil: // the runtime has ended
			return
		case err != nil:
			p.fail(w, err)
			return
		}
		if e.status == http.StatusOK {
			e.payload = p.admit(e)
			if e.payload == nil {
				continue
			}
		}
		copyHeader(w.Header(), e.header)
		w.Header().Set("Content-Length", strconv.Itoa(len(e.payload)))
		w.WriteHeader(e.status)
		_, _ = w.Write(e.payload) // an error means that the runtime has ended
		return
	}
}

// event is Lambda's response to a request for an event. If status is not 200, payload is no event.
type event struct {
	status  int
	header  http.Header
	payload []byte
}

// event requests an event from Lambda.
func (p *Proxy) event(r *http.Request) (event, error) {
	response, _, err := p.request(r, nil, 0)
	if err != nil {
		return event{}, err
	}
	defer func() { _ = response.Body.Close() }()
	payload, err := readAtMost(response.Body, response.ContentLength, maxEvent)
	if err == nil && len(payload) > maxEvent {
		err = fmt.Errorf("event: got more than %d bytes, want less", maxEvent)
	}
	return event{response.StatusCode, response.Header, payload}, err
}

// readAtMost reads a body. It reads at most one byte more than the maximum most. That byte shows that the
// body is too long. A negative length is unknown.
func readAtMost(body io.Reader, length, most int64) ([]byte, error) {
	if length < 0 || length > most {
		return io.ReadAll(io.LimitReader(body, most+1))
	}
	b := make([]byte, length)
	_, err := io.ReadFull(body, b)
	return b, err
}

// answer passes the answer or the error of the function on. If the event was admitted, its invocation does so.
func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, failed bool) {
	i := p.take(r.PathValue("id"))
	switch {
	case i != nil:
		a := &answer{proxy: p, w: w, r: r, failed: failed, relayed: make(chan struct{})}
		i.answers <- a
		<-a.relayed
		if a.unchanged {
			p.pass(w, r)
		}
	case failed: // an error has no header fields
		p.pass(w, r)
	default: // Lambda answers a second answer like this
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errorType":"InvalidStateTransition","errorMessage":"the event has an answer, or is unknown"}`)
	}
}

// pass passes a request on unchanged.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	body, length := func() io.Reader { return r.Body }, r.ContentLength
	switch {
	case length > lambdahttp.MaxAnswer: // Lambda rejects it
		length = -1
	case length > 0:
		payload, err := readAtMost(r.Body, length, length)
		if err != nil {
			p.fail(w, err)
			return
		}
		body = func() io.Reader { return bytes.NewReader(payload) }
	}
	if _, err := p.relay(w, r, body, length); err != nil {
		p.fail(w, err)
	}
}

// fail reports to the runtime that Lambda's Runtime API failed.
func (p *Proxy) fail(w http.ResponseWriter, err error) {
	p.logger.Error("Runtime API failed", slog.Any("err", err))
	http.Error(w, `{"errorType":"Weir.RuntimeAPI","errorMessage":"the Runtime API of Lambda failed"}`, http.StatusBadGateway)
}

// relay sends a request with another body to Lambda, and Lambda's response to the runtime. It returns the
// status of the response. If it returns an error, the runtime has no response yet. When relay returns,
// nothing reads the body of the runtime's request any more.
func (p *Proxy) relay(w http.ResponseWriter, r *http.Request, body func() io.Reader, length int64) (status int, err error) {
	response, sent, err := p.request(r, body, length)
	if sent != nil {
		defer func() { <-sent }()
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if sent != nil && response.StatusCode == http.StatusAccepted {
		<-sent // net/http stops sending the body at the end of the response
	}
	copyHeader(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // an error means that the runtime has ended
	return response.StatusCode, nil
}

// request sends a request of the runtime to Lambda, with another body. If length is negative, it sends the
// body and the trailers of the runtime while it reads them, and closes sent when it has stopped reading.
// Otherwise body must return the same bytes at each call.
func (p *Proxy) request(r *http.Request, body func() io.Reader, length int64) (response *http.Response, sent <-chan struct{}, err error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+p.api()+r.URL.RequestURI(), http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	copyHeader(out.Header, r.Header)
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // net/http would add its own
	}
	switch out.ContentLength = length; {
	case length > 0:
		out.Body = io.NopCloser(body())
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body()), nil }
		repeatable(out)
	case length < 0:
		out.Trailer = http.Header{headerErrorType: nil, headerErrorBody: nil}
		ended := make(chan struct{})
		out.Body, sent = &upload{body: body(), from: r, to: out.Trailer, ended: ended}, ended
	}
	response, err = client.Do(out)
	return response, sent, err
}

// repeatable lets net/http send a request again if Lambda has closed the idle connection, as after a long
// freeze. Lambda accepts one answer to an event. The empty value is not sent.
func repeatable(out *http.Request) { out.Header["Idempotency-Key"] = nil }

// upload is a body of unknown length with the trailers of a request. net/http can read it after it has
// returned the response or an error, but not after Close.
type upload struct {
	body  io.Reader
	from  *http.Request
	to    http.Header
	mu    sync.Mutex
	done  bool
	ended chan struct{} // closed by Close
}

// Read implements io.Reader.
func (u *upload) Read(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := u.body.Read(b)
	if err == io.EOF {
		for name := range u.to {
			if values := u.from.Trailer[name]; values != nil {
				u.to[name] = values
			}
		}
	}
	return n, err
}

// Close implements io.Closer. It waits for a running Read. The server of the runtime closes the body.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.done {
		u.done = true
		close(u.ended)
	}
	return nil
}

// connection lists the header fields of one connection. A proxy does not pass them on.
var connection = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Keep-Alive": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		if !connection[name] {
			to[name] = values
		}
	}
}

func deadlineOf(h http.Header) (time.Time, bool) {
	ms, err := strconv.ParseInt(h.Get(headerDeadline), 10, 64)
	return time.UnixMilli(ms), err == nil
}

// admit decides an event. It returns the event for the function, or nil if Weir has answered the event.
func (p *Proxy) admit(e event) []byte {
	i := newInvocation(e.header)
	p.finish(func(before *invocation) bool { return before.id == i.id })
	p.mu.Lock()
	p.running[i.id] = i
	p.mu.Unlock()
	go p.run(i, e.payload)
	return <-i.admitted
}

// take returns an invocation that has no answer yet. It returns nil if there is none.
func (p *Proxy) take(id string) *invocation {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.running[id]
	if i == nil || i.taken {
		return nil
	}
	i.taken = true
	return i
}

func (p *Proxy) forget(i *invocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[i.id] == i {
		delete(p.running, i.id)
	}
}

// unanswered reports whether an invocation gets no answer any more when the runtime requests an event. A
// runtime that handles one event at a time has then failed to answer it. For a runtime that handles several, an
// answer that is being sent must not delay other events: Lambda does not freeze such an environment.
func (p *Proxy) unanswered(i *invocation) bool {
	return !p.concurrent || !i.taken && time.Now().After(i.deadline)
}

// finish ends the invocations that get no answer any more. It waits until their requests are settled, as after an
// answer.
func (p *Proxy) finish(ended func(*invocation) bool) {
	var wait []*invocation
	p.mu.Lock()
	for _, i := range p.running {
		if ended(i) {
			i.noAnswer()
			wait = append(wait, i)
		}
	}
	p.mu.Unlock()
	for _, i := range wait {
		<-i.settled
	}
}

// Close settles the admitted requests, because the environment ends and the function does not answer them.
func (p *Proxy) Close() {
	p.finish(func(*invocation) bool { return true })
}
