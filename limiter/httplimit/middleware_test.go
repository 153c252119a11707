package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// send sends a request to h from a peer, with values of X-Forwarded-For.
func send(t *testing.T, h http.Handler, method, path, peer string, forwarded ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	r.RemoteAddr, r.Header["X-Forwarded-For"] = peer, forwarded
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// A proxy that is not trusted makes all of its clients one caller. The log warns once.
func TestPerIP_untrusted(t *testing.T) {
	for peer, want := range map[string]int{"172.31.0.9:1": 1, "127.0.0.1:1": 1, "[::ffff:192.168.1.1]:1": 1, "[fd00::1]:1": 1, "10.0.0.1:1": 0,
		"203.0.113.7:1": 0} {
		var log strings.Builder
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		api := httplimit.PerIP(9, time.Minute, httplimit.WithTrustedProxies("10.0.0.0/8")).Wrap(ok)
		slog.SetDefault(before)
		send(t, api, http.MethodGet, "/", peer) // without X-Forwarded-For, the peer is the client
		if log.Len() > 0 {
			t.Errorf("%s without a proxy: got log %s, want none", peer, &log)
		}
		for _, client := range []string{"198.51.100.1", "unknown"} {
			send(t, api, http.MethodGet, "/", peer, client)
		}
		if got := strings.Count(log.String(), "X-Forwarded-For ignored"); got != want {
			t.Errorf("%s: got log %s, want %d warnings", peer, &log, want)
		}
	}
}

// Only WithForwarded reads the field Forwarded. Without it, the log warns once if the client has the address of a proxy.
func TestPerIP_forwarded(t *testing.T) {
	for name, c := range map[string]struct {
		option      httplimit.Option
		client      string // in X-Forwarded-For
		second      int    // status of a second client in Forwarded
		wantWarning bool
	}{
		"trusted proxy":              {httplimit.WithTrustedProxies("10.0.0.0/8"), "", http.StatusTooManyRequests, true},
		"private peer":               {httplimit.WithTrustedProxies(), "", http.StatusTooManyRequests, true},
		"client in the other field":  {httplimit.WithTrustedProxies("10.0.0.0/8"), "198.51.100.1", http.StatusTooManyRequests, false},
		"proxies in the other field": {httplimit.WithTrustedProxies("10.0.0.0/8"), "10.0.0.2", http.StatusTooManyRequests, true},
		"read":                       {httplimit.WithForwarded("10.0.0.0/8"), "198.51.100.1", http.StatusOK, false},
	} {
		var log strings.Builder
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		api := httplimit.PerIP(1, time.Hour, c.option).Wrap(ok)
		slog.SetDefault(before)
		status := 0
		for i, node := range []string{"203.0.113.7", "203.0.113.8", "unknown"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.RemoteAddr, r.Header["Forwarded"] = "10.0.0.1:1", []string{"for=10.9.9.9", "for=" + node}
			if c.client != "" {
				r.Header["X-Forwarded-For"] = []string{c.client}
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if i == 1 {
				status = w.Code
			}
		}
		if warned := strings.Count(log.String(), "Forwarded ignored, and") == 1; status != c.second || warned != c.wantWarning {
			t.Errorf("%s: got %d, log %s, want %d and a warning: %t", name, status, &log, c.second, c.wantWarning)
		}
	}
}

func TestPerIP(t *testing.T) {
	const limit = 3
	for _, c := range []struct {
		name        string
		peers       []string // senders of the requests, which count as one caller
		forwarded   [][]string
		other       string
		otherFields []string
	}{
		{"address", []string{"203.0.113.7:1", "203.0.113.7:2", "[::ffff:203.0.113.7]:3", "203.0.113.7:4"}, nil, "203.0.113.8:1", nil},
		{"IPv6 network", []string{"[2001:db8:1:2::1]:1", "[2001:db8:1:2::2]:1", "[2001:db8:1:2:3::]:1", "[2001:db8:1:2:ffff::]:1"}, nil,
			"[2001:db8:1:3::1]:1", nil},
		{"zone", []string{"[fe80::1%a]:1", "[fe80::1%b]:1", "[fe80::2%a]:1", "[fe80::1]:1"}, nil, "203.0.113.8:1", nil},
		{"spoofed field of an untrusted peer", []string{"203.0.113.7:1", "203.0.113.7:1", "203.0.113.7:1", "203.0.113.7:1"},
			[][]string{{"192.0.2.1"}, {"192.0.2.2"}, {"192.0.2.3"}, {"192.0.2.4"}}, "203.0.113.8:1", nil},
		{"two proxies", []string{"10.0.0.1:1", "10.0.0.1:1", "10.0.0.1:1", "10.0.0.1:1"}, [][]string{{"203.0.113.7, 10.0.0.2"},
			{"192.0.2.1, 203.0.113.7, 10.0.0.2"}, {"192.0.2.2", "203.0.113.7:80"}, {"203.0.113.7"}}, "10.0.0.1:1",
			[]string{"203.0.113.8, 10.0.0.2"}},
		{"no address", []string{"@", "", "@", "@"}, [][]string{{"192.0.2.1"}, {"192.0.2.2"}, {"192.0.2.3"}, {"192.0.2.4"}}, "203.0.113.7:1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := httplimit.PerIP(limit, 24*time.Hour, httplimit.WithTrustedProxies("10.0.0.0/8")).Wrap(ok)
			for i, peer := range c.peers {
				var forwarded []string
				if c.forwarded != nil {
					forwarded = c.forwarded[i]
				}
				want := http.StatusOK
				if i >= limit {
					want = http.StatusTooManyRequests
				}
				w := send(t, h, http.MethodGet, "/a/../b", peer, forwarded...)
				if got := w.Header().Get("RateLimit-Policy"); w.Code != want || got != `"ip";q=3;w=86400` {
					t.Errorf("request %d of %s: got %d with policy %s, want %d", i, peer, w.Code, got, want)
				}
			}
			if got := send(t, h, http.MethodGet, "/", c.other, c.otherFields...).Code; got != http.StatusOK {
				t.Errorf("another caller: got %d, want 200", got)
			}
		})
	}
}

// Gates that share a store share the counts only of equal numbers.
func TestPerIP_shared(t *testing.T) {
	store := httplimit.WithStore(storetest.Must(memstore.New(memstore.Options{})))
	for _, c := range []struct {
		requests int
		window   time.Duration
		want     int
	}{{1, time.Hour, http.StatusOK}, {1, time.Hour, http.StatusTooManyRequests}, {2, time.Hour, http.StatusOK},
		{1, 2 * time.Hour, http.StatusOK}} {
		if got := send(t, httplimit.PerIP(c.requests, c.window, store).Wrap(ok), http.MethodGet, "/", "203.0.113.7:1").Code; got != c.want {
			t.Errorf("%d a %s: got %d, want %d", c.requests, c.window, got, c.want)
		}
	}
}

func TestPerIP_panics(t *testing.T) {
	for want, create := range map[string]func(){
		"httplimit: PerIP: requests: got 0":       func() { httplimit.PerIP(0, time.Minute) },
		"httplimit: PerIP: window: got 1ms":       func() { httplimit.PerIP(1, time.Millisecond) },
		`httplimit: trusted proxies: got "proxy"`: func() { httplimit.PerIP(1, time.Minute, httplimit.WithTrustedProxies("proxy")) },
	} {
		func() {
			defer func() {
				if err, _ := recover().(error); err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got panic %v, want %s", err, want)
				}
			}()
			create()
		}()
	}
}

