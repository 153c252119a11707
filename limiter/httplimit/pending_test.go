package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const counting = `{"rules":[
	{"endpoint":"/chat","limits":{"*":[
		{"name":"calls","requests":100,"window":"1m","per":["user"]},
		{"name":"input","requests":1000,"window":"1m","per":["user"],"count":"cost","reserve":100},
		{"name":"output","requests":1000,"window":"1m","per":["user"],"count":"cost","reserve":200},
		{"name":"failures","requests":100,"window":"1m","per":["user"],"count":"failures"},
		{"name":"bytes","requests":10000,"window":"1m","per":["user"],"count":"bytes","reserve":1000}]}},
	{"endpoint":"/export","limits":{"*":{"name":"exports","requests":2,"window":"20m","per":["user"],"count":"concurrent"}}},
	{"endpoint":"/import","limits":{"*":{"name":"imports","requests":2,"window":"1m","per":["user"],"count":"concurrent"}}},
	{"endpoint":"/report","limits":{"*":{"name":"reports","requests":2,"window":"40m","per":["user"],"count":"concurrent"}}},
	{"endpoint":"/plain","limits":{"*":{"name":"plain","requests":100,"window":"1m","per":["ip"]}}},
	{"endpoint":"/named","limits":{"*":{"name":"named","requests":1000,"window":"1m","per":["ip"],"count":"cost",
		"reserve":100}}},
	{"endpoint":"/lower","limits":{"*":{"name":"lower","requests":1000,"window":"1m","per":["ip"],"count":"cost",
		"reserve":100}}},
	{"endpoint":"/queue","limits":{"*":[
		{"name":"failures","requests":100,"window":"1m","per":["ip"],"count":"failures"},
		{"name":"queue","requests":1,"window":"10s","burst":5,"algorithm":"leaky_bucket","per":["ip"]},
		{"name":"waiting","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":100}]}},
	{"endpoint":"/guess","limits":{"global":[
		{"name":"bad","requests":100,"window":"1m","per":["ip"],"count":"failures"},
		{"name":"spent","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":100}]}}]}`

// settling is a Gate in front of an API. Its rules are the constant named counting.
type settling struct {
	t       *testing.T
	gate    *httplimit.Gate
	store   limiter.Store
	limiter *limiter.Limiter
	now     time.Time
	rules   *rules.Rules
	log     bytes.Buffer
	settled []telemetry.Settlement
}

func newSettling(t *testing.T, store limiter.Store) *settling {
	t.Helper()
	s := &settling{t: t, store: store, now: noon, rules: storetest.Must(rules.Parse([]byte(counting), rules.Options{MaxDelay: time.Minute}))}
	s.limiter = storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	s.gate = httplimit.New(httplimit.Options{
		Limiter: s.limiter, Clock: func() time.Time { return s.now }, MaxDelay: time.Minute,
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection { return s.rules.Select(nil, r) },
		Identify: func(_ context.Context, _ time.Time, r httplimit.Request) (caller.Caller, error) {
			if r.Header.Get("Authorization") == "bad" {
				return caller.Caller{Rejected: true, IP: address}, fmt.Errorf("%w: bad", caller.ErrInvalidCredential)
			}
			return caller.Caller{User: "alice", IP: address}, nil
		},
		Settled: func(o telemetry.Settlement) { s.settled = append(s.settled, o) },
		Logger:  slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	return s
}

// The Gate removes the cost fields of a client only from a copy, so a handler outside the Gate still sees
// them.
func TestGate_Wrap_header(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	for _, field := range []string{"Weir-Cost", "Weir-Over"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/chat", http.NoBody)
		r.Header.Set(field, "forged")
		s.gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if len(r.Header) > 0 {
				t.Errorf("the API got the header %v, want none", r.Header)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
		if r.Header.Get(field) != "forged" {
			t.Errorf("the header of the request: got %v, want it unchanged", r.Header)
		}
	}
	if plain := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/plain", http.NoBody); httplimit.SetOver(plain,
		"soft") == plain || len(plain.Header) > 0 {
		t.Errorf("the header of a request over a limit: got %v, want it unchanged", plain.Header)
	}
}

func (s *settling) get(path string, api http.HandlerFunc, headers ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, http.NoBody)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(http.ErrAbortHandler) {
				panic(v)
			}
		}()
		s.gate.Wrap(api).ServeHTTP(w, r)
	}()
	return w.Result()
}

