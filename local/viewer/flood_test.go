package viewer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/viewer"
)

// behind is an API behind a distribution, in virtual time. Lines of the log and changes of the list act after some time.
type behind struct {
	now     time.Time
	log     bytes.Buffer
	list    *viewer.List
	written []map[string]string // changes of the list, in order
	down    bool                // the list
	fails   bool                // the store
	reads   int
	keys    keys

	environment *lambdahttp.Environment
	api         http.Handler
	forward     interface {
		Invoke(context.Context, []byte) ([]byte, error)
	}
	viewer             *viewer.Function
	invocations, edges int
	calls              int // of the writer
	lines              int // that list a caller
}

// writer records the changes of the list, and counts calls.
type writer struct {
	edge.Store
	b *behind
}

// State implements edge.Store.
func (w writer) State(ctx context.Context) (string, int, error) {
	w.b.calls++
	return w.Store.State(ctx)
}

// Get implements edge.Store.
func (w writer) Get(ctx context.Context, key string) (string, error) {
	w.b.calls++
	return w.Store.Get(ctx, key)
}

// Page implements edge.Store.
func (w writer) Page(ctx context.Context, token string) (map[string]string, string, error) {
	w.b.calls++
	return w.Store.Page(ctx, token)
}

// Update implements edge.Store.
func (w writer) Update(ctx context.Context, tag string, values map[string]string) error {
	w.b.calls++
	err := w.Store.Update(ctx, tag, values)
	if err == nil {
		w.b.written = append(w.b.written, values)
	}
	return err
}

// Get implements viewer.Store.
func (b *behind) Get(key string) (value string, err error) {
	b.reads++
	if b.down {
		return "", errors.New("unreadable")
	}
	return b.list.Functions().Get(key)
}

// shared is a store that a process does not have to itself, so the process remembers refusals.
type shared struct {
	limiter.Store
	b *behind
}

// Take implements limiter.Store.
func (s shared) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	if s.b.fails {
		return false, limiter.ErrUnavailable
	}
	return s.Store.Take(ctx, now, subject, charges, results)
}

