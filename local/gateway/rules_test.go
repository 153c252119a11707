package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
)

// ruled has a REST API and an HTTP API that enforce a rules document. The API key of a request
// identifies the caller. The key is "key-" followed by the id of the caller's record.
type ruled struct {
	limiter.Store

	apis  map[gateway.Kind]*httptest.Server
	now   time.Time
	calls atomic.Int64 // number of calls of Take
	rules *rules.Rules
}

func (r *ruled) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	r.calls.Add(1)
	return r.Store.Take(ctx, now, s, charges, results)
}

// newRuled returns the APIs. handler serves every request that the rules admit, and metrics go to out.
func newRuled(t *testing.T, document string, out io.Writer, handler http.HandlerFunc) *ruled {
	t.Helper()
	return newRuledOn(t, storetest.Must(memstore.New(memstore.Options{})), document, out, handler)
}

// newRuledOn is newRuled with a store.
func newRuledOn(t *testing.T, store limiter.Store, document string, out io.Writer, handler http.HandlerFunc) *ruled {
	t.Helper()
	parsed, err := rules.Parse([]byte(document), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &ruled{Store: store, rules: parsed, apis: map[gateway.Kind]*httptest.Server{}, now: start}
	logger := slog.New(slog.DiscardHandler)
	recorder := telemetry.New(out, "dev", nil)
	recorder.Rules(start, 1, time.Time{}, parsed.Labels(), parsed.Exemptions())
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(r, limiter.Options{Logger: logger})), Rules: live.Fixed(parsed), Logger: logger,
		Identifier: caller.New(caller.Options{APIKeys: keys{}}), Clock: func() time.Time { return r.now }, Recorder: recorder,
	}
	templ, err := template.Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(templ, gateway.Options{
		Functions: functions{"Authorizer": lambdahttp.NewAuthorizer(e), "Handler": lambdahttp.NewHandler(e, handler)}, Clock: e.Clock, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range g.APIs() {
		r.apis[api.Kind] = serve(t, api)
	}
	return r
}

// keys accepts every API key that begins with "key-".
type keys struct{}

func (keys) Lookup(_ context.Context, _ time.Time, key string) (caller.Record, error) {
	if len(key) < 5 || key[:4] != "key-" {
		return caller.Record{}, caller.ErrInvalidCredential
	}
	return caller.Record{ID: key[4:]}, nil
}

// On both APIs, a request to an exempt endpoint or from an exempt caller makes no store call, and a
// metric counts the request. A bad credential at an exempt endpoint is charged to its address.
func TestRules_exempt(t *testing.T) {
	var log bytes.Buffer
	r := newRuled(t, `{"rules":[{"endpoint":"*","limits":{"global":[
			{"name":"all","requests":2,"window":"1m","per":["client"]},
			{"name":"bad","requests":3,"window":"1m","per":["ip"],"only":"bad_credentials"}]}}],
		"exempt":[{"endpoint":"/health","name":"health"},{"apikey":"monitoring"}]}`, &log, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	want := func(api gateway.Kind, path string, statuses []int, headers ...string) {
		t.Helper()
		for i, status := range statuses {
			if api == gateway.REST && status == http.StatusTooManyRequests {
				status = http.StatusForbidden // this template has no gateway response that turns a denial into a 429
			}
			if a := send(t, r.apis[api], "GET", path, "", headers...); a.status != status {
				t.Errorf("%s API, request %d of %s with %q: got %d %s, want %d", api, i+1, path, headers, a.status, a.body, status)
			}
		}
	}
	for _, api := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		want(api, "/health", []int{200, 200, 200, 200, 200})
		want(api, "/a", []int{200, 200, 200, 200}, "X-Api-Key: key-monitoring")
		if calls := r.calls.Load(); calls != 0 {
			t.Fatalf("%s API: exempt requests: got %d store calls, want 0", api, calls)
		}
		want(api, "/a", []int{200, 200, 429}, "X-Api-Key: key-alice")
		want(api, "/health", []int{401, 401, 401, 429}, "X-Api-Key: guess")
		r.calls.Store(0)
		r.now = r.now.Add(time.Hour)
	}
	want(gateway.HTTP, "/a", []int{200}) // an hour later, this request writes the metrics of the requests above
	exempt := 0
	for _, match := range regexp.MustCompile(`"Exempt":(\d+),"Exemption":"health"`).FindAllStringSubmatch(log.String(), -1) {
		n, _ := strconv.Atoi(match[1])
		exempt += n
	}
	if exempt != 10 {
		t.Errorf("metric Exempt of health: got %d, want 10", exempt)
	}
}

// Both APIs count by the same values of a header field, even if the field occurs several times or in
// another case. They also count by a parameter of the path.
func TestRules_per(t *testing.T) {
	r := newRuled(t, `{"rules":[
		{"endpoint":"/docs/{id}","limits":{"*":{"name":"document","requests":2,"window":"1m","per":["path:id"]}}},
		{"endpoint":"/tenant","limits":{"*":{"name":"tenant","requests":2,"window":"1m","per":["ip","header:X-Tenant"]}}},
		{"endpoint":"/method","limits":{"*":{"name":"method","requests":2,"window":"1m","per":["ip","method"]}}}]}`,
		io.Discard, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for _, c := range []struct {
		name            string
		first, second   []string // method, path and header fields of two requests that the limit counts together
		third, distinct []string // the limit counts third with the first two, and distinct separately
	}{
		{"header", []string{"GET", "/tenant", "X-Tenant: a"}, []string{"GET", "/tenant", "x-tEnAnT: a"}, []string{"GET", "/tenant", "X-Tenant: a"}, []string{"GET", "/tenant", "X-Tenant: b"}},
		{"repeated header", []string{"GET", "/tenant", "X-Tenant: p", "X-Tenant: q"}, []string{"GET", "/tenant", "X-Tenant: p,q"}, []string{"GET", "/tenant", "X-Tenant: p", "X-Tenant: q"}, []string{"GET", "/tenant", "X-Tenant: p"}},
		{"no header", []string{"GET", "/tenant"}, []string{"GET", "/tenant", "X-Other: a"}, []string{"GET", "/tenant"}, []string{"GET", "/tenant", "X-Tenant: c"}},
		{"parameter", []string{"GET", "/docs/7"}, []string{"POST", "/docs/%37/"}, []string{"GET", "/docs/7"}, []string{"GET", "/docs/8"}},
		{"method", []string{"GET", "/method"}, []string{"HEAD", "/method"}, []string{"GET", "/method"}, []string{"POST", "/method"}},
	} {
		for _, api := range []gateway.Kind{gateway.REST, gateway.HTTP} {
			status := func(request []string) int {
				return send(t, r.apis[api], request[0], request[1], "", request[2:]...).status
			}
			refused := map[gateway.Kind]int{gateway.REST: http.StatusForbidden, gateway.HTTP: http.StatusTooManyRequests}[api]
			got := []int{status(c.first), status(c.second), status(c.third), status(c.distinct)}
			if want := []int{200, 200, refused, 200}; !slices.Equal(got, want) {
				t.Errorf("%s API: %s: got %v, want %v", api, c.name, got, want)
			}
			r.now = r.now.Add(time.Hour)
		}
	}
}

// A limit in mode mark admits requests over it. The handler gets the name of the limit behind either
// API, and a client cannot set this field.
func TestRules_mark(t *testing.T) {
	var over []string
	r := newRuled(t, `{"rules":[
		{"endpoint":"/search","limits":{"*":[{"name":"soft","requests":2,"window":"1m","mode":"mark"},{"name":"hard","requests":4,"window":"1m"}]}},
		{"endpoint":"/free","mode":"shadow","limits":{"*":{"name":"tried","requests":1,"window":"1m","mode":"mark"}}}],
		"exempt":[{"endpoint":"/health"}]}`, io.Discard, func(_ http.ResponseWriter, r *http.Request) {
		over = append(over, strings.Join(r.Header.Values("Weir-Over"), "|"))
	})
	for _, api := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		for _, c := range []struct {
			path string
			want []string
		}{
			{"/search", []string{"", "", "soft", "soft"}}, {"/free", []string{"", "", ""}}, {"/health", []string{""}}, {"/other", []string{""}},
		} {
			over = nil
			var last answer
			for range len(c.want) + 1 {
				last = send(t, r.apis[api], "GET", c.path, "", "weir-oVer: forged", "Weir-Over: forged too")
			}
			if c.path != "/search" {
				over = over[1:]
			} else if last.status == http.StatusOK {
				t.Errorf("%s API: %s: got 200 over the limit hard, want a refusal", api, c.path)
			}
			if !slices.Equal(over, c.want) {
				t.Errorf("%s API: %s: got Weir-Over %q, want %q", api, c.path, over, c.want)
			}
			if last.header.Get("Weir-Over") != "" {
				t.Errorf("%s API: %s: the client got Weir-Over, want it only for the handler", api, c.path)
			}
		}
		r.now = r.now.Add(time.Hour)
	}
}

// The usage endpoint returns the caller's own limits behind either API. It charges only a limit of its
// own, and an anonymous caller gets 401.
func TestRules_usage(t *testing.T) {
	r := newRuled(t, `{"rules":[
		{"endpoint":"/search","limits":{"*":[{"name":"search","requests":5,"window":"1m"},{"name":"document","requests":5,"window":"1m","per":["client","method"]}]}},
		{"endpoint":"*","limits":{"global":[{"name":"all","requests":1000,"window":"1m","per":["global"]},{"name":"month","requests":9,"window":"1h","per":["client"],"algorithm":"fixed_window"}]}}],
		"usage":{"endpoint":"/_usage","limit":{"requests":3,"window":"1m"}}}`, io.Discard, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_usage" {
			t.Error("the handler was called for the usage endpoint, want an answer of Weir")
		}
	})
	for _, api := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		for range 2 {
			send(t, r.apis[api], "GET", "/search", "", "X-Api-Key: key-alice")
		}
		send(t, r.apis[api], "GET", "/search", "", "X-Api-Key: key-bob")
		for range 3 {
			a := send(t, r.apis[api], "GET", "/_usage", "", "X-Api-Key: key-alice")
			got := decode[httplimit.Usage](t, []byte(a.body))
			if a.status != http.StatusOK || got.Subject != "apikey:alice" || got.Truncated || len(got.Limits) != 2 || a.header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%s API: got %d %s, want two limits of alice", api, a.status, a.body)
			}
			search, month := got.Limits[0], got.Limits[1]
			search.Reset, month.Reset = 0, 0
			if want := (httplimit.LimitUsage{Name: "search", Endpoint: "/search", Limit: 5, Window: "60s", Capacity: 5, Used: 2, Remaining: 3}); search != want {
				t.Errorf("%s API: got %+v, want %+v", api, search, want)
			}
			if want := (httplimit.LimitUsage{Name: "month", Endpoint: "*", Limit: 9, Window: "3600s", Capacity: 9, Used: 2, Remaining: 7}); month != want {
				t.Errorf("%s API: got %+v, want %+v", api, month, want)
			}
		}
		if a := send(t, r.apis[api], "GET", "/_usage", "", "X-Api-Key: key-alice"); a.status == http.StatusOK {
			t.Errorf("%s API: fourth question: got 200, want a refusal by the limit of the endpoint", api)
		}
		if a := send(t, r.apis[api], "GET", "/_usage", ""); a.status != http.StatusUnauthorized {
			t.Errorf("%s API: anonymous: got %d, want 401", api, a.status)
		}
		if a := send(t, r.apis[api], "GET", "/_usage", "", "X-Api-Key: guess"); a.status != http.StatusUnauthorized {
			t.Errorf("%s API: bad credential: got %d, want 401", api, a.status)
		}
		r.now = r.now.Add(2 * time.Hour)
	}
}
