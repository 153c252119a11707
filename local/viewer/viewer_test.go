package viewer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/viewer"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// lagging is a KeyValueStore whose changes act after some time.
type lagging struct {
	now     time.Time
	lag     time.Duration
	changes []change
	reads   int
	down    bool
}

type change struct {
	at         time.Time
	key, value string // value "" deletes the key
}

func (l *lagging) set(key, value string) { l.changes = append(l.changes, change{l.now, key, value}) }

// Get implements viewer.Store.
func (l *lagging) Get(key string) (string, error) {
	l.reads++
	value := ""
	for _, c := range slices.Backward(l.changes) {
		if c.key == key && !c.at.After(l.now.Add(-l.lag)) {
			value = c.value
			break
		}
	}
	if l.down || value == "" {
		return "", errors.New("no value")
	}
	return value, nil
}

var config = edge.Config{Version: 7, Secret: "c2VjcmV0", APIKeyHeader: "x-api-key", IPv6Bits: 64}

func (l *lagging) configure(c edge.Config) {
	value, ok := c.Value()
	if !ok {
		panic("the configuration does not fit")
	}
	l.set(edge.ConfigKey, value)
}

func entry(until time.Time) edge.Entry {
	return edge.Entry{Until: until, Version: 7, Name: "address", Capacity: 60, Requests: 60, Window: time.Minute}
}

// The function replaces the address that a client sent. It refuses nobody without a store, without a list, or with a
// malformed list.
func TestFunction_passes(t *testing.T) {
	for name, store := range map[string]viewer.Store{
		"no store": nil, "no list": &lagging{now: noon}, "malformed": &lagging{now: noon, changes: []change{{noon, "config", "{"}}}, "null": &lagging{now: noon, changes: []change{{noon, "config", "null"}}},
	} {
		f := storetest.Must(viewer.New(store))
		answer, headers, err := f.Handle(noon, viewer.Request{IP: "2001:db8::1", Method: "POST", URI: "/a%2Fb", Headers: map[string][]string{"weir-viewer-address": {"192.0.2.1", "192.0.2.2"}, "x": {"y"}}})
		if err != nil || answer != nil || fmt.Sprint(headers) != "map[weir-viewer-address:[2001:db8::1] x:[y]]" {
			t.Errorf("%s: got answer %v, headers %v, error %v; want the request with its address", name, answer, headers, err)
		}
	}
}

var minute = storetest.Must(limiter.NewLimit(limiter.Limit{Name: "address", Rule: "*", Rate: algo.Rate{Requests: 60, Window: time.Minute}}))

// The answer is the limiter's 429: the same fields and the same body. It ends exactly at the end of the wait.
func TestFunction_refuses(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 9*time.Second + 5*time.Millisecond, 10 * time.Second, 50*time.Second + 5*time.Millisecond} {
		d := limiter.Decision{At: noon, Limit: minute, Capacity: 60, RetryAfter: wait, ResetAfter: wait + 30*time.Second}
		until := noon.Add(wait)
		store := &lagging{now: noon}
		store.configure(config)
		listed := entry(until)
		listed.Reset = noon.Add(d.ResetAfter)
		store.set(config.Key(config.Address(netip.MustParseAddr("192.0.2.1"))), listed.Value())
		f := storetest.Must(viewer.New(store))
		request := viewer.Request{IP: "192.0.2.1", Method: "GET", URI: "/"}
		got, _, err := f.Handle(noon, request)
		if err != nil || got == nil {
			t.Fatalf("got %v, %v; want a refusal", got, err)
		}
		want := refusal(d)
		least, seconds := int(math.Ceil(wait.Seconds())), storetest.Must(strconv.Atoi(got.Headers["retry-after"]))
		longest := least
		if wait > 10*time.Second {
			longest = int(math.Ceil(wait.Seconds() * 1.03))
		}
		if seconds < least || seconds > longest {
			t.Errorf("%s: got a wait of %d s, want %d to %d", wait, seconds, least, longest)
		}
		if own := want.Headers["retry-after"]; own != got.Headers["retry-after"] { // both waits are random
			want.Headers["retry-after"] = got.Headers["retry-after"]
			want.Headers["ratelimit"] = strings.Replace(want.Headers["ratelimit"], "t="+own, "t="+got.Headers["retry-after"], 1)
			want.Body = strings.Replace(want.Body, "after "+own, "after "+got.Headers["retry-after"], 1)
		}
		want.Headers["weir-edge"] = "refused"
		if got.Status != want.Status || fmt.Sprint(got.Headers) != fmt.Sprint(want.Headers) || canonical(t, got.Body) != canonical(t, want.Body) {
			t.Errorf("%s: got %d %v %s, want %d %v %s", wait, got.Status, got.Headers, got.Body, want.Status, want.Headers, want.Body)
		}
		for at, refused := range map[time.Time]bool{until.Add(-time.Millisecond): true, until: false} {
			if answer, _, err := f.Handle(at, request); err != nil || (answer != nil) != refused {
				t.Errorf("%s: got %v, %v; want a refusal: %t", at, answer, err, refused)
			}
		}
		store.down = true
		if answer, _, err := f.Handle(noon, request); err != nil || answer != nil {
			t.Errorf("with the store unreadable: got %v, %v; want the request", answer, err)
		}
	}
}

