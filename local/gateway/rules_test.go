package gateway_test

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/local/gateway"
)

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// A request to an exempt endpoint or from an exempt caller makes no store call, and a metric counts
// it. A bad credential at an exempt endpoint is charged to the client's address.
func TestRules_exempt(t *testing.T) {
	onEach(t, example(t, "health.json"), ok, func(t *testing.T, r *ruled) {
		r.want(t, "GET /health", []int{200, 200, 200, 200, 200})
		r.want(t, "HEAD /health", times(1, 200))
		r.want(t, "GET /a", times(4, 200), "X-Api-Key: key-monitoring")
		if calls := r.calls.Load(); calls != 0 {
			t.Fatalf("exempt requests: got %d store calls, want 0", calls)
		}
		r.want(t, "GET /a", append(times(20, 200), 429), "X-Api-Key: key-alice")
		r.want(t, "GET /health/", times(1, 429), "X-Api-Key: key-alice")
		r.want(t, "GET /health//", times(1, 429), "X-Api-Key: key-alice")
		r.want(t, "GET /health", append(times(5, 401), 429), "X-Api-Key: weir_guess")
		r.now = r.now.Add(time.Hour)
		r.want(t, "GET /a", []int{200}, "X-Api-Key: key-alice") // metrics are written at the next request of a later minute
		exempt := 0
		for _, match := range regexp.MustCompile(`"Exempt":(\d+),"Exemption":"health"`).FindAllStringSubmatch(r.metrics.String(), -1) {
			n, _ := strconv.Atoi(match[1])
			exempt += n
		}
		if exempt != 6 {
			t.Errorf("metric Exempt of health: got %d, want 6", exempt)
		}
	})
}

// A request with a suspended key gets 401 at every path, even an exempt one. It is charged to the
// client's address.
func TestRules_suspended(t *testing.T) {
	onEach(t, example(t, "health.json"), ok, func(t *testing.T, r *ruled) {
		a := r.want(t, "GET /a", times(3, 401), "X-Api-Key: key-suspended")
		if r.kind == gateway.HTTP && !strings.Contains(a.body, `"error":"suspended"`) {
			t.Errorf("got %s, want the error suspended", a.body)
		}
		r.want(t, "GET /health", append(times(2, 401), 429), "X-Api-Key: key-suspended")
		r.want(t, "GET /a", times(1, 200), "X-Api-Key: key-alice")
	})
}

// A rule's "per" can name a header field or a path parameter. Both APIs count requests with the
// same value together, even if a field occurs twice or in another case.
func TestRules_per(t *testing.T) {
	onEach(t, `{"rules":[
		{"endpoint":"/docs/{id}","limits":{"*":{"name":"document","requests":2,"window":"1m","per":["path:id"]}}},
		{"endpoint":"/tenant","limits":{"*":{"name":"tenant","requests":2,"window":"1m","per":["ip","header:X-Tenant"]}}},
		{"endpoint":"/method","limits":{"*":{"name":"method","requests":2,"window":"1m","per":["ip","method"]}}}]}`, ok,
		func(t *testing.T, r *ruled) {
			for _, c := range []struct {
				name            string
				first, second   []string // method, path and header fields of two requests that are counted together
				third, distinct []string // third is counted together with first and second; distinct is counted separately
			}{
				{"header", []string{"GET /tenant", "X-Tenant: a"}, []string{"GET /tenant", "x-tEnAnT: a"}, []string{"GET /tenant", "X-Tenant: a"},
					[]string{"GET /tenant", "X-Tenant: b"}},
				{"repeated header", []string{"GET /tenant", "X-Tenant: p", "X-Tenant: q"}, []string{"GET /tenant", "X-Tenant: p,q"},
					[]string{"GET /tenant", "X-Tenant: p", "X-Tenant: q"}, []string{"GET /tenant", "X-Tenant: p"}},
				{"no header", []string{"GET /tenant"}, []string{"GET /tenant", "X-Other: a"}, []string{"GET /tenant"},
					[]string{"GET /tenant", "X-Tenant: c"}},
				{"parameter", []string{"GET /docs/7"}, []string{"POST /docs/%37/"}, []string{"GET /docs/7"}, []string{"GET /docs/8"}},
				{"method", []string{"GET /method"}, []string{"HEAD /method"}, []string{"GET /method"}, []string{"POST /method"}},
			} {
				t.Run(c.name, func(t *testing.T) {
					r.want(t, c.first[0], []int{200}, c.first[1:]...)
					r.want(t, c.second[0], []int{200}, c.second[1:]...)
					r.want(t, c.third[0], []int{429}, c.third[1:]...)
					r.want(t, c.distinct[0], []int{200}, c.distinct[1:]...)
				})
			}
		})
}