// used returns the usage of each limit that applies to a path and a caller.
func (s *settling) used(path string, c caller.Caller) map[string]int64 {
	s.t.Helper()
	used := map[string]int64{}
	for _, charge := range s.rules.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: c}).Charges {
		look, results := []limiter.Charge{{Subject: charge.Subject, Limit: charge.Limit}}, make([]algo.Result, 1)
		if _, err := s.store.Take(s.t.Context(), algo.InstantOf(s.now), charge.Subject, look, results); err != nil {
			s.t.Fatal(err)
		}
		used[charge.Limit.Name] = results[0].Machine.Used(results[0].State, algo.InstantOf(s.now))
	}
	return used
}

var (
	address  = netip.MustParsePrefix("203.0.113.7/32")
	user     = caller.Caller{User: "alice", IP: address}
	reserved = map[string]int64{"calls": 1, "input": 100, "output": 200, "failures": 0, "bytes": 0}
)

// The cost reports, the status and the length of the API's answer settle the charges. After a bad report,
// the reserve stays charged.
func TestGate_Wrap_settles(t *testing.T) {
	field := func(values ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, v := range values {
				w.Header().Add("Weir-Cost", v)
			}
		}
	}
	for name, c := range map[string]struct {
		api      http.HandlerFunc
		want     map[string]int64 // expected usage; a limit that is not in the map has its reserve
		rejected int
	}{
		"nothing reported": {func(http.ResponseWriter, *http.Request) {}, nil, 0},
		"one cost":         {field("7"), map[string]int64{"input": 7, "output": 7}, 0},
		"by name":          {field("input=812, output=95"), map[string]int64{"input": 812, "output": 95}, 0},
		"one name":         {field("output=0"), map[string]int64{"output": 0}, 0},
		"two fields":       {field("input=1", "output=2"), map[string]int64{"input": 1, "output": 2}, 0},
		"into debt":        {field("input=1500"), map[string]int64{"input": 1500}, 0},
		"no number":        {field("many"), nil, 1},
		"empty":            {field(""), nil, 1},
		"negative":         {field("input=-5, output=3"), map[string]int64{"output": 3}, 1},
		"too large":        {field("1000000000000000"), nil, 1},
		"overflow":         {field("99999999999999999999"), nil, 1},
		"unknown limit":    {field("tokens=5"), nil, 1},
		"requests":         {field("calls=5"), nil, 1},
		"twice":            {field("input=5, input=6"), nil, 1},
		"without a name":   {field("=5"), nil, 1},
		"too long":         {field(strings.Repeat("input=1,", 200)), nil, 1},
		"Report": {func(_ http.ResponseWriter, r *http.Request) {
			httplimit.Report(r.Context(), "input", 3)
			httplimit.Report(r.Context(), "output", 4)
		}, map[string]int64{"input": 3, "output": 4}, 0},
		"Report of all": {func(_ http.ResponseWriter, r *http.Request) { httplimit.Report(r.Context(), "", 9) }, map[string]int64{"input": 9,
			"output": 9}, 0},
		"both": {func(w http.ResponseWriter, r *http.Request) {
			httplimit.Report(r.Context(), "", 9)
			field("output=1")(w, r)
		}, map[string]int64{"input": 9}, 1},
		"after the body": {func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "text"); field("5")(w, r) },
			map[string]int64{"input": 5, "output": 5, "bytes": 4}, 0},
		"trailer": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
			w.Header().Set("Trailer:Weir-Cost", "5")
		}, map[string]int64{"input": 5, "output": 5, "bytes": 4}, 0},
		"status 400": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, map[string]int64{"failures": 1}, 0},
		"status 399": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(399) }, nil, 0},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusBadGateway)
		}, map[string]int64{"failures": 1}, 0},
		"bytes": {func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("x", 500))
				_ = http.NewResponseController(w).Flush()
			}
		}, map[string]int64{"bytes": 1500}, 0},
		"panic": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, map[string]int64{"failures": 1}, 0},
		"panic afterward": {func(w http.ResponseWriter, r *http.Request) {
			field("5")(w, r)
			_, _ = io.WriteString(w, "text")
			panic(http.ErrAbortHandler)
		}, map[string]int64{"input": 5, "output": 5, "bytes": 4, "failures": 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
			answer := s.get("/chat", c.api, "Weir-Cost: 1")
			if got := answer.Header.Values("Weir-Cost"); got != nil || answer.Trailer != nil {
				t.Errorf("answer: got Weir-Cost %q and trailers %v, want none", got, answer.Trailer)
			}
			for name, got := range s.used("/chat", user) {
				want, ok := c.want[name]
				if !ok {
					want = reserved[name]
				}
				if got != want {
					t.Errorf("limit %s: got a usage of %d, want %d", name, got, want)
				}
			}
			if len(s.settled) != 1 || s.settled[0].Rejected != c.rejected || strings.Count(s.log.String(), "cost report rejected") != c.rejected {
				t.Errorf("settlements: got %+v and the log %s, want one with %d rejected reports", s.settled, &s.log, c.rejected)
			}
		})
	}
}