// remote is a store that is not Local.
type remote struct{ limiter.Store }

func TestFromDocument_errors(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":1,"window":"1m"}}}]}`
	shared := httplimit.WithStore(remote{storetest.Must(memstore.New(memstore.Options{}))})
	for _, c := range []struct {
		document string
		option   httplimit.Option
		problems bool
		want     string
	}{
		{`{`, httplimit.WithTrustedProxies(), true, "line 1"},
		{`{"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":0,"window":"1m"}}}]}`, shared, true, "rules[0].limits.*.requests: "},
		{document, shared, true, "version: required"},
		{fmt.Sprintf(notifying, 10), httplimit.WithTrustedProxies(), false,
			`httplimit: rules[0].limits.*.notify: nothing writes its notices; pass WithNotify`},
		{document, httplimit.WithTrustedProxies("10.0.0.0/33"), false, `httplimit: trusted proxies: got "10.0.0.0/33"`},
	} {
		_, err := httplimit.FromDocument([]byte(c.document), c.option)
		_, problems := errors.AsType[rules.Problems](err)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0 || problems != c.problems {
			t.Errorf("%s: got error %v, want only %s", c.document, err, c.want)
		}
	}
	if _, err := httplimit.FromDocument([]byte(`{"version":7,`+document[1:]), shared); err != nil {
		t.Errorf("with a version: got error %v, want none", err)
	}
}