// refusal returns the answer of the limiter to a refused request.
func refusal(d limiter.Decision) viewer.Answer {
	w := httptest.NewRecorder()
	httplimit.NewAnswer(d).Refuse(w)
	return viewer.Answer{Status: w.Code, Headers: lower(w.Header()), Body: w.Body.String()}
}

func lower(h http.Header) map[string]string {
	fields := map[string]string{}
	for name, values := range h {
		fields[strings.ToLower(name)] = strings.Join(values, " | ")
	}
	return fields
}

// canonical returns a JSON text with sorted members.
func canonical(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return string(storetest.Must(json.Marshal(value)))
}

// Callers that are refused together do not all get the same wait, except in the last seconds.
func TestFunction_jitter(t *testing.T) {
	store := &lagging{now: noon}
	store.configure(config)
	store.set(config.Key(config.Address(netip.MustParseAddr("192.0.2.1"))), entry(noon.Add(50*time.Second)).Value())
	f := storetest.Must(viewer.New(store))
	waits := map[string]int{}
	for range 200 {
		answer, _, err := f.Handle(noon, viewer.Request{IP: "192.0.2.1", Method: "GET", URI: "/"})
		if err != nil || answer == nil {
			t.Fatalf("got %v, %v; want a refusal", answer, err)
		}
		waits[answer.Headers["retry-after"]]++
	}
	if len(waits) < 2 {
		t.Errorf("got the waits %v, want several", waits)
	}
}

// The wait for the next period of a calendar is exact.
func TestFunction_period(t *testing.T) {
	d := limiter.Decision{At: noon, Capacity: 60, RetryAfter: 12 * time.Hour, ResetAfter: 12 * time.Hour, Limit: storetest.Must(limiter.NewLimit(limiter.Limit{
		Name: "address", Rule: "*", Rate: algo.Rate{Requests: 60, Calendar: algo.Calendar{Period: algo.Day}},
	}))}
	store := &lagging{now: noon}
	store.configure(config)
	e := entry(noon.Add(d.RetryAfter))
	e.Window, e.Period = 24*time.Hour, true
	store.set(config.Key(config.Address(netip.MustParseAddr("192.0.2.1"))), e.Value())
	f := storetest.Must(viewer.New(store))
	for range 20 {
		got, _, err := f.Handle(noon, viewer.Request{IP: "192.0.2.1", Method: "GET", URI: "/"})
		if err != nil || got == nil {
			t.Fatalf("got %v, %v; want a refusal", got, err)
		}
		for name, want := range refusal(d).Headers {
			if got.Headers[name] != want {
				t.Fatalf("%s: got %q, want %q", name, got.Headers[name], want)
			}
		}
	}
}

// An entry of an API key acts on the requests with this key, from each address.
func TestFunction_apiKey(t *testing.T) {
	store := &lagging{now: noon}
	store.configure(config)
	e := entry(noon.Add(time.Minute))
	e.Owner = config.Owner("acme")
	store.set(config.Key(edge.APIKey("weir_listed")), e.Value())
	f := storetest.Must(viewer.New(store))
	for _, c := range []struct {
		keys    []string
		refused bool
	}{{[]string{"weir_listed"}, true}, {[]string{"weir_other"}, false}, {nil, false}, {[]string{"weir_listed", "weir_listed"}, false}, {[]string{"weir_listed, weir_listed"}, false}} {
		request := viewer.Request{IP: "192.0.2.9", Method: "GET", URI: "/", Headers: map[string][]string{}}
		if c.keys != nil {
			request.Headers["x-api-key"] = c.keys
		}
		if answer, _, err := f.Handle(noon, request); err != nil || (answer != nil) != c.refused {
			t.Errorf("%q: got %v, %v; want a refusal: %t", c.keys, answer, err, c.refused)
		}
	}
}