// Reverse proxies panic if the client leaves. Such a request has the status that was sent, or else 499.
func TestGate_Wrap_clientLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		status   int // sent before the client leaves
		failures int64
	}{
		"after status 200":  {http.StatusOK, 0},
		"after status 500":  {http.StatusInternalServerError, 1},
		"before the header": {0, 1}, // the limit counts 400 and above
		"after early hints": {http.StatusEarlyHints, 1},
		"after an upgrade":  {http.StatusSwitchingProtocols, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
			ctx, leave := context.WithCancel(t.Context())
			func() {
				defer func() { _ = recover() }()
				s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if c.status != 0 {
						w.WriteHeader(c.status)
					}
					leave()
					panic(http.ErrAbortHandler)
				})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/chat", http.NoBody))
			}()
			if got := s.used("/chat", user)["failures"]; got != c.failures {
				t.Errorf("limit failures: got a usage of %d, want %d", got, c.failures)
			}
		})
	}
}

// hijackable is a recorder whose connection a handler can take over.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, nil, nil
}

// The length of a hijacked connection is unknown, so the limit keeps its reserve.
func TestGate_Wrap_hijacked(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	conn, _ := net.Pipe()
	s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if got, _, err := http.NewResponseController(w).Hijack(); err != nil || got != conn {
			t.Errorf("got connection %v, %v; want that of the server", got, err)
		}
	})).ServeHTTP(hijackable{httptest.NewRecorder(), conn}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/chat", http.NoBody))
	if got := s.used("/chat", user)["bytes"]; got != 1000 {
		t.Errorf("got a usage of %d bytes, want the reserve of 1000", got)
	}
	w := httptest.NewRecorder()
	s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("a server without hijacking: got %v, want ErrNotSupported", err)
		}
		_, _ = io.WriteString(w, "text")
	})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/chat", http.NoBody))
	if got := s.used("/chat", user)["bytes"]; got != 1004 {
		t.Errorf("got a usage of %d bytes, want 4 more", got)
	}
}

// An API does not get a cost field that a client sends.
func TestGate_Wrap_costField(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	answer := s.get("/named", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Weir-Cost"); got != "" {
			t.Errorf("the API got Weir-Cost %q of the client", got)
		}
		w.Header().Set("Weir-Cost", "42")
	}, "Weir-Cost: 1")
	if got := s.used("/named", user)["named"]; got != 42 || answer.Header.Get("Weir-Cost") != "" {
		t.Errorf("got a usage of %d and %v, want 42, and Weir-Cost removed", got, answer.Header)
	}
}

// The answer to HEAD has no body, whatever the API writes.
func TestGate_Wrap_head(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") })
	s.gate.Wrap(api).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/chat", http.NoBody))
	if got := s.used("/chat", user)["bytes"]; got != 0 {
		t.Errorf("got a usage of %d bytes, want 0", got)
	}
}

