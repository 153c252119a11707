package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/lambdaenv"
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
	if err != nil || a.StatusCode != http.StatusOK || a.Body != "answered" || a.header().Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) {
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
	if f, ok := errors.AsType[lambdaenv.FunctionError](err); !ok || f.Type != "TypeError" || f.Message != "no such order" {
		t.Errorf("function that reports an error: got %v, want this error", err)
	}
	if _, err := ask(t.Context(), t, p, "/crash", ""); !errors.Is(err, lambdaenv.ErrEnded) || !strings.HasSuffix(err.Error(), "exit status 7") {
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

// checkKilled kills an extension during an invocation. This invocation fails; the invocation in
// another environment and the next one succeed.
func checkKilled(t *testing.T, p *pool) {
	t.Helper()
	g, ended := newGate(t), make(chan error)
	for range 2 {
		go func() {
			a, err := ask(t.Context(), t, p, "/wait", g.URL)
			if err == nil && a.Body != "answered" {
				err = fmt.Errorf("answer: got %+v", a)
			}
			ended <- err
		}()
		g.await(t, ended)
	}
	pids := p.extensions(t)
	if len(pids) != 2 {
		t.Fatalf("extensions: got processes %v, want 2", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, lambdaenv.ErrEnded) || !strings.Contains(err.Error(), "Extension.Crash: extension weir: signal: killed") {
		t.Errorf("invocation whose extension is killed: got %v, want Extension.Crash", err)
	}
	close(g.open)
	if err := <-ended; err != nil {
		t.Errorf("other invocation: got %v, want no error", err)
	}
	for remaining := 17; remaining >= 14; remaining-- {
		a, err := ask(t.Context(), t, p, "/", "")
		checkAnswered(t, a, err, remaining)
	}
}

// extensions returns the process ids of this pool's extensions.
func (p *pool) extensions(t *testing.T) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if command, err := os.ReadFile(path); err == nil && string(command) == p.extension+"\x00" {
			pids = append(pids, storetest.Must(strconv.Atoi(filepath.Base(filepath.Dir(path)))))
		}
	}
	return pids
}

// sink is a writer that sends each write to the channel.
type sink chan []byte

func (s sink) Write(b []byte) (int, error) { s <- bytes.Clone(b); return len(b), nil }

// checkStream checks that the parts of a streamed answer arrive one by one. The metadata has the
// header fields of the decision, and an error after the last part arrives too.
func (l layer) checkStream(t *testing.T) {
	f := function{l.node, "testdata", "stream.handler"}
	e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{
		Bootstrap: l.bootstrap, Arguments: f.runtime, Extensions: []string{l.extension()}, Name: "stream", Variables: l.variables(t, f, daily, contract.StoreDynamoDB), Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for i, path := range []string{"/", "/error"} {
		g, parts, done := newGate(t), make(sink), make(chan error)
		go func() {
			done <- e.Stream(t.Context(), request(t, "function url", http.MethodPost, path, "203.0.113.1", g.URL), parts)
		}()
		var whole []byte
		for !bytes.HasSuffix(whole, []byte("first ")) {
			whole = append(whole, <-parts...)
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
		if err := json.Unmarshal(metadata, &a); err != nil || a.StatusCode != http.StatusCreated || a.header().Get("Content-Type") != "text/plain" || a.header().Get("X-RateLimit-Remaining") != strconv.Itoa(19-i) {
			t.Errorf("metadata of %s: got %s, %v, want 201 with the fields of the function and of Weir", path, metadata, err)
		}
		f, _ := errors.AsType[lambdaenv.FunctionError](err)
		if want := map[string]string{"/": "first second", "/error": "first "}[path]; string(body) != want || (err != nil) != (path == "/error") || err != nil && f.Type != "TypeError" {
			t.Errorf("answer of %s: got %q, %v, want %q", path, body, err, want)
		}
	}
}

// usage is a process's memory in KiB and its number of open files.
type usage struct{ memory, files int }

func used(t *testing.T, pid int) (u usage) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, resident, _ := strings.Cut(string(status), "VmRSS:")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if _, scanned := fmt.Sscan(resident, &u.memory); err != nil || scanned != nil {
		t.Fatal(err, scanned)
	}
	u.files = len(files)
	return u
}

// checkMany sends 10,000 events: admitted requests, refused requests and other events. Afterwards,
// the extension's memory has grown by less than 256 bytes per event, and its number of open files
// has not grown.
func checkMany(t *testing.T, p *pool) {
	t.Helper()
	const events, warm = 10_000, 2_000
	payloads := [][]byte{
		request(t, "http api", http.MethodGet, "/", "203.0.113.1", ""), []byte(`{"source":"aws.events"}`), request(t, "load balancer", http.MethodGet, "/few", "203.0.113.1", ""),
	}
	var before usage
	refused := 0
	for i := range events {
		a, err := send(t.Context(), t, p, payloads[i%len(payloads)])
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if a.StatusCode == http.StatusTooManyRequests {
			refused++
		}
		if i == warm {
			before = used(t, p.extensions(t)[0])
		}
	}
	pids := p.extensions(t)
	if len(pids) != 1 {
		t.Fatalf("extensions: got processes %v, want 1", pids)
	}
	after := used(t, pids[0])
	t.Logf("after %d events: %+v; after %d events: %+v; %d refused", warm, before, events, after, refused)
	if after.memory-before.memory > (events-warm)/4 || after.files > before.files {
		t.Errorf("usage after %d events: got %+v, after %d events %+v, want no growth", events, after, warm, before)
	}
	if refused < events/4 || refused > events/2 {
		t.Errorf("refused requests: got %d, want about a third of %d", refused, events)
	}
}