// A refusal has the same CORS fields as one of a function.
func TestFunction_cors(t *testing.T) {
	for _, origins := range [][]string{nil, {"*"}, {"https://app.example", "https://admin.example"}} {
		for _, origin := range []string{"", "https://app.example", "https://APP.example", "https://other.example"} {
			with := config
			with.Origins = origins
			store := &lagging{now: noon}
			store.configure(with)
			store.set(with.Key(with.Address(netip.MustParseAddr("192.0.2.1"))), entry(noon.Add(time.Second)).Value())
			request := viewer.Request{IP: "192.0.2.1", Method: "GET", URI: "/", Headers: map[string][]string{}}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			if origin != "" {
				request.Headers["origin"] = []string{origin}
				r.Header.Set("Origin", origin)
			}
			answer, _, err := storetest.Must(viewer.New(store)).Handle(noon, request)
			if err != nil || answer == nil {
				t.Fatalf("got %v, %v; want a refusal", answer, err)
			}
			w := httptest.NewRecorder()
			served(origins).ServeHTTP(w, r)
			want := lower(w.Header())
			for _, name := range []string{"vary", "access-control-allow-origin", "access-control-expose-headers"} {
				if answer.Headers[name] != want[name] {
					t.Errorf("origins %q, request of %q: %s: got %q, want %q", origins, origin, name, answer.Headers[name], want[name])
				}
			}
		}
	}
}

// served returns the handler of a function that allows origins.
func served(origins []string) http.Handler {
	e := &lambdahttp.Environment{
		CORSOrigins: origins, Logger: slog.New(slog.DiscardHandler), Clock: func() time.Time { return noon }, Identifier: caller.New(caller.Options{}),
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Rules:   live.Fixed(storetest.Must(rules.Parse([]byte(`{"rules":[]}`), rules.Options{Version: 1}))),
	}
	return e.Serve(http.NotFoundHandler())
}

// A key of the list belongs to exactly one address or network, and Go and JavaScript agree about it.
func TestFunction_addresses(t *testing.T) {
	for _, bits := range []int{1, 17, 48, 56, 64, 96, 128} {
		c := config
		c.IPv6Bits = bits
		for _, text := range []string{"192.0.2.1", "::ffff:192.0.2.1", "::1", "::", "2001:db8::", "2001:db8:1:2:3:4:5:6", "fe80::1:0:0:2", "64:ff9b::192.0.2.33", "2001:db8:0:0:1::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
			addr := netip.MustParseAddr(text)
			store := &lagging{now: noon}
			store.configure(c)
			store.set(c.Key(c.Address(addr)), entry(noon.Add(time.Minute)).Value())
			f := storetest.Must(viewer.New(store))
			for _, other := range []string{text, addr.Unmap().String(), addr.StringExpanded(), addr.Next().String(), "192.0.2.2", "2001:db8:ffff::1"} {
				if other == "invalid IP" { // the last address has no next one
					continue
				}
				want := c.Address(netip.MustParseAddr(other)) == c.Address(addr)
				if answer, _, err := f.Handle(noon, viewer.Request{IP: other, Method: "GET", URI: "/"}); err != nil || (answer != nil) != want {
					t.Errorf("/%d: %s listed, request of %s: got %v, %v; want a refusal: %t", bits, text, other, answer, err, want)
				}
			}
		}
	}
}

