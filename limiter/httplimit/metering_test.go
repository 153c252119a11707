package httplimit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const priced = `{"rules":[
	{"endpoint":"/chat","limits":{"*":[
		{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","from":{"json":"usage.total_tokens"},
			"reserve":{"json":"max_tokens","default":40,"most":500}},
		{"name":"reported","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":9}]}},
	{"endpoint":"/priced","limits":{"*":
		{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":{"json":"max_tokens","default":40,"most":50},
			"from":{"by":"json:model","prices":{"small":{"in":1,"out":2},"*":{"in":3,"out":4}}}}}},
	{"endpoint":"/fixed","limits":{"*":
		{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":100,"from":{"json":{"in":1,"out":1}}}}},
	{"endpoint":"/least/*","limits":{"*":{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":30}}},
	{"endpoint":"/least/a","limits":{"*":
		{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":{"json":"max_tokens","default":1,"most":50},
			"from":{"json":"in"}}}},
	{"endpoint":"/other/*","limits":{"*":{"name":"other","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":60}}},
	{"endpoint":"/other/a","limits":{"*":
		{"name":"other","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":10,"from":{"json":"in"}}}},
	{"endpoint":"/tried","mode":"shadow","limits":{"*":
		{"requests":9,"window":"1m","count":"cost","reserve":{"json":"max_tokens","default":1,"most":9}}}}]}`