// An API may spell the cost field in any way, and declare it as a trailer. A client gets the field in no part
// of the answer.
func TestGate_Wrap_costFieldSpelled(t *testing.T) {
	for name, api := range map[string]http.HandlerFunc{
		"trailer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
			w.Header().Set(http.TrailerPrefix+"Weir-Cost", "42")
		},
		"not canonical": func(w http.ResponseWriter, _ *http.Request) { w.Header()["weir-COST"] = []string{"42"} },
		"before a flush": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Weir-Cost", "42")
			_ = http.NewResponseController(w).Flush()
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Weir-Cost", "42")
			w.WriteHeader(http.StatusEarlyHints)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
			server := httptest.NewServer(s.gate.Wrap(api))
			defer server.Close()
			var early []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				early = h.Values("Weir-Cost")
				return nil
			}})
			answer := storetest.Must(http.DefaultClient.Do(storetest.Must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/lower",
				http.NoBody))))
			defer func() { _ = answer.Body.Close() }()
			_, _ = io.Copy(io.Discard, answer.Body)
			if got := slices.Concat(early, answer.Header.Values("Weir-Cost"), answer.Trailer.Values("Weir-Cost")); len(got) > 0 {
				t.Errorf("the client got Weir-Cost %q, want none", got)
			}
			if got := s.used("/lower", user)["lower"]; got != 42 {
				t.Errorf("got a usage of %d, want the reported 42", got)
			}
		})
	}
}

// At the usage endpoint, Weir's own answer settles the limit, as the answer of an API does.
func TestGate_Wrap_usage(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	for count, want := range map[string]func(body int) int64{
		`"failures"`:             func(int) int64 { return 0 },
		`"bytes","reserve":1000`: func(body int) int64 { return int64(body) },
	} {
		s.rules = storetest.Must(rules.Parse([]byte(`{"rules":[],"usage":{"endpoint":"/_usage","limit":{
			"name":"usage","requests":10000,"window":"1m","per":["user"],"count":`+count+`}}}`), rules.Options{}))
		answer := s.get("/_usage", func(http.ResponseWriter, *http.Request) { t.Error("the API got the request") })
		body := storetest.Must(io.ReadAll(answer.Body))
		if got := s.used("/_usage", user)["usage"]; answer.StatusCode != http.StatusOK || got != want(len(body)) {
			t.Errorf("count %s: got %s and a usage of %d, want 200 and %d", count, answer.Status, got, want(len(body)))
		}
		s.now = s.now.Add(time.Hour)
	}
}

// A request that does not reach the API has no cost. It counts as a failure if the status of Weir's
// answer is a failure.
func TestGate_Wrap_unserved(t *testing.T) {
	s := newSettling(t, storetest.Must(memstore.New(memstore.Options{})))
	unreached := func(http.ResponseWriter, *http.Request) { t.Error("the API got the request") }
	if a := s.get("/guess", unreached, "Authorization: bad"); a.StatusCode != http.StatusUnauthorized {
		t.Fatalf("bad credential: got %s, want 401", a.Status)
	}
	if got := s.used("/guess", caller.Caller{Rejected: true, IP: address}); got["bad"] != 1 || got["spent"] != 0 {
		t.Errorf("after a 401: got %v, want a failure without a cost", got)
	}
	s.get("/queue", func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.gate.Wrap(http.HandlerFunc(unreached)).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/queue", http.NoBody))
	if got := s.used("/queue", user); w.Code != http.StatusServiceUnavailable || got["waiting"] != 100 || got["failures"] != 0 {
		t.Errorf("after leaving the queue: got status %d and the usage %v, want 503, the 100 of the earlier request and no failure", w.Code, got)
	}
}

// A settlement is made even if the client has disconnected. If the store fails, the settlement is lost,
// and the request is answered as usual. A request without limits that have a Count calls the store once.
func TestGate_Wrap_settlementCalls(t *testing.T) {
	store := &callCounter{Store: storetest.Must(memstore.New(memstore.Options{}))}
	s := newSettling(t, store)
	disconnected := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Weir-Cost", "1")
		store.cancelled = context.Canceled
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := httptest.NewRecorder()
	s.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { cancel(); disconnected(w, r) })).
		ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/chat", http.NoBody))
	if got := s.used("/chat", user); got["input"] != 1 || store.settles != 1 || store.cancelled != nil {
		t.Errorf("after a disconnection: got %v, %d settlements, %v; want a settlement without cancellation", got, store.settles, store.cancelled)
	}

	store.err, store.settles, store.takes = limiter.ErrUnavailable, 0, 0
	a := s.get("/chat", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Weir-Cost", "1") })
	last := s.settled[len(s.settled)-1]
	if a.StatusCode != http.StatusOK || last.Lost != 4 || s.used("/chat", user)["input"] != 101 {
		t.Errorf("failing store: got %s, %+v, want 200 with four lost corrections and the reserve", a.Status, last)
	}

	store.settles, store.takes, s.settled = 0, 0, nil
	s.get("/plain", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Weir-Cost", "1") })
	if store.takes != 1 || store.settles != 0 || len(s.settled) != 0 {
		t.Errorf("without such limits: got %d charges and %d settlements, want one charge", store.takes, store.settles)
	}
}

// callCounter is a remote store that counts its calls, and whose settlements can fail.
type callCounter struct {
	limiter.Store
	storetest.Patient
	mu             sync.Mutex
	takes, settles int
	err, cancelled error
}

func (c *callCounter) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	if slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.Cost > 0 }) {
		c.mu.Lock()
		c.takes++
		c.mu.Unlock()
	}
	return c.Store.Take(ctx, now, s, charges, results)
}

