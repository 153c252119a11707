package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// gate is a server whose requests block until the test ends them. arrived receives a value for each
// request.
type gate struct {
	*httptest.Server

	arrived, open chan struct{}
}

func newGate(t *testing.T) gate {
	t.Helper()
	g := gate{arrived: make(chan struct{}), open: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
		case <-r.Context().Done(): // the function was killed, so its connection closed
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// await waits for a request. ended receives the error of an invocation that ends without one.
func (g gate) await(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case <-g.arrived:
	case err := <-ended:
		t.Fatalf("function: got its end with error %v, want a request to the gate", err)
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func ask(ctx context.Context, t *testing.T, p *pool, path, body string) (answer, error) {
	t.Helper()
	return send(ctx, t, p, request(t, "http api", http.MethodPost, path, "203.0.113.1", body))
}

// checkAnswered checks that the function answered and that the answer has the header fields of the
// decision.
func checkAnswered(t *testing.T, a answer, err error, remaining int) {
	t.Helper()
	if err != nil || a.StatusCode != http.StatusOK || a.Body != "answered" ||
		a.header().Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) {
		t.Errorf("got %+v, %v, want 200 of the function with %d remaining", a, err, remaining)
	}
}

// checkFaults checks each way in which a function can fail: the result is the same as without the
// layer, the request counts once, and the next request succeeds.
func checkFaults(t *testing.T, p *pool) {
	t.Helper()
	a, err := ask(t.Context(), t, p, "/", "")
	checkAnswered(t, a, err, 19)

	_, err = ask(t.Context(), t, p, "/error", "")
	if f, ok := errors.AsType[functionError](err); !ok || f.Type != "TypeError" || f.Message != "no such order" {
		t.Errorf("function that reports an error: got %v, want this error", err)
	}
	if _, err := ask(t.Context(), t, p, "/crash", ""); !errors.Is(err, errEnded) || !strings.HasSuffix(err.Error(), "exit status 7") {
		t.Errorf("function that ends: got %v, want exit status 7", err)
	}

	g, late := newGate(t), make(chan error, 1)
	go func() {
		var err error
		a, err = ask(t.Context(), t, p, "/wait", g.URL)
		late <- err
	}()
	g.await(t, late)
	close(g.open)
	err = <-late
	checkAnswered(t, a, err, 16)

	stuck, ctx := newGate(t), expiring{t.Context(), make(chan struct{})}
	go func() {
		_, err := ask(ctx, t, p, "/wait", stuck.URL)
		late <- err
	}()
	stuck.await(t, late)
	close(ctx.done)
	if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("function that times out: got %v, want context.DeadlineExceeded", err)
	}
	a, err = ask(t.Context(), t, p, "/", "")
	checkAnswered(t, a, err, 14)
}

// checkKilled kills the extension during an invocation. This invocation fails, and the next one succeeds.
func checkKilled(t *testing.T, p *pool) {
	t.Helper()
	g, ended := newGate(t), make(chan error)
	go func() {
		_, err := ask(t.Context(), t, p, "/wait", g.URL)
		ended <- err
	}()
	g.await(t, ended)
	if err := syscall.Kill(p.pids["extension"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errEnded) || !strings.HasSuffix(err.Error(), "extension: signal: killed") {
		t.Errorf("invocation whose extension is killed: got %v, want its signal", err)
	}
	for remaining := 18; remaining >= 15; remaining-- {
		a, err := ask(t.Context(), t, p, "/", "")
		checkAnswered(t, a, err, remaining)
	}
}

// sink is a writer that sends each write to the channel.
type sink chan []byte

func (s sink) Write(b []byte) (int, error) { s <- bytes.Clone(b); return len(b), nil }

// checkStream checks that the parts of a streamed answer arrive one by one. The metadata has the
// header fields of the decision, and an error after the last part arrives too.
func (l layer) checkStream(t *testing.T) {
	e := l.pool(t, function{l.node, "testdata", "stream.handler"}, daily)
	var err error
	for i, path := range []string{"/", "/error"} {
		g, parts, done := newGate(t), make(sink), make(chan error)
		go func() {
			done <- e.stream(t.Context(), request(t, "function url", http.MethodPost, path, "203.0.113.1", g.URL), parts)
		}()
		var whole []byte
		for !bytes.HasSuffix(whole, []byte("first ")) {
			select {
			case part := <-parts:
				whole = append(whole, part...)
			case err := <-done:
				t.Fatalf("answer of %s: got its end after %q, %v, want its first part", path, whole, err)
			}
		}
		<-g.arrived
		close(g.open)
		for open := true; open; {
			select {
			case part := <-parts:
				whole = append(whole, part...)
			case err = <-done:
				open = false
			}
		}
		metadata, body, _ := bytes.Cut(whole, make([]byte, 8))
		var a answer
		if err := json.Unmarshal(metadata, &a); err != nil || a.StatusCode != http.StatusCreated ||
			a.header().Get("Content-Type") != "text/plain" || a.header().Get("X-RateLimit-Remaining") != strconv.Itoa(19-i) {
			t.Errorf("metadata of %s: got %s, %v, want 201 with the fields of the function and of Weir", path, metadata, err)
		}
		f, _ := errors.AsType[functionError](err)
		if want := map[string]string{"/": "first second", "/error": "first "}[path]; string(body) != want || (err != nil) != (path == "/error") ||
			err != nil && f.Type != "TypeError" {
			t.Errorf("answer of %s: got %q, %v, want %q", path, body, err, want)
		}
	}
}