const flooded = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"address","requests":60,"window":"1m","algorithm":"fixed_window","per":["ip"]}}}]}`

// keys are the API keys of two callers.
type keys map[string]string

// Lookup implements caller.KeyRecords.
func (k keys) Lookup(_ context.Context, _ time.Time, key string) (caller.Record, error) {
	if k[key] == "" {
		return caller.Record{}, caller.ErrInvalidCredential
	}
	return caller.Record{ID: k[key]}, nil
}

func newBehind(t *testing.T, document string, lag time.Duration, origins ...string) *behind {
	t.Helper()
	b := &behind{now: noon, keys: keys{}}
	b.list = viewer.NewList(func() time.Time { return b.now }, lag)
	logger := slog.New(slog.DiscardHandler)
	ring := receipts.Fixed("dev", receipts.NewKeys())
	recorder := telemetry.New(&b.log, "dev", nil)
	recorder.SignWith(ring.Sign)
	l := storetest.Must(limiter.New(shared{storetest.Must(memstore.New(memstore.Options{})), b}, limiter.Options{Logger: logger}))
	e := &lambdahttp.Environment{
		Limiter: l, Rules: live.Fixed(storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 7}))), Identifier: caller.New(caller.Options{IPv6Bits: 64, APIKeys: b.keys}),
		Clock: func() time.Time { return b.now }, Logger: logger, Recorder: recorder, Receipts: ring,
		CORSOrigins: origins,
		Edge:        &lambdahttp.Edge{Watch: edge.NewWatch(lag), IPv6Bits: 64}, List: writer{b.list, b},
	}
	b.environment = e
	b.start()
	b.forward = lambdahttp.NewForward(e)
	b.viewer = storetest.Must(viewer.New(b))
	return b
}

// start starts the function, after a change of its environment.
func (b *behind) start() {
	b.api = b.environment.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// request sends a request through the distribution, with an API key or "", and returns the status.
func (b *behind) request(t *testing.T, ip, key string) int {
	t.Helper()
	request := viewer.Request{IP: ip, Method: "GET", URI: "/"}
	if key != "" {
		request.Headers = map[string][]string{"x-api-key": {key}}
	}
	answer, headers, err := b.viewer.Handle(b.now, request)
	if err != nil {
		t.Fatal(err)
	}
	if answer != nil {
		b.edges++
		return answer.Status
	}
	b.invocations++
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(headers["weir-viewer-address"][0]), 1).String()
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	b.deliver(t)
	return w.Code
}

// deliver sends the lines of the log to the function behind its subscription. Their delay is part of the lag.
func (b *behind) deliver(t *testing.T) {
	t.Helper()
	var events []map[string]string
	for line := range strings.Lines(b.log.String()) {
		if strings.HasPrefix(line, `{"weir":"edge"`) {
			events = append(events, map[string]string{"message": line})
			if !strings.Contains(line, `"key":""`) {
				b.lines++
			}
		}
	}
	b.log.Reset()
	if events == nil {
		return
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(storetest.Must(json.Marshal(map[string]any{"logEvents": events})))
	_ = z.Close()
	if _, err := b.forward.Invoke(t.Context(), fmt.Appendf(nil, `{"awslogs":{"data":%q}}`, base64.StdEncoding.EncodeToString(packed.Bytes()))); err != nil {
		t.Fatal(err)
	}
}

// These are the prices of a million requests in us-east-1, in dollars, without free tiers.
const (
	invoked     = 1.314 // HTTP API and Lambda; infra/COSTS.md
	distributed = 1.00  // CloudFront, with HTTPS
	viewed      = 0.10  // CloudFront Functions
	looked      = 0.03  // a read of the KeyValueStore
)

// A flood from one address against a limit of 60 a minute, for ten minutes. After an entry acts, and until the wait is
// over, no request reaches the function; then the address is admitted at once. A caller that never stops has long waits
// only where requests leave the count together: a sliding_window of 60 admits one a second, so only its first wait is
// listed. WEIR_FLOOD is the number of requests a second for the limits with long waits, 20 without it.
func TestFlood(t *testing.T) {
	for _, c := range []struct {
		algorithm       string
		least, most     float64 // part of the requests that reach the function
		writes          int     // the first one has only the rules
		fewest, highest int     // admitted requests
	}{
		{"fixed_window", 0.16, 0.25, 11, 600, 600},
		{"sliding_log", 0.16, 0.25, 11, 600, 600},
		{"sliding_window", 0.9, 0.95, 2, 580, 660},
		{"token_bucket", 1, 1, 1, 659, 660},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			rate, err := strconv.Atoi(os.Getenv("WEIR_FLOOD"))
			if err != nil || c.writes <= 10 {
				rate = 20
			}
			f := flood(t, c.algorithm, rate)
			if got := float64(f.invocations) / f.requests; got < c.least || got > c.most {
				t.Errorf("got %.3f of the requests at the function, want %.2f to %.2f", got, c.least, c.most)
			}
			if f.admitted < c.fewest || f.admitted > c.highest || len(f.written) != c.writes {
				t.Errorf("got %d admitted requests and %d changes of the list, want %d to %d, and %d", f.admitted, len(f.written), c.fewest, c.highest, c.writes)
			}
			f.print(t, rate)
		})
	}
}

type result struct {
	*behind
	admitted int
	requests float64
}

const floodLasts = 10 * time.Minute

func flood(t *testing.T, algorithm string, rate int) result {
	t.Helper()
	const lag, ip = 10 * time.Second, "2001:db8::1"
	b := newBehind(t, strings.Replace(flooded, "fixed_window", algorithm, 1), lag)
	r := result{behind: b, requests: floodLasts.Seconds() * float64(rate)}
	acts, until := time.Time{}, time.Time{}
	for i := range int(r.requests) {
		b.now = noon.Add(time.Duration(i) * time.Second / time.Duration(rate))
		before, changes := b.invocations, len(b.written)
		status := b.request(t, ip, "")
		if status == http.StatusOK {
			r.admitted++
		}
		if !b.now.Before(acts) && b.now.Before(until) && b.invocations > before {
			t.Fatalf("%s: a request reached the function between %s and %s", b.now, acts, until)
		}
		if ends := until.Add(time.Millisecond); !until.IsZero() && !b.now.Before(ends) { // an entry has whole milliseconds
			if status != http.StatusOK {
				t.Fatalf("%s: got %d at the end of the wait, want 200", b.now, status)
			}
			until = time.Time{}
		}
		for _, values := range b.written[changes:] {
			for key, value := range values {
				if at, ok := edge.UntilOf(value); ok && key != edge.ConfigKey {
					acts, until = b.now.Add(lag), at
				}
			}
		}
	}
	return r
}

// print prints what the flood invoked, and what it costs in an hour.
func (r result) print(t *testing.T, rate int) {
	t.Helper()
	cost := func(invocations, reads float64, distribution bool) float64 {
		dollars := invocations * invoked
		if distribution {
			dollars += r.requests*(distributed+viewed) + reads*looked
		}
		return dollars / 1e6 * float64(time.Hour) / float64(floodLasts)
	}
	t.Logf("%d requests a second for %s: %d of %.0f invoked the function, %d admitted, %d refused at the edge, %d reads of the list by the viewer function, %d calls of its writer", rate, floodLasts, r.invocations, r.requests, r.admitted, r.edges, r.reads, r.calls)
	t.Logf("an hour: without a distribution $%.2f; with one, without the list $%.2f; with the list $%.2f", cost(r.requests, 0, false), cost(r.requests, 0, true), cost(float64(r.invocations), float64(r.reads), true))
}

// A refusal at the edge has the reset and the CORS fields of a refusal by the function.
func TestFlood_fields(t *testing.T) {
	const lag, ip, origin = 100 * time.Millisecond, "192.0.2.1", "https://app.example"
	b := newBehind(t, strings.Replace(flooded, "fixed_window", "token_bucket", 1), lag, "https://App.example") // whose reset is after its wait
	for range 90 {
		b.request(t, ip, "")
	}
	b.now = b.now.Add(lag)
	edge, _, err := b.viewer.Handle(b.now, viewer.Request{IP: ip, Method: "GET", URI: "/", Headers: map[string][]string{"origin": {origin}}})
	if err != nil || edge == nil {
		t.Fatalf("got %v, %v; want a refusal", edge, err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = ip + ":1"
	r.Header.Set("Origin", origin)
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	for _, name := range []string{"x-ratelimit-limit", "x-ratelimit-reset", "ratelimit-policy", "access-control-allow-origin", "access-control-expose-headers", "vary"} {
		if got, want := edge.Headers[name], w.Header().Get(name); got != want || got == "" {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// An exempt endpoint passes below a base path, whose length the function writes into the list.
func TestFlood_basePath(t *testing.T) {
	const lag, ip = 10 * time.Second, "192.0.2.1"
	b := newBehind(t, strings.Replace(flooded, `{"rules"`, `{"exempt":[{"endpoint":"/health"}],"rules"`, 1), lag)
	b.environment.BasePaths = []string{"/", "/v1/eu"}
	b.start()
	for range 100 {
		b.request(t, ip, "")
	}
	b.now = b.now.Add(lag)
	for uri, refused := range map[string]bool{"/v1/eu/health": false, "/health": false, "/v1/eu/x": true, "/v1/eu/x/health": true} {
		if answer, _, err := b.viewer.Handle(b.now, viewer.Request{IP: ip, Method: "GET", URI: uri}); err != nil || (answer != nil) != refused {
			t.Errorf("%s: got %v, %v; want a refusal: %t", uri, answer, err, refused)
		}
	}
}

// The edge refuses an API key that is over its quota, from each address. Each key of an id gets an entry of its own. A
// reset removes all of them.
func TestFlood_apiKey(t *testing.T) {
	const lag, quota = 10 * time.Second, `{"rules":[{"endpoint":"*","limits":{"global":{"name":"quota","requests":60,"period":"day","per":["apikey"]}}}]}`
	b := newBehind(t, quota, lag)
	first, second, other := caller.NewAPIKey(), caller.NewAPIKey(), caller.NewAPIKey()
	const guessable = "weir_hunter2"
	b.keys[first], b.keys[second], b.keys[other], b.keys[guessable] = "acme", "acme", "other", "other"
	flood := func(key string) {
		for i := range 100 {
			b.request(t, fmt.Sprintf("192.0.2.%d", i), key)
		}
		b.now = b.now.Add(lag)
	}
	edges := func(key string) (n int) {
		b.edges = 0
		b.request(t, "198.51.100.1", key)
		return b.edges
	}
	flood(first)
	if got := []int{edges(first), edges(second), edges(other), edges("")}; fmt.Sprint(got) != "[1 0 0 0]" {
		t.Errorf("refusals at the edge: got %v, want one, of the first key", got)
	}
	answer, _, err := b.viewer.Handle(b.now, viewer.Request{IP: "198.51.100.1", Method: "GET", URI: "/", Headers: map[string][]string{"x-api-key": {first}}})
	if want := (12*time.Hour - lag).Seconds(); err != nil || answer == nil || answer.Headers["retry-after"] != fmt.Sprint(want) || !strings.HasSuffix(answer.Headers["ratelimit-policy"], ";w=86400") {
		t.Errorf("got %v, %v; want a wait of %v s until the next day", answer, err, want)
	}
	var log bytes.Buffer
	b.environment.Logger = slog.New(slog.NewTextHandler(&log, nil))
	flood(guessable)
	if n := strings.Count(log.String(), "caller not listed"); edges(guessable) != 0 || n != 1 || strings.Contains(log.String(), guessable) {
		t.Errorf("a key that can be guessed: got %d refusals at the edge and the log %q, want none, and one line without the key", b.edges, log.String())
	}
	flood(second)
	if edges(second) != 1 {
		t.Error("the other key of the id: got no refusal at the edge, want one")
	}
	if text := fmt.Sprint(b.written); strings.Contains(text, "weir_") {
		t.Errorf("got %s in the list, want no API key", text)
	}
	if n, err := edge.RemoveOwner(t.Context(), b.list, b.now, "acme"); n != 2 || err != nil {
		t.Errorf("reset: got %d removed entries, %v; want 2", n, err)
	}
	b.now = b.now.Add(lag)
	if edges(first)+edges(second) != 0 {
		t.Error("after the reset: got a refusal at the edge, want none")
	}
}

// A caller is listed only if the edge then refuses no request that the limits admit.
func TestFlood_listed(t *testing.T) {
	const lag, ip = 10 * time.Second, "2001:db8::2"
	document := func(per, members string) string {
		return fmt.Sprintf(`{%s"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":60,"window":"1m","algorithm":"fixed_window","per":[%q]}}}]}`, members, per)
	}
	parsed := func(text string, version int64) *rules.Rules {
		return storetest.Must(rules.Parse([]byte(text), rules.Options{Version: version}))
	}
	const none = "0 lines, 0 0 refused" // with the key, without it
	for name, c := range map[string]struct {
		per, members string
		before       func(b *behind)
		want         string
	}{
		"address":                                {"ip", "", nil, "1 lines, 1 1 refused"},
		"address, exempt user":                   {"ip", `"exempt":[{"user":"alice"}],`, nil, "1 lines, 0 1 refused"},
		"address, exempt key":                    {"ip", `"exempt":[{"apikey":"acme"}],`, nil, "1 lines, 0 1 refused"},
		"address, exempt address in its network": {"ip", `"exempt":[{"ip":"2001:db8:0:0:1::/96"}],`, nil, none},
		"address, exempt address elsewhere":      {"ip", `"exempt":[{"ip":"2001:db8:0:1::/64"}],`, nil, "1 lines, 1 1 refused"},
		"address, exempt endpoint":               {"ip", `"exempt":[{"endpoint":"/health"}],`, nil, "1 lines, 1 1 refused"},
		"address, suffixes":                      {"ip", `"ignore_suffix":true,`, nil, "1 lines, 1 1 refused"},
		"address, exempt endpoint with suffixes": {"ip", `"exempt":[{"endpoint":"/health"}],"ignore_suffix":true,`, nil, none},
		// After an outage, the process refuses by what it counted alone. The store may have room.
		"address, counts of an outage": {"ip", "", func(b *behind) {
			b.fails = true
			for range 60 {
				b.request(t, ip, "")
			}
			b.fails = false
			b.request(t, "192.0.2.1", "")
		}, none},
		// The store has the same limit with other numbers, which may belong to other rules than the list.
		"address, superseded": {"ip", "", func(b *behind) {
			other := parsed(strings.Replace(document("ip", ""), `"requests":60`, `"requests":50`, 1), 7)
			charges := other.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{IP: netip.MustParsePrefix("2001:db8::/64")})
			for range 60 {
				_ = storetest.Must(b.environment.Limiter.Take(t.Context(), b.now, charges))
			}
		}, none},
		// Newer rules arrive between a decision and its line, which would have the exemptions of the newer rules.
		"address, newer rules": {"ip", "", func(b *behind) { b.environment.Rules = live.Fixed(parsed(document("ip", ""), 8)) }, none},

		"key":                  {"apikey", "", nil, "1 lines, 1 0 refused"},
		"key, exempt endpoint": {"apikey", `"exempt":[{"endpoint":"/health"}],`, nil, "1 lines, 1 0 refused"},
		"key, exempt address":  {"apikey", `"exempt":[{"ip":"203.0.113.1"}],`, nil, none},
		"key, exempt user":     {"apikey", `"exempt":[{"user":"alice"}],`, nil, none},
		"key, exempt key":      {"apikey", `"exempt":[{"apikey":"other"}],`, nil, none},
	} {
		b := newBehind(t, document(c.per, c.members), lag)
		key := caller.NewAPIKey()
		b.keys[key] = "acme"
		if c.before != nil {
			c.before(b)
		}
		flooding := map[string]string{"apikey": key}[c.per]
		refused := 0
		for range 100 {
			if b.request(t, ip, flooding) == http.StatusTooManyRequests {
				refused++
			}
		}
		b.now = b.now.Add(lag)
		atEdge := func(key string) int {
			b.edges = 0
			b.request(t, ip, key)
			return b.edges
		}
		got := fmt.Sprintf("%d lines, %d %d refused", b.lines, atEdge(key), atEdge(""))
		if got != c.want || refused < 40 {
			t.Errorf("%s: got %s after %d refusals, want %s", name, got, refused, c.want)
		}
	}
}

// entries returns the number of entries that were written.
func (b *behind) entries() (n int) {
	for _, values := range b.written {
		for key, value := range values {
			if key != edge.ConfigKey && value != "" {
				n++
			}
		}
	}
	return n
}

// Each environment of a function writes a line with the version of its rules, and lists a caller. Only the first lines cost
// calls.
func TestFlood_environments(t *testing.T) {
	const lag = 10 * time.Second
	b := newBehind(t, flooded, lag)
	for range 5 {
		b.environment.Edge = &lambdahttp.Edge{Watch: edge.NewWatch(lag), IPv6Bits: 64}
		b.start()
		for range 100 {
			b.request(t, "192.0.2.1", "")
		}
	}
	if len(b.written) != 2 || b.entries() != 1 || b.calls != 10 {
		t.Errorf("got %d changes, %d entries and %d calls, want 2 changes in 10, with one entry", len(b.written), b.entries(), b.calls)
	}
}

// A flood that changes its address as soon as it is listed buys few calls of the list, but not one for each address.
func TestFlood_addresses(t *testing.T) {
	const addresses = 60
	b := newBehind(t, flooded, 10*time.Second)
	for i := range addresses * 85 {
		b.now = noon.Add(time.Duration(i) * time.Millisecond)
		b.request(t, fmt.Sprintf("2001:db8:0:%x::1", i/85), "")
	}
	if b.lines != 10 || b.calls > 5*(10+1) {
		t.Errorf("got %d lines and %d calls for %d addresses, want 10 lines, and five calls for each and for the rules", b.lines, b.calls, addresses)
	}
}

// A caller that comes back after a reset is listed again in the same window, by the same environments.
func TestFlood_reset(t *testing.T) {
	const lag = 2 * time.Second
	b := newBehind(t, flooded, lag)
	flood := func() {
		for range 100 {
			b.request(t, "192.0.2.1", "")
		}
		b.now = b.now.Add(lag)
		b.edges = 0
		b.request(t, "192.0.2.1", "")
	}
	if flood(); b.edges != 1 {
		t.Fatal("got no refusal at the edge, want one")
	}
	charges := b.environment.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{IP: netip.MustParsePrefix("192.0.2.1/32")})
	if err := b.environment.Limiter.Reset(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
	if n, err := edge.RemoveAddress(t.Context(), b.list, b.now, netip.MustParseAddr("192.0.2.1")); n != 1 || err != nil {
		t.Fatalf("reset: got %d removed entries, %v; want 1", n, err)
	}
	b.now = b.now.Add(edge.RelistAfter)
	if flood(); b.edges != 1 {
		t.Error("after the reset, and another flood: got no refusal at the edge, want one")
	}
}

// When the rules change, entries of older rules no longer act after the lag, although nobody else is refused, and also if no
// environment was running at the change.
func TestFlood_rules(t *testing.T) {
	const lag = 10 * time.Second
	for _, running := range []bool{true, false} {
		b := newBehind(t, flooded, lag)
		for range 100 {
			b.request(t, "192.0.2.1", "")
		}
		b.now = b.now.Add(lag)
		if status := b.request(t, "192.0.2.1", ""); status != http.StatusTooManyRequests || b.edges != 1 {
			t.Fatalf("got %d and %d refusals at the edge, want one", status, b.edges)
		}
		older := b.environment.Rules
		raised := strings.Replace(flooded, `"requests":60`, `"requests":600`, 1)
		b.environment.Rules = live.Fixed(storetest.Must(rules.Parse([]byte(raised), rules.Options{Version: 8})))
		if !running {
			b.environment.Edge = &lambdahttp.Edge{Watch: edge.NewWatch(lag), IPv6Bits: 64}
		}
		b.start()
		b.request(t, "192.0.2.2", "")
		b.now = b.now.Add(lag)
		if status := b.request(t, "192.0.2.1", ""); status != http.StatusOK {
			t.Errorf("after the limit is raised, running %t: got %d, want 200", running, status)
		}
		calls := b.calls
		b.request(t, "192.0.2.2", "")
		b.environment.Rules, b.environment.Edge = older, &lambdahttp.Edge{Watch: edge.NewWatch(lag), IPv6Bits: 64} // a cold start reads old rules
		b.start()
		for range 100 {
			b.request(t, "192.0.2.3", "")
		}
		if b.calls != calls {
			t.Errorf("the next request, and an environment with older rules: got %d calls of the writer, want none", b.calls-calls)
		}
	}
}

// An environment that cannot sign its first line writes it with the next request.
func TestFlood_unsigned(t *testing.T) {
	b := newBehind(t, flooded, 10*time.Second)
	failing := true
	b.environment.Recorder.SignWith(func(ctx context.Context, now time.Time, text []byte) (string, error) {
		if failing {
			return "", errors.New("no keys")
		}
		return b.environment.Receipts.Sign(ctx, now, text)
	})
	for _, want := range []int{0, 1, 1} {
		if b.request(t, "192.0.2.1", ""); len(b.written) != want {
			t.Errorf("failing %t: got %d changes of the list, want %d", failing, len(b.written), want)
		}
		failing = false
	}
}

// Without a readable list, everything is decided as without the edge.
func TestFlood_unreadable(t *testing.T) {
	b := newBehind(t, flooded, 10*time.Second)
	b.down = true
	statuses := map[int]int{}
	for i := range 90 * 10 {
		b.now = noon.Add(time.Duration(i) * 100 * time.Millisecond)
		statuses[b.request(t, "192.0.2.1", "")]++
	}
	if b.edges != 0 || b.invocations != 900 || statuses[200] < 60 || statuses[200] > 120 || b.entries() == 0 {
		t.Errorf("got %d refusals at the edge and %v, want none, and the limiter's answers", b.edges, statuses)
	}
}