// Endpoints that pass, credentials and OPTIONS.
func TestFunction_exempt(t *testing.T) {
	for _, c := range []struct {
		pass        []string
		credentials bool
		method, uri string
		headers     map[string][]string
		refused     bool
	}{
		{nil, false, "GET", "/a%2Fb//c", nil, true},
		{nil, false, "OPTIONS", "/", nil, false},
		{nil, false, "GET", "/", map[string][]string{"authorization": {"Bearer x"}, "x-api-key": {"weir_x"}}, true},
		{nil, true, "GET", "/", map[string][]string{"authorization": {"Bearer x"}}, false},
		{nil, true, "GET", "/", map[string][]string{"x-api-key": {"weir_x"}}, false},
		{nil, true, "GET", "/", nil, true},
		{[]string{"/health"}, false, "GET", "/health", nil, false},
		{[]string{"/health"}, false, "GET", "/Health/", nil, false},
		{[]string{"/health"}, false, "GET", "/health/x", nil, true},
		{[]string{"/health"}, false, "GET", "/", nil, true},
		{[]string{"/health"}, false, "GET", "/x%20", nil, false},
		{[]string{"/health"}, false, "GET", "//x", nil, false},
		{[]string{"/health"}, false, "GET", "/x;a=1", nil, false},
		{[]string{"/health"}, false, "GET", `/x\health`, nil, false},
		{[]string{"/health"}, false, "GET", "/prod/health", nil, false},
		{[]string{"/health"}, false, "GET", "/v1/eu/Health/", nil, false},
		{[]string{"/health"}, false, "GET", "/v1/eu/x/health", nil, true},
		{[]string{"/health"}, false, "GET", "/v1/eu/health/x", nil, true},
		{[]string{"/"}, false, "GET", "/", nil, false},
		{[]string{"/"}, false, "GET", "/v1/eu", nil, false},
		{[]string{"/"}, false, "GET", "/v1/eu/x", nil, true},
		{[]string{"/b/*"}, false, "GET", "/v1/b/x", nil, false},
		{[]string{"/b/*"}, false, "GET", "/v1/x/y/b/x", nil, true},
		{[]string{"/*"}, false, "GET", "/x", nil, false},
		{[]string{"/a/{id}/c", "/b/*"}, false, "GET", "/a/9/c", nil, false},
		{[]string{"/a/{id}/c", "/b/*"}, false, "GET", "/b", nil, false},
		{[]string{"/a/{id}/c", "/b/*"}, false, "GET", "/b/1/2/3", nil, false},
		{[]string{"/a/{id}/c", "/b/*"}, false, "GET", "/a/9/d", nil, true},
	} {
		store := &lagging{now: noon}
		with := config
		with.Pass, with.Below, with.Credentials = c.pass, 2, c.credentials // a base path such as /v1/eu
		store.configure(with)
		store.set(with.Key(with.Address(netip.MustParseAddr("192.0.2.1"))), entry(noon.Add(time.Minute)).Value())
		f := storetest.Must(viewer.New(store))
		answer, _, err := f.Handle(noon, viewer.Request{IP: "192.0.2.1", Method: c.method, URI: c.uri, Headers: c.headers})
		if err != nil || (answer != nil) != c.refused {
			t.Errorf("%+v: got %v, %v", c, answer, err)
		}
	}
}