const notifying = `{"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":%d,"period":"month","notify":[80]}}}]}`

func TestFromDocument_notify(t *testing.T) {
	var got []limiter.Notice
	gate, err := httplimit.FromDocument(fmt.Appendf(nil, notifying, 5), httplimit.WithNotify(func(_ context.Context, n limiter.Notice) error {
		got = append(got, n)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		send(t, gate.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
	}
	if len(got) != 1 || got[0].Percent != 80 || got[0].Limit.Name != "a" {
		t.Errorf("notices: got %+v, want one of 80 percent of a", got)
	}
}

// metered is a remote store that counts its calls.
type metered struct {
	remote
	storetest.Patient
	takes atomic.Int64
}

func (s *metered) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	s.takes.Add(1)
	return s.remote.Take(ctx, now, subject, charges, results)
}

// items is a store that also has the sizes of its items, like the store on DynamoDB. wrapper hides the sizes.
type (
	items struct {
		*metered
		dynamostore.Items
	}
	wrapper struct {
		*metered
		of items
	}
)

func (w wrapper) Unwrap() limiter.Store { return w.of }

// In a store like DynamoDB's, large limits get leases.
func TestFromDocument_items(t *testing.T) {
	const requests = 50
	for _, c := range []struct {
		name   string
		store  func(*metered) limiter.Store
		leases bool
	}{
		{"any store", func(s *metered) limiter.Store { return s }, false},
		{"items", func(s *metered) limiter.Store { return items{metered: s} }, true},
		{"wrapped items", func(s *metered) limiter.Store { return wrapper{s, items{metered: s}} }, true},
	} {
		s := &metered{remote: remote{storetest.Must(memstore.New(memstore.Options{}))}}
		gate, err := httplimit.FromDocument([]byte(`{"version":1,"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":1000,`+
			`"window":"1s"}}}]}`), httplimit.WithStore(c.store(s)))
		if err != nil {
			t.Fatal(err)
		}
		for range requests {
			send(t, gate.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
		}
		if got := s.takes.Load(); (got < requests) != c.leases {
			t.Errorf("%s: got %d store calls for %d requests, want leases: %t", c.name, got, requests, c.leases)
		}
	}
}

// Fields are groups: where the handler has set a field of a group, its whole group stays. A handler that refuses gets none.
func TestGate_groups(t *testing.T) {
	all := map[string]string{"X-RateLimit-Limit": "9", "X-RateLimit-Remaining": "8", "X-RateLimit-Reset": "*", "RateLimit-Policy": "*",
		"RateLimit": "*"}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   map[string]string // * is any value of Weir's
	}{
		"none of its own": {func(http.ResponseWriter) {}, all},
		"a body":          {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, all},
		"an early hint":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, all},
		"a limit": {func(w http.ResponseWriter) { w.Header().Set("X-Ratelimit-Limit", "9") },
			map[string]string{"X-RateLimit-Limit": "9", "RateLimit-Policy": "*", "RateLimit": "*"}},
		"what a proxy adds": {func(w http.ResponseWriter) { w.Header().Add("Ratelimit", "mine") },
			map[string]string{"X-RateLimit-Limit": "9", "X-RateLimit-Remaining": "8", "X-RateLimit-Reset": "*", "RateLimit": "mine"}},
		"a refusal": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, map[string]string{"Retry-After": "7"}},
		"no capacity": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, nil},
		"an outage": {func(w http.ResponseWriter) {
			w.Header().Set("X-Ratelimit-Remaining", "3")
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("")) // sends the status 200
			w.WriteHeader(http.StatusServiceUnavailable)
		}, map[string]string{"X-RateLimit-Remaining": "3", "RateLimit-Policy": "*", "RateLimit": "*"}},
	} {
		w := httptest.NewRecorder()
		h := httplimit.PerIP(9, time.Minute).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		for _, field := range httplimit.ExposedFields() {
			got := strings.Join(w.Result().Header.Values(field), "|")
			if want := c.want[field]; got != want && (want != "*" || got == "") {
				t.Errorf("%s: %s: got %q, want %q", name, field, got, want)
			}
		}
	}
}