func (c *callCounter) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	c.mu.Lock()
	c.settles++
	c.cancelled = ctx.Err()
	err := errors.Join(c.err, c.cancelled)
	c.mu.Unlock()
	if err != nil {
		return limiter.Settled{}, err
	}
	return c.Store.Settle(ctx, now, s, charges, results, elapsed)
}

// queued returns a handler whose requests leave a leaky bucket every 100 ms.
func queued(t *testing.T, next http.HandlerFunc) http.Handler {
	t.Helper()
	queue := limit(t, "queue", algo.Rate{Algorithm: algo.LeakyBucket, Requests: 10, Window: time.Second, Burst: 5})
	return httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			return rules.Selection{Charges: []limiter.Charge{{Subject: r.Caller.Subject(), Limit: queue, Cost: 1}}}
		},
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
			return caller.Caller{User: "a"}, nil
		},
		MaxDelay: time.Second,
	}).Wrap(next)
}

func status(ctx context.Context, h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	return w.Code
}

// Requests leave a leaky bucket at a fixed interval and wait at most MaxDelay. If the context of a
// request ends, the request leaves the queue.
func TestGate_delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var left []time.Duration
		begun := time.Now()
		h := queued(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, time.Since(begun))
		})
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(250*time.Millisecond, cancel)
		var wg sync.WaitGroup
		statuses := make([]int, 6)
		for i := range statuses {
			ctx := t.Context()
			if i == 3 {
				ctx = gone
			}
			wg.Go(func() { statuses[i] = status(ctx, h) })
			synctest.Wait() // each request joins the queue before the next request begins
		}
		wg.Wait()
		if want := []int{200, 200, 200, 503, 200, 429}; !slices.Equal(statuses, want) {
			t.Errorf("statuses: got %v, want %v", statuses, want)
		}
		if want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}; !slices.Equal(left, want) {
			t.Errorf("departures: got %v, want %v", left, want)
		}
	})
}

// A request does not wait if its turn comes too late for an answer before its deadline.
func TestGate_delayDeadline(t *testing.T) {
	for _, c := range []struct {
		left   time.Duration // until the deadline
		status int
		waited time.Duration
	}{
		{100*time.Millisecond + httplimit.AnswerTime, http.StatusOK, 100 * time.Millisecond},
		{100*time.Millisecond + httplimit.AnswerTime - 1, http.StatusServiceUnavailable, 0},
		{50 * time.Millisecond, http.StatusServiceUnavailable, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := queued(t, func(http.ResponseWriter, *http.Request) {})
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			begun := time.Now()
			if first, second := status(ctx, h), status(ctx, h); first != http.StatusOK || second != c.status {
				t.Errorf("%s before the deadline: got %d and %d, want 200 and %d", c.left, first, second, c.status)
			}
			if waited := time.Since(begun); waited != c.waited {
				t.Errorf("%s before the deadline: waited %s, want %s", c.left, waited, c.waited)
			}
		})
	}
}