// With a lag of up to a minute, the function refuses exactly the callers that have an entry, before the end of its wait, under
// the version of the rules that refused them, except at an endpoint that passes: nobody after a reset or under newer rules,
// once the lag is over. Malformed values refuse nobody.
func TestFunction_lag(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	refusals, ended, outdated, exempt := 0, 0, 0, 0
	for range 25 {
		store := &lagging{now: noon.Add(-time.Hour), lag: upTo(61 * time.Second)}
		f := storetest.Must(viewer.New(store))
		type fact struct { // of an address, or of the rules
			at, until time.Time
			version   int64
		}
		facts := map[string][]fact{}
		visible := func(of string) (seen fact) {
			for _, each := range facts[of] {
				if !each.at.After(store.now.Add(-store.lag)) {
					seen = each
				}
			}
			return seen
		}
		c := config
		c.Pass = []string{"/health"}
		publish := func() {
			store.configure(c)
			facts["rules"] = append(facts["rules"], fact{at: store.now, version: c.Version})
		}
		publish()
		store.now = noon
		for range 200 {
			store.now = store.now.Add(upTo(3 * time.Second))
			ip := "192.0.2." + strconv.Itoa(random.IntN(4))
			change := fact{at: store.now}
			value := ""
			switch random.IntN(40) {
			case 0, 1, 2, 3, 4, 5, 6, 7, 8:
				e := entry(store.now.Add(upTo(2 * time.Minute)))
				e.Version = c.Version
				value, change.until, change.version = e.Value(), time.UnixMilli(e.Until.UnixMilli()), c.Version
				fallthrough
			case 9, 10, 11:
				store.set(c.Key(c.Address(netip.MustParseAddr(ip))), value)
				facts[ip] = append(facts[ip], change)
			case 12:
				c.Version++
				publish()
			case 13:
				store.set(c.Key(c.Address(netip.MustParseAddr(ip))), []string{"x", "99999999999999 7 1 1 1 a", "1795780800000 7 1 1", strings.Repeat("9", 1000)}[random.IntN(4)])
				facts[ip] = append(facts[ip], change)
			}
			uri := []string{"/", "/health"}[random.IntN(2)]
			answer, _, err := f.Handle(store.now, viewer.Request{IP: ip, Method: "GET", URI: uri})
			if err != nil {
				t.Fatal(err)
			}
			seen, version := visible(ip), visible("rules").version
			before := store.now.Before(seen.until)
			want := before && seen.version == version && uri == "/"
			if (answer != nil) != want {
				t.Fatalf("lag %s: %s %s at %s, entry %+v, rules %d: got %v, want a refusal: %t", store.lag, ip, uri, store.now, seen, version, answer, want)
			}
			switch {
			case want:
				refusals++
				if wait, left := storetest.Must(strconv.Atoi(answer.Headers["retry-after"])), seen.until.Sub(store.now).Seconds(); float64(wait) < left || float64(wait) > left*1.03+1 {
					t.Fatalf("got a wait of %d s, want about %.3g", wait, left)
				}
			case !before && !seen.until.IsZero():
				ended++
			case before && seen.version != version:
				outdated++
			case before:
				exempt++
			}
		}
	}
	if least := min(refusals, ended, outdated, exempt); least < 40 {
		t.Errorf("got %d refusals, %d ended waits, %d entries of older rules and %d exempt requests, want at least 40 of each", refusals, ended, outdated, exempt)
	}
}

// A list of 40,000 callers fits a KeyValueStore, whatever the numbers.
func TestEntry_fits(t *testing.T) {
	e := entry(noon)
	e.Version, e.Capacity, e.Requests, e.Window, e.Name, e.Period, e.Owner = 1<<53-1, 1e9, 1e9, 366*24*time.Hour, strings.Repeat("a", 32), true, config.Owner("acme")
	if size := 40_000 * (len(config.Key("ip:192.0.2.1")) + len(e.Value())); size+edge.MaxValue > edge.MaxList {
		t.Errorf("got %d bytes, want at most %d", size, edge.MaxList)
	}
	many := config
	many.Pass = slices.Repeat([]string{"/health"}, 100)
	if _, ok := many.Value(); ok {
		t.Error("100 patterns: got a value, want none, because it does not fit")
	}
}

// The work of the function is bounded for the longest paths, and as many patterns as fit: it does not grow with the path. A
// step is a block or a function of the source, such as one comparison of two segments.
func TestFunction_bounded(t *testing.T) {
	const key = "weir_x"
	for _, pattern := range []string{"/{a}/b", "/{a}/b/*", "/a/a/b", "/a/a/b/*", "/a/*"} {
		c := config
		c.Below = 3
		for ok := true; ok; _, ok = c.Value() {
			c.Pass = append(c.Pass, pattern)
		}
		c.Pass = c.Pass[1:]
		store := &lagging{now: noon}
		store.configure(c)
		store.set(c.Key(edge.APIKey(key)), entry(noon.Add(time.Minute)).Value())
		f := storetest.Must(viewer.New(store))
		for _, path := range []string{strings.Repeat("/a", 4096), strings.Repeat("/", 8192), "/" + strings.Repeat("a", 8191), strings.Repeat("/c", 3) + "/a/a/c"} {
			store.reads = 0
			_, _, err := f.Handle(noon, viewer.Request{IP: "2001:db8::1", Method: "GET", URI: path, Headers: map[string][]string{"x-api-key": {key}}})
			if steps := f.Steps(); err != nil || steps > 2500 || store.reads > 3 {
				t.Errorf("%d times %s, %.20s...: got %v after %d steps and %d reads; want at most 2500 and 3", len(c.Pass), pattern, path, err, steps, store.reads)
			}
		}
	}
}