// A limit in mode mark admits requests over the limit. The back end gets the limit's name in
// Weir-Over. A client can neither set nor see this field.
func TestRules_mark(t *testing.T) {
	var over []string
	record := func(_ http.ResponseWriter, r *http.Request) {
		over = append(over, strings.Join(r.Header.Values("Weir-Over"), "|"))
	}
	onEach(t, `{"rules":[
		{"endpoint":"/search","limits":{"*":[{"name":"soft","requests":2,"window":"1m","mode":"mark"},{"name":"hard","requests":4,
			"window":"1m"}]}},
		{"endpoint":"/free","mode":"shadow","limits":{"*":{"name":"tried","requests":1,"window":"1m","mode":"mark"}}}],
		"exempt":[{"endpoint":"/health"}]}`, record, func(t *testing.T, r *ruled) {
		for _, c := range []struct {
			request  string
			statuses []int
			want     []string
		}{
			{"GET /search", []int{200, 200, 200, 200, 429}, []string{"", "", "soft", "soft"}},
			{"GET /free", []int{200, 200, 200}, []string{"", "", ""}}, {"GET /health", []int{200}, []string{""}},
			{"GET /other", []int{200}, []string{""}},
		} {
			over = nil
			last := r.want(t, c.request, c.statuses, "weir-oVer: forged", "Weir-Over: forged too")
			if !slices.Equal(over, c.want) {
				t.Errorf("%s: got Weir-Over %q, want %q", c.request, over, c.want)
			}
			if last.header.Get("Weir-Over") != "" {
				t.Errorf("%s: the client got Weir-Over, want it only for the handler", c.request)
			}
		}
	})
}

// The usage endpoint returns the usage of the caller's own limits. It charges only the limit of the
// endpoint itself. An anonymous caller gets 401.
func TestRules_usage(t *testing.T) {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_usage" {
			t.Error("the handler was called for the usage endpoint, want Weir to answer")
		}
	}
	onEach(t, `{"rules":[
		{"endpoint":"/search","limits":{"*":[{"name":"search","requests":5,"window":"1m"},{"name":"document","requests":5,"window":"1m",
			"per":["client","method"]},
			{"name":"tokens","requests":90,"window":"1m","count":"cost","reserve":10},{"name":"full","requests":1,"window":"1m","mode":"mark"}]}},
		{"endpoint":"*","limits":{"global":[{"name":"all","requests":1000,"window":"1m","per":["global"]},{"name":"month","requests":9,
			"window":"1h","per":["client"],"algorithm":"fixed_window"}]}}],
		"usage":{"endpoint":"/_usage","limit":{"requests":3,"window":"1m"}}}`, handler, func(t *testing.T, r *ruled) {
		r.want(t, "GET /search", []int{200, 200}, "X-Api-Key: key-alice")
		r.want(t, "GET /search", []int{200}, "X-Api-Key: key-bob")
		for range 3 {
			a := r.want(t, "GET /_usage", []int{200}, "X-Api-Key: key-alice")
			got := decode[httplimit.Usage](t, []byte(a.body))
			if got.Subject != "apikey:alice" || got.Truncated || a.header.Get("Cache-Control") != "no-store" {
				t.Fatalf("got %s, want limits of alice", a.body)
			}
			for i := range got.Limits {
				got.Limits[i].Reset = 0
			}
			if want := []httplimit.LimitUsage{
				{Name: "search", Endpoint: "/search", Limit: 5, Window: "60s", Capacity: 5, Used: 2, Remaining: 3},
				{Name: "tokens", Endpoint: "/search", Limit: 90, Window: "60s", Count: "cost", Capacity: 90, Used: 20, Remaining: 70},
				{Name: "full", Endpoint: "/search", Limit: 1, Window: "60s", Mode: "mark", Capacity: 1, Used: 1},
				{Name: "month", Endpoint: "*", Limit: 9, Window: "3600s", Capacity: 9, Used: 2, Remaining: 7},
			}; !slices.Equal(got.Limits, want) {
				t.Errorf("got %+v, want %+v", got.Limits, want)
			}
		}
		r.want(t, "GET /_usage", []int{429}, "X-Api-Key: key-alice")
		if a := r.want(t, "HEAD /_usage", []int{200}, "X-Api-Key: key-bob"); a.body != "" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD: got %q and the header %v, want the header of JSON without a body", a.body, a.header)
		}
		r.want(t, "GET /_usage", []int{401})
		r.want(t, "GET /_usage", []int{401}, "X-Api-Key: weir_guess")
	})
}