// The Gates of two regions together admit the shared limit, wherever the requests come from. Without the regions, and with a
// store that cannot move share, FromDocument returns an error.
func TestFromDocument_regions(t *testing.T) {
	document := []byte(`{"version":1,"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":9,"window":"100d",` +
		`"algorithm":"fixed_window","regions":"shared"}}}]}`)
	stores, admitted := []*memstore.Store{storetest.Must(memstore.New(memstore.Options{})), storetest.Must(memstore.New(memstore.Options{}))},
		0
	for i, store := range stores {
		regions := []limiter.Shares{stores[0], stores[1]}
		regions[i] = nil
		gate, err := httplimit.FromDocument(document, httplimit.WithStore(store), httplimit.WithRegions(regions...))
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if send(t, gate.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1").Code == http.StatusOK {
				admitted++
			}
		}
		if i == 0 && admitted != 9 {
			t.Errorf("the first region: got %d admitted, want all 9", admitted)
		}
	}
	if admitted != 9 {
		t.Errorf("both regions: got %d admitted, want 9", admitted)
	}
	for want, options := range map[string][]httplimit.Option{
		"this process has no list of the regions": nil,
		"httplimit: WithRegions: a httplimit_test.remote cannot move": {httplimit.WithStore(remote{stores[0]}),
			httplimit.WithRegions(nil, stores[1])},
		"limiter: Options.Regions: got 2 stores, 0 of them nil, want 2": {httplimit.WithStore(stores[0]), httplimit.WithRegions(stores[0],
			stores[1])},
	} {
		if _, err := httplimit.FromDocument(document, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

// A page of a listed origin can read a refusal and its fields. Wrap answers preflights, and they are free.
func TestWithCORS(t *testing.T) {
	const page = "https://app.example.com"
	for name, c := range map[string]struct {
		origins   []string
		from      string // "null" is a sandboxed frame
		preflight int
		allow     string
	}{
		"listed": {[]string{"https://other.example", page}, page, http.StatusNoContent, page},
		"every":  {[]string{"*"}, "null", http.StatusNoContent, "*"},
		"other":  {[]string{"https://other.example"}, page, http.StatusNoContent, ""},
		"none":   {nil, page, http.StatusOK, ""},
	} {
		h := httplimit.PerIP(1, time.Hour, httplimit.WithCORS(c.origins...)).Wrap(ok)
		for i, status := range []int{c.preflight, http.StatusOK, http.StatusTooManyRequests} {
			if c.origins == nil && i == 1 {
				continue // nobody answers its preflight, so it counts
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Origin", c.from)
			if i == 0 {
				r.Method = http.MethodOptions
				r.Header.Set("Access-Control-Request-Method", http.MethodPut)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			exposed := w.Header().Get("Access-Control-Expose-Headers")
			if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != c.allow ||
				strings.Contains(exposed, "Retry-After") != (c.allow != "" && i > 0) {
				t.Errorf("%s, request %d: got %d %v, want %d and the origin %q", name, i, w.Code, w.Header(), status, c.allow)
			}
		}
	}
	for _, bad := range []string{page + "/", "http://app.example.com", "https://*.example.com", "*", "null"} {
		_, err := httplimit.FromDocument([]byte(`{}`), httplimit.WithCORS(page, bad))
		if want := fmt.Sprintf("httplimit: WithCORS: got %q, want only *", bad); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A server with sessions of its own limits its users, and clients without a session by their address.
func ExampleWithCaller() {
	users := map[string]string{"s1": "alice", "s2": "bob"} // by session
	limit := httplimit.PerCaller(1, time.Hour, httplimit.WithCaller(func(r *http.Request) (c caller.Caller, err error) {
		if session, err := r.Cookie("session"); err == nil {
			c.User = users[session.Value]
		}
		return c, nil
	}))
	api := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, session := range []string{"s1", "s2", "s1", "unknown", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody) //nolint:noctx // as a reader would write it
		r.AddCookie(&http.Cookie{Name: "session", Value: session})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
	// 200
	// 429
}

// The caller of WithCaller selects the limits of a document. An error charges only the address.
func TestWithCaller(t *testing.T) {
	const document = `{"tiers":["gold","free"],"rules":[{"endpoint":"/","limits":{"gold":{"requests":50,"window":"1m"},"free":{"requests":5,
		"window":"1m"},"global":{"name":"guesses","requests":2,"window":"1m","per":["ip"],"only":"bad_credentials"}}}]}`
	for name, c := range map[string]struct {
		caller caller.Caller
		err    error
		want   string // status and limit of three requests
	}{
		"tier":       {caller.Caller{User: "u", Tiers: []string{"x", "gold"}}, nil, "200 50 200 50 200 50 "},
		"anonymous":  {caller.Caller{}, nil, "200 5 200 5 200 5 "},
		"bad":        {caller.Caller{User: "u"}, caller.ErrInvalidCredential, "401  401  429 2 "},
		"missing":    {caller.Caller{User: "u"}, fmt.Errorf("no session: %w", caller.ErrMissingCredential), "401  401  429 2 "},
		"unverified": {caller.Caller{User: "u"}, caller.ErrUnverified, "503  503  503  "},
		"other":      {caller.Caller{User: "u"}, errors.New("the sessions cannot be read"), "503  503  503  "},
	} {
		g := storetest.Must(httplimit.FromDocument([]byte(document), httplimit.WithCaller(func(r *http.Request) (caller.Caller, error) {
			if r.URL.Path != "/" {
				t.Errorf("%s: got %s, want the request", name, r.URL)
			}
			return c.caller, c.err
		})))
		got := ""
		for range 3 {
			w := send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
			got += fmt.Sprint(w.Code, " ", w.Header().Get("X-RateLimit-Limit"), " ")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	g := httplimit.PerCaller(1, time.Minute, httplimit.WithCaller(func(*http.Request) (caller.Caller, error) { panic("no request") }))
	if r := g.Decide(t.Context(), httplimit.Request{Method: http.MethodGet, Path: rules.EncodedPath("/")}); !errors.Is(r.Err,
		caller.ErrUnverified) {
		t.Errorf("without a request: got %v, want ErrUnverified", r.Err)
	}
}

// A claim by which a limit counts and that cannot count is reported for each request, and logged once.
func TestGate_uncounted(t *testing.T) {
	const document = `{"rules":[{"endpoint":"/","limits":{"*":{"name":"org","requests":5,"window":"1m","per":["claim:org"]}}}]}`
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	values, reported := []string{}, 0
	g := storetest.Must(httplimit.FromDocument([]byte(document), httplimit.WithCaller(func(*http.Request) (caller.Caller, error) {
		return caller.Caller{User: "u", Claims: map[string][]string{"org": values}}, nil
	}), httplimit.WithObserver(func(_ context.Context, o telemetry.Outcome) {
		if o.Uncounted {
			reported++
		}
	})))
	for range 3 {
		send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
	}
	values = []string{"acme"}
	send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
	if lines := strings.Count(log.String(), "a claim cannot count"); reported != 3 || lines != 1 ||
		!strings.Contains(log.String(), "claim=org") {
		t.Errorf("got %d reports and the log %s, want 3 reports and one line with the claim", reported, &log)
	}
}

// A Gate of FromFile follows the file. A document with mistakes changes nothing. The log has notices that nothing writes.
func TestFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	if _, err := httplimit.FromFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no such file", err)
	}
	changed := time.Now()
	write := func(requests string) {
		changed = changed.Add(time.Second)
		err := os.WriteFile(path, []byte(`{"rules":[{"endpoint":"*","limits":{"*":{"requests":`+requests+`,"window":"1h"}}}]}`), 0o600)
		if err := errors.Join(err, os.Chtimes(path, changed, changed)); err != nil {
			t.Fatal(err)
		}
	}
	write("5")
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		api := storetest.Must(httplimit.FromFile(path)).Wrap(ok)
		for i, requests := range []string{"5", "7", "no", "9", `8,"notify":[80]`} {
			if i > 0 { // at first, the file is the one of the start
				write(requests)
			}
			for range 3 { // the first one starts the reload
				time.Sleep(time.Minute)
				synctest.Wait()
				send(t, api, http.MethodGet, "/", "203.0.113.7:1")
			}
			want := requests[:1]
			if requests == "no" {
				want = "7"
			}
			if got := send(t, api, http.MethodGet, "/", "203.0.113.7:1").Header().Get("X-RateLimit-Limit"); got != want {
				t.Errorf("%s: got the limit %s, want %s", requests, got, want)
			}
			if refused := strings.Contains(log.String(), "rules refused"); refused != (requests == "no") {
				t.Errorf("%s: got the log %s, want a refused document: %t", requests, &log, requests == "no")
			}
			if unwritten := strings.Contains(log.String(), "nothing writes its notices"); unwritten != (want == "8") {
				t.Errorf("%s: got the log %s, want a warning of notices: %t", requests, &log, want == "8")
			}
			log.Reset()
		}
	})
}