// A request reserves what its body says, and is settled at the cost in its answer. Neither body changes.
func TestGate_metering(t *testing.T) {
	const usage = `{"usage":{"total_tokens":77}}`
	write := func(parts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, part := range parts {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	with := func(name, value string, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next(w, r)
		}
	}
	broken := func(w http.ResponseWriter, r *http.Request) {
		write(`{"in":7}`)(w, r)
		panic(http.ErrAbortHandler)
	}
	first := func(w http.ResponseWriter, r *http.Request) {
		write("data: {\"in\":7,\"out\":1}\n\n")(w, r)
		panic(http.ErrAbortHandler)
	}
	long := `{"model":"small","max_tokens":5,"a":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, c := range []struct {
		name, path, body string
		api              http.HandlerFunc
		reserved, used   int64 // 0 if the API does not get the request
		unread           int
	}{
		{"JSON", "/chat", `{"max_tokens":60}`, write(usage), 60, 77, 0},
		{"pieces", "/chat", `{}`, with("Content-Type", "application/json", write(usage[:15], usage[15:25], usage[25:])), 40, 77, 0},
		{"events", "/chat", ``, with("Content-Type", "text/event-stream", write("data: {}\n\n", "data: "+usage+"\n\n", "data: [DONE]\n\n")),
			40, 77, 0},
		{"gzip", "/chat", `{}`, with("Content-Encoding", "gzip", write(gzipped(t, usage))), 40, 77, 0},
		{"other encoding", "/chat", `{}`, with("Content-Encoding", "br", write(usage)), 40, 40, 1},
		{"nothing", "/chat", `{"max_tokens":60}`, write(`{"error":{}}`), 60, 60, 1},
		{"no body", "/chat", `{}`, write(), 40, 40, 1},
		{"report", "/chat", `{}`, with("Weir-Cost", "tokens=5", write(usage)), 40, 5, 0},
		{"long body", "/chat", long, write(usage), 500, 77, 0},
		{"a megabyte", "/chat", `{"max_tokens":60}` + strings.Repeat(" ", 1<<20-17), write(usage), 60, 77, 0},
		{"ambiguous", "/chat", `{"max_tokens":60,"max_tokens":1}`, write(usage), 0, 0, 0},
		{"price", "/priced", `{"model":"small","max_tokens":5}`, write(`{"in":7,"out":9}`), 5 * 2, 7*1 + 9*2, 0},
		{"other price", "/priced", `{"model":"new","max_tokens":5}`, write(`{"in":7,"out":9}`), 5 * 4, 7*3 + 9*4, 0},
		{"dearest price", "/priced", long, write(`{"in":7,"out":9}`), 50 * 4, 7*3 + 9*4, 0},
		{"part", "/fixed", ``, write(`{"in":7}`), 100, 7, 0},
		{"cut part", "/fixed", ``, broken, 100, 100, 0},
		{"cut stream", "/fixed", ``, with("Content-Type", "text/event-stream", first), 100, 100, 0},
		{"least", "/least/a", `{"max_tokens":1}`, write(`{"in":7}`), 30, 7, 0},
		{"above the least", "/least/a", `{"max_tokens":45}`, write(`{"in":7}`), 45, 7, 0},
		{"no reserve of a body", "/other/a", ``, write(`{"in":7}`), 60, 7, 0},
		{"above the reserve", "/fixed", ``, write(`{"in":700,"out":1}`), 100, 701, 0},
	} {
		s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
		s.rules = storetest.Must(rules.Parse([]byte(priced), rules.Options{}))
		used := func() int64 {
			of := s.used(c.path, caller.Caller{IP: address})
			return of["tokens"] + of["other"]
		}
		reserved, got := int64(0), []byte(nil)
		direct, through := httptest.NewRecorder(), httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
		r.RemoteAddr, r.Header = address.String()+":1", http.Header{"Accept-Encoding": {"br, gzip"}}
		call := func(h http.Handler, w http.ResponseWriter) {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, r)
		}
		call(c.api, direct)
		call(s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reserved = used()
			got, _ = io.ReadAll(r.Body)
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("%s: the API may use the encoding %q, want none", c.name, r.Header.Get("Accept-Encoding"))
			}
			c.api(w, r)
		})), through)
		switch {
		case c.used == 0:
			if through.Code != http.StatusBadRequest || !strings.Contains(through.Body.String(), "ambiguous_body") || used() != 0 {
				t.Errorf("%s: got %d, %s and %d used, want 400", c.name, through.Code, through.Body, used())
			}
		case string(got) != c.body || !bytes.Equal(through.Body.Bytes(), direct.Body.Bytes()):
			t.Errorf("%s: got other bodies: %d and %d bytes", c.name, len(got), through.Body.Len())
		case reserved != c.reserved || used() != c.used || s.settled[0].Unread != c.unread:
			t.Errorf("%s: got %d reserved, %d used, %d unread, want %d, %d, %d", c.name, reserved, used(), s.settled[0].Unread, c.reserved, c.used,
				c.unread)
		}
	}
}

func gzipped(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A client that leaves before the end pays the reserve, unless the answer contained all numbers.
func TestGate_metering_left(t *testing.T) {
	for body, want := range map[string]int64{`{"in":7}`: 100, `{"in":7,"out":3}`: 10, `{"in":700}`: 700} {
		s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
		s.rules = storetest.Must(rules.Parse([]byte(priced), rules.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/fixed", http.NoBody)
		s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
			cancel()
		})).ServeHTTP(httptest.NewRecorder(), r)
		if got := s.used("/fixed", caller.Caller{IP: address})["tokens"]; got != want {
			t.Errorf("%s: got %d used, want %d", body, got, want)
		}
	}
}

// A body that ends early, or does not arrive within 30 seconds or the ReadTimeout of the server, costs nothing, and the API does not get
// its request, unless the rule is in shadow. A limit of another middleware is left to the API.
func TestGate_metering_incomplete(t *testing.T) {
	for _, c := range []struct {
		path        string
		err         error
		readTimeout time.Duration
		status      int
		used        int64
		waits       []time.Duration // 0 ends a deadline
	}{
		{"/priced", io.ErrUnexpectedEOF, 0, http.StatusBadRequest, 0, []time.Duration{30 * time.Second, 0, time.Second}},
		{"/priced", os.ErrDeadlineExceeded, time.Minute, http.StatusBadRequest, 0, []time.Duration{time.Second}},
		{"/tried", io.ErrUnexpectedEOF, 0, http.StatusOK, 0, []time.Duration{30 * time.Second, 0}},
		{"/priced", &http.MaxBytesError{Limit: 1}, 0, http.StatusOK, 50 * 4, []time.Duration{30 * time.Second, 0}},
	} {
		s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
		s.rules = storetest.Must(rules.Parse([]byte(priced), rules.Options{}))
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{ReadTimeout: c.readTimeout, ReadHeaderTimeout: time.Second})
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		s.gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, c.err) {
				t.Errorf("%v: the API read %v", c.err, err)
			}
		})).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, c.path, io.MultiReader(strings.NewReader("{"),
			iotest.ErrReader(c.err))))
		if got := s.used("/priced", caller.Caller{IP: address})["tokens"]; w.Code != c.status || got != c.used {
			t.Errorf("%v: got %d %s and %d used, want %d and %d", c.err, w.Code, w.Body, got, c.status, c.used)
		}
		for i, want := range c.waits {
			if got := w.waits[min(i, len(w.waits)-1)]; len(w.waits) != len(c.waits) || got > want || got < want-time.Second {
				t.Errorf("%v: got the deadlines %v, want %v", c.err, w.waits, c.waits)
			}
		}
	}
}

// timed is a recorder with the deadlines of reads, as times from now; 0 for none.
type timed struct {
	*httptest.ResponseRecorder
	waits []time.Duration
}

// SetReadDeadline is what http.ResponseController calls.
func (w *timed) SetReadDeadline(end time.Time) error {
	w.waits = append(w.waits, 0)
	if !end.IsZero() {
		w.waits[len(w.waits)-1] = time.Until(end)
	}
	return nil
}

// Only rules that read the body of a request ask a client that waits for 100 (Continue) to go on before the decision, unless its
// credential is bad.
func TestGate_metering_continue(t *testing.T) {
	for path, want := range map[string]bool{"/chat": true, "/fixed": false, "/chat?bad": false} {
		s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
		s.rules = storetest.Must(rules.Parse([]byte(priced), rules.Options{}))
		body := &reading{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
		r.RemoteAddr = address.String() + ":1"
		r.Header.Set("Authorization", r.URL.RawQuery)
		s.gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(httptest.NewRecorder(), r)
		if body.read != want {
			t.Errorf("%s: read %t, want %t", path, body.read, want)
		}
	}
}

// reading is an empty body that knows whether it was read, which makes net/http send 100 (Continue).
type reading struct{ read bool }

func (r *reading) Read([]byte) (int, error) {
	r.read = true
	return 0, io.EOF
}

// The instant of a decision is that after the body: a client that holds bodies back for a minute does not save its quota up. The body
// of a client with a bad credential is not read.
func TestGate_late(t *testing.T) {
	const tools = `{"rules":[{"endpoint":"/priced","headers":{"mcp-name":"dear"},"limits":{"*":{"requests":1,"window":"1m"}}}]}`
	for i, document := range []string{priced, tools, priced, tools} {
		parsed, body, decided := storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1})), &reading{}, time.Time{}
		want, bad := noon.Add(time.Minute), error(nil)
		if i > 1 {
			want, bad = noon, caller.ErrInvalidCredential
		}
		gate := httplimit.New(httplimit.Options{
			Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
			Select:  func(_ context.Context, _ time.Time, q rules.Request) rules.Selection { return parsed.Select(nil, q) },
			Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
				return caller.Caller{}, bad
			},
			Observe: func(_ context.Context, o telemetry.Outcome) { decided = o.Time },
			Clock: func() time.Time {
				if body.read {
					return noon.Add(time.Minute)
				}
				return noon
			},
		})
		sent := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/priced", body)
		gate.Wrap(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), sent)
		if body.read != (bad == nil) || !decided.Equal(want) {
			t.Errorf("%s, error %v: got a decision of %s, body read %t, want one of %s", document, bad, decided, body.read, want)
		}
	}
}

// Bodies that do not end hold at most 8 MB of an address, and 64 MB in all, beside the first 8 KB of each. Others then reserve the
// most. Callers without an address are not one client.
func TestGate_metering_bound(t *testing.T) {
	gate := storetest.Must(httplimit.FromDocument([]byte(priced)))
	h := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	send := func(from string, body io.Reader) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/priced", body)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get("X-RateLimit-Remaining")
	}
	in, out := io.Pipe()
	var waiting sync.WaitGroup
	blank := strings.Repeat(" ", 1<<20-1)
	hold := func(from string, total int) { // holds 8 further bodies
		for range 8 {
			waiting.Go(func() { send(from, io.MultiReader(strings.NewReader(blank), in)) })
		}
		for gate.Reading() < total*(len(blank)-8<<10) {
			runtime.Gosched()
		}
	}
	want := func(name, from string, kilobytes int, left string) {
		t.Helper()
		const begin = `{"max_tokens":1}`
		if got := send(from, strings.NewReader(begin+blank[:kilobytes<<10-len(begin)])); got != left {
			t.Errorf("%s: got %s left, want %s", name, got, left)
		}
	}
	const read, unread = "996", "800"
	hold("[2001:db8::1]:1", 8)
	want("beside others of its network", "[2001:db8::2]:1", 100, unread)
	want("a short body beside others", "[2001:db8::2]:1", 8, "796")
	want("of another address", "192.0.2.200:1", 100, read)
	hold("@", 16) // of a socket without addresses
	want("without an address", "@", 100, read)
	for i := range 6 {
		hold(fmt.Sprintf("192.0.2.%d:1", i), 24+8*i)
	}
	want("beside all others", "192.0.2.201:1", 600, unread)
	want("a short body beside all others", "192.0.2.202:1", 8, read)
	_ = out.Close()
	waiting.Wait()
	want("after the end", "192.0.2.203:1", 600, read)
	if gate.Reading() != 0 || gate.Readers() != 0 {
		t.Errorf("got %d bytes of %d addresses after the end, want none", gate.Reading(), gate.Readers())
	}
}
