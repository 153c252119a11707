package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
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

var noon = time.Date(2026, 3, 4, 12, 0, 0, 500_000_000, time.UTC)

func limit(tb testing.TB, name string, rate algo.Rate) *limiter.Limit {
	tb.Helper()
	l, err := limiter.NewLimit(limiter.Limit{Name: name, Rate: rate})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func search(tb testing.TB) *limiter.Limit {
	return limit(tb, "search", algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20})
}

func fields(a httplimit.Answer) string {
	var b strings.Builder
	for _, f := range a.Fields() {
		fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
	}
	return b.String()
}

func TestNewAnswer(t *testing.T) {
	l := search(t)
	for _, c := range []struct {
		name     string
		decision limiter.Decision
		want     string
	}{
		{"allowed", limiter.Decision{Allowed: true, At: noon, Limit: l, Capacity: 20, Remaining: 17, ResetAfter: 1800 * time.Millisecond},
			`X-RateLimit-Limit: 20
X-RateLimit-Remaining: 17
X-RateLimit-Reset: 1772625603
RateLimit-Policy: "search";q=100;w=60
RateLimit: "search";r=17;t=2
`},
		{"refused", limiter.Decision{At: noon, Limit: l, Capacity: 20, RetryAfter: 600 * time.Millisecond, ResetAfter: 12 * time.Second},
			`Retry-After: 1
X-RateLimit-Limit: 20
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1772625602
RateLimit-Policy: "search";q=100;w=60
RateLimit: "search";r=0;t=1
`},
		{"ten seconds, without jitter", limiter.Decision{At: noon.Truncate(time.Second), Limit: l, Capacity: 20, RetryAfter: 10 * time.Second,
			ResetAfter: 12 * time.Second}, `Retry-After: 10
X-RateLimit-Limit: 20
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1772625610
RateLimit-Policy: "search";q=100;w=60
RateLimit: "search";r=0;t=10
`},
		{"cost above the limit", limiter.Decision{At: noon, Limit: l, Capacity: 20, Remaining: 20}, `X-RateLimit-Limit: 20
X-RateLimit-Remaining: 20
X-RateLimit-Reset: 1772625601
RateLimit-Policy: "search";q=100;w=60
RateLimit: "search";r=20
`},
		{"no limit to show", limiter.Decision{Allowed: true, At: noon}, ""},
		{"store failed", limiter.Decision{Allowed: true, At: noon, Reason: limiter.ReasonTimeout}, "Weir-Degraded: store_timeout\n"},
		{"denied because the store failed", limiter.Decision{Failed: true, At: noon, Reason: limiter.ReasonBreaker},
			"Retry-After: 1\nWeir-Degraded: store_breaker\n"},
		{"refused by the share of a process", limiter.Decision{At: noon, Limit: l, Superseded: true, Capacity: 5, RetryAfter: 3 * time.Second,
			ResetAfter: 12 * time.Second, Reason: limiter.ReasonTimeout}, `Retry-After: 3
X-RateLimit-Limit: 5
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1772625604
RateLimit: "search";r=0;t=3
Weir-Degraded: store_timeout
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fields(httplimit.NewAnswer(c.decision)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// For a limit with a calendar, the window is the length of the current period, and the reset is the end of
// the period.
func TestNewAnswer_period(t *testing.T) {
	day, month := algo.Calendar{Period: algo.Day, Zone: "Europe/Berlin"}, algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin",
		Anchor: "31"}
	for _, c := range []struct {
		calendar algo.Calendar
		at, want string
	}{
		{day, "2026-03-28T12:00:00Z", "86400"}, {day, "2026-03-29T12:00:00Z", "82800"}, {day, "2026-10-25T12:00:00Z", "90000"},
		{month, "2026-02-28T12:00:00Z", "2674800"}, // the period ends on 31 March, after 31 days less an hour
		{month, "2026-02-27T12:00:00Z", "2419200"}, // the period began on 31 January and has 28 days
		{month, "2026-10-30T12:00:00Z", "2682000"}, // the period began on 30 September and has 31 days and an hour
	} {
		l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "quota", Rate: algo.Rate{Requests: 10, Calendar: c.calendar}}))
		at, want := c.at, c.want
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, allowed := range []bool{true, false} {
			a := httplimit.NewAnswer(limiter.Decision{Allowed: allowed, At: now, Limit: l, Capacity: 10, RetryAfter: 1})
			if a.Policy != `"quota";q=10;w=`+want || !allowed && a.Problem.Window != want+"s" {
				t.Errorf("%s: got %s and %+v, want a window of %s s", at, a.Policy, a.Problem, want)
			}
		}
	}
}

// While the store fails, a process enforces its local share of the limit. Answers then have the numbers
// of the share and no policy. When the store answers again, answers have the policy again.
func TestNewAnswer_share(t *testing.T) {
	l, err := limiter.NewLimit(limiter.Limit{Name: "search", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Minute},
		OnError: limiter.OnErrorLocal, LocalProcesses: 50})
	if err != nil {
		t.Fatal(err)
	}
	down := failing{Store: storetest.Must(memstore.New(memstore.Options{})), server: &server{}}
	limits := storetest.Must(limiter.New(down, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	for i, want := range []string{
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1772625660\nRateLimit: \"search\";r=1;t=60\nWeir-Degraded: " +
			"store_unavailable\n",
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1772625660\nRateLimit: \"search\";r=0;t=60\nWeir-Degraded: " +
			"store_unavailable\n",
		// the wait includes jitter
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\nWeir-Degraded: store_unavailable\n",
	} {
		d, err := limits.Take(t.Context(), noon, []limiter.Charge{{Subject: limiter.User("42"), Limit: l, Cost: 1}})
		if err != nil {
			t.Fatal(err)
		}
		a := httplimit.NewAnswer(d)
		if i == 2 {
			if p := a.Problem; a.RetryAfter == "" || p == nil || p.Status != http.StatusTooManyRequests || p.Limit != 2 || p.Window != "" ||
				!slices.Equal(p.Violated, []string{"search"}) {
				t.Errorf("got answer %+v and problem %+v, want a 429 for the limit 2 without a window", a, p)
			}
			a.RetryAfter, a.Reset, a.RateLimit = "", "", ""
		}
		if got := fields(a); got != want {
			t.Errorf("request %d:\n got %q\nwant %q", i+1, got, want)
		}
	}
}

// The body of a refusal without a limit has no numbers.
func TestAnswer_Refuse_noLimit(t *testing.T) {
	if httplimit.NewAnswer(limiter.Decision{}).Problem == nil || httplimit.NewAnswer(limiter.Decision{Allowed: true}).Problem != nil {
		t.Error("Problem: got a wrong value, want a problem for a refusal, and nil for an allowed request")
	}
	const want = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"error":"rate_limit_exceeded","message":"Too many requests."}`
	for name, a := range map[string]httplimit.Answer{"refused": httplimit.NewAnswer(limiter.Decision{}),
		"allowed": httplimit.NewAnswer(limiter.Decision{Allowed: true}), "zero": {}} {
		w := httptest.NewRecorder()
		a.Refuse(w)
		if got := w.Body.String(); w.Code != http.StatusTooManyRequests || got != want ||
			w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("RateLimit") != "" {
			t.Errorf("%s: got %d %v %s, want a 429 with the problem %s and no RateLimit", name, w.Code, w.Header(), got, want)
		}
	}
}

// The refusal of a busy subject shows no limit and has a short wait.
func TestNewAnswer_busy(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Second: "1 second", 2500 * time.Millisecond: "3 seconds",
		3 * time.Second: "3 seconds"} {
		a := httplimit.NewAnswer(limiter.Decision{At: noon, Reason: limiter.ReasonBusy, RetryAfter: wait})
		w := httptest.NewRecorder()
		a.Refuse(w)
		body := `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Too Many Requests",` +
			`"status":429,"error":"subject_busy","message":"Too many requests at once. Retry after ` + want + `.","retry_after":` + want[:1] + `}`
		if w.Code != http.StatusTooManyRequests || w.Body.String() != body || fields(a) != "Retry-After: "+want[:1]+
			"\nWeir-Degraded: subject_busy\n" {
			t.Errorf("%s: got %d %s, fields %s, want a 429 with the body %s", wait, w.Code, w.Body, fields(a), body)
		}
	}
}

// A long wait is extended by at most 3 % and a minute, and never shortened. The end of a period is exact.
func TestNewAnswer_jitter(t *testing.T) {
	l := limit(t, "slow", algo.Rate{Requests: 100, Window: 31 * 24 * time.Hour})
	for wait, longest := range map[time.Duration]int{1000 * time.Second: 1030, 2000 * time.Second: 2060, 31 * 24 * time.Hour: 31*24*3600 +
		60} {
		seen := map[string]bool{}
		for range 500 {
			a := httplimit.NewAnswer(limiter.Decision{At: noon.Truncate(time.Second), Limit: l, Capacity: 1, RetryAfter: wait, ResetAfter: wait})
			seen[a.RetryAfter] = true
			if n, err := strconv.Atoi(a.RetryAfter); err != nil || n < int(wait.Seconds()) || n > longest {
				t.Fatalf("Retry-After: got %s for a wait of %s, want %.0f to %d", a.RetryAfter, wait, wait.Seconds(), longest)
			}
			if want := `"slow";r=0;t=` + a.RetryAfter; a.RateLimit != want {
				t.Fatalf("RateLimit: got %s, want %s", a.RateLimit, want)
			}
			n, _ := strconv.ParseInt(a.RetryAfter, 10, 64)
			if want := strconv.FormatInt(noon.Unix()+n, 10); a.Reset != want || a.Problem.Wait != n {
				t.Fatalf("X-RateLimit-Reset: got %s, want %s", a.Reset, want)
			}
		}
		if len(seen) < 10 {
			t.Errorf("500 waits of %s: got %d different values, want at least 10", wait, len(seen))
		}
	}
}

// The answer to a refusal until the end of a period says when that is in the time zone of the limit, and has
// no jitter. Without the parameters of the limit, nothing is known of the end.
func TestNewAnswer_periodEnd(t *testing.T) {
	l := limit(t, "quota", algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin"}})
	at := time.Date(2026, 11, 20, 23, 0, 0, 500, time.UTC)
	refused := limiter.Decision{At: at, Limit: l, Capacity: 1, RetryAfter: time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC).Sub(at)}
	for range 100 {
		a := httplimit.NewAnswer(refused)
		const want = "Too many requests. The limit resets 2026-12-01 00:00 Europe/Berlin. Retry after 864000 seconds."
		if a.RetryAfter != "864000" || a.Problem.Message != want {
			t.Fatalf("got a wait of %s s and the message %q, want 864000 and %q", a.RetryAfter, a.Problem.Message, want)
		}
	}
	refused.Superseded = true
	if a := httplimit.NewAnswer(refused); strings.Contains(a.Problem.Message, "resets") {
		t.Errorf("other parameters: got the message %q, want no end of a period", a.Problem.Message)
	}
}

// A refusal is in the unit of the limit.
func TestNewAnswer_unit(t *testing.T) {
	for counted, want := range map[limiter.Counted]string{
		limiter.CountRequests: "Too many requests. Retry after 5 seconds.",
		limiter.CountCost:     "The cost is over the limit. Retry after 5 seconds.",
		limiter.CountFailures: "Too many failed requests. Retry after 5 seconds.",
		limiter.CountBytes:    "Too many bytes. Retry after 5 seconds.",
	} {
		l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "l", Rate: algo.Rate{Requests: 9, Window: time.Minute},
			Count: limiter.Count{Of: counted}}))
		if a := httplimit.NewAnswer(limiter.Decision{At: noon, Limit: l, RetryAfter: 5 * time.Second}); a.Problem.Message != want {
			t.Errorf("%q: got the message %q, want %q", counted, a.Problem.Message, want)
		}
	}
}

// A reserve can exceed what is left, although some is left.
func TestNewAnswer_reserve(t *testing.T) {
	l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "points", Rate: algo.Rate{Requests: 1000, Window: time.Minute},
		Count: limiter.Count{Of: limiter.CountCost}}))
	d := limiter.Decision{At: noon, Limit: l, Capacity: 1000, Remaining: 160, Cost: 200, RetryAfter: 5 * time.Second}
	if a := httplimit.NewAnswer(d); a.Problem.Message != "This request reserves 200, and 160 of 1000 are left. Retry after 5 seconds." {
		t.Errorf("got the message %q", a.Problem.Message)
	}
}

// A caller of two requests a minute waits for at most a minute.
func TestNewAnswer_window(t *testing.T) {
	l := limit(t, "slow", algo.Rate{Requests: 2, Window: time.Minute})
	for range 500 {
		a := httplimit.NewAnswer(limiter.Decision{At: noon, Limit: l, Capacity: 2, RetryAfter: time.Minute - 1, ResetAfter: time.Minute - 1})
		if a.RetryAfter != "60" {
			t.Fatalf("Retry-After: got %s, want 60", a.RetryAfter)
		}
	}
}

// server is a handler behind one limit. Each test sets the caller of its requests.
type server struct {
	http.Handler
	caller  caller.Caller
	err     error
	ignored error // see rules.Selection.Ignored
	now     time.Time
	store   limiter.Store
	served  int
	log     bytes.Buffer
	// observed contains the outcomes that Observe received, each with the number of requests that were
	// served before.
	observed []string
}

func newServer(t *testing.T) *server {
	l, byIP := search(t), limit(t, "address", algo.Rate{Requests: 2, Window: time.Minute})
	s := &server{caller: caller.Caller{User: "alice"}, now: noon, store: storetest.Must(memstore.New(memstore.Options{}))}
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(failing{server: s}, limiter.Options{Logger: slog.New(slog.DiscardHandler)})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			if r.Caller.Rejected {
				return rules.Selection{Charges: []limiter.Charge{{Subject: limiter.IP(r.Caller.IP), Limit: byIP, Cost: 1}}}
			}
			if r.Method == http.MethodDelete {
				return rules.Selection{Charges: []limiter.Charge{{Subject: limiter.Global(), Cost: 1}}}
			}
			return rules.Selection{Ignored: s.ignored, Charges: []limiter.Charge{{Subject: r.Caller.Subject(), Limit: l,
				Cost: int64(len(r.Path.String()) - 1)}}}
		},
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) { return s.caller, s.err },
		Observe: func(_ context.Context, o telemetry.Outcome) {
			s.observed = append(s.observed, fmt.Sprint(o.Time.Equal(s.now), o.Duration >= 0, " ", o.Caller.User, " allowed=", o.Decision.Allowed,
				" err=", o.Err, " served=", s.served))
		},
		Clock:  func() time.Time { return s.now },
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	s.Handler = gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.served++
		_, _ = io.WriteString(w, "served")
	}))
	return s
}

// failing is the store of a server. If server.store is nil, each call returns an error.
type failing struct {
	limiter.Store
	storetest.Patient
	*server
}

func (f failing) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	if f.store == nil {
		return false, limiter.ErrUnavailable
	}
	return f.store.Take(ctx, now, s, charges, results)
}

func (s *server) get(t *testing.T, method, path string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The log of an ignored mistake in a record names the id of the key and the limit.
func TestGate_ignored(t *testing.T) {
	s := newServer(t)
	s.caller, s.ignored = caller.Caller{APIKey: "acme"}, errors.New("limit month: too high")
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusOK {
		t.Errorf("got %s, want a 200", r.Status)
	}
	if want := `level=WARN msg="mistake in an API key's record ignored" apikey_id=acme err="limit month: too ` +
		`high"`; !strings.Contains(s.log.String(), want) {
		t.Errorf("log: got %q, want %q", s.log.String(), want)
	}
}

func TestGate(t *testing.T) {
	s := newServer(t)
	for i := range 20 {
		r := s.get(t, http.MethodGet, "/a")
		if r.StatusCode != http.StatusOK || body(t, r) != "served" || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(19-i) {
			t.Fatalf("request %d: got %s, %v, want a 200 with %d remaining", i+1, r.Status, r.Header, 19-i)
		}
	}
	r := s.get(t, http.MethodGet, "/a")
	if r.StatusCode != http.StatusTooManyRequests || s.served != 20 {
		t.Fatalf("request 21: got %s, %d served, want a 429 and 20 served", r.Status, s.served)
	}
	for name, want := range map[string]string{"Retry-After": "1", "Cache-Control": "no-store", "Content-Type": "application/problem+json",
		"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	const want = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"error":"rate_limit_exceeded",` +
		`"message":"Too many requests. Retry after 1 second.","retry_after":1,"limit":100,"window":"60s","violated-policies":["search"]}`
	if got := body(t, r); got != want {
		t.Errorf("body\n got %s\nwant %s", got, want)
	}
	wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Duration(wait) * time.Second)
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusOK {
		t.Errorf("after the wait of Retry-After: got %s, want a 200", r.Status)
	}
	if r := s.get(t, http.MethodGet, "/"+strings.Repeat("a", 21)); r.StatusCode != http.StatusTooManyRequests ||
		r.Header.Get("Retry-After") != "" ||
		!strings.Contains(body(t, r), "costs more than the whole limit") {
		t.Errorf("cost above the capacity: got %s, %v, want a refusal without a wait", r.Status, r.Header)
	}
}

// A suspended API key gets a 401 with a problem of its own.
func TestGate_suspended(t *testing.T) {
	s := newServer(t)
	s.caller, s.err = caller.Caller{Rejected: true}, caller.ErrSuspended
	r := s.get(t, http.MethodGet, "/a")
	if got := body(t, r); r.StatusCode != http.StatusUnauthorized || s.served != 0 ||
		got != `{"type":"about:blank","title":"Unauthorized","status":401,"error":"suspended","message":"The API key is suspended. Ask the `+
			`operator of this API."}` {
		t.Errorf("got %s %s, want a 401 with the problem of a suspension", r.Status, got)
	}
}

func TestGate_credentials(t *testing.T) {
	s := newServer(t)
	s.caller, s.err = caller.Caller{Rejected: true}, fmt.Errorf("%w: forged", caller.ErrInvalidCredential)
	for range 2 {
		r := s.get(t, http.MethodGet, "/a")
		if got := body(t, r); r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != "Bearer" ||
			got != `{"type":"about:blank","title":"Unauthorized","status":401,"error":"unauthorized","message":"The credentials are missing, `+
				`malformed, unknown or expired."}` {
			t.Fatalf("bad credential: got %s %v %s, want a 401 with its problem", r.Status, r.Header, got)
		}
		if r.Header.Get("X-RateLimit-Limit") != "" {
			t.Error("a 401: got fields of limits, want none")
		}
	}
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the third bad credential from one address: got %s, want a refusal", r.Status)
	}
	s.caller.IP, s.err = caller.Caller{}.IP, fmt.Errorf("%w: issuer down", caller.ErrUnverified)
	s.now = s.now.Add(time.Hour)
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" {
		t.Errorf("unverified credential: got %s %v, want a 503 with Retry-After 1", r.Status, r.Header)
	}
	s.caller, s.err = caller.Caller{User: "alice"}, nil
	if r := s.get(t, http.MethodGet, "/a"); r.Header.Get("X-RateLimit-Remaining") != "19" {
		t.Errorf("limit of the claimed user after bad credentials: got %v, want 19 remaining", r.Header)
	}
}

// The answer to a bad or unverified credential shows that the store failed. The answer contains no
// limits.
func TestGate_credentials_degraded(t *testing.T) {
	s := newServer(t)
	s.store = nil
	for status, err := range map[int]error{http.StatusUnauthorized: caller.ErrInvalidCredential,
		http.StatusServiceUnavailable: caller.ErrUnverified} {
		s.caller, s.err = caller.Caller{Rejected: true}, err
		if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != status || r.Header.Get("Weir-Degraded") == "" || r.Header.Get("RateLimit") != "" {
			t.Errorf("%v: got %s %v, want the status %d, Weir-Degraded and no RateLimit", err, r.Status, r.Header, status)
		}
	}
}

// While the store fails, the process enforces the limits alone, and a header field reports the outage. A
// request with invalid charges gets 500.
func TestGate_failure(t *testing.T) {
	s := newServer(t)
	s.store = nil
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusOK || r.Header.Get("Weir-Degraded") != "store_unavailable" ||
		r.Header.Get("X-RateLimit-Remaining") != "19" {
		t.Errorf("got %s %v, want a 200 with Weir-Degraded and 19 remaining", r.Status, r.Header)
	}
	if r := s.get(t, http.MethodDelete, "/a"); r.StatusCode != http.StatusInternalServerError || s.served != 1 {
		t.Errorf("an invalid charge: got %s, want a 500", r.Status)
	}
}

// Observe receives each request once, before the answer. The outcome has an error if the answer does not
// follow from the decision, for example after a bad credential. A refusal by a limit is not an error.
func TestGate_Observe(t *testing.T) {
	s := newServer(t)
	s.get(t, http.MethodGet, "/"+strings.Repeat("a", 20))
	s.get(t, http.MethodGet, "/a")
	s.get(t, http.MethodDelete, "/a")
	s.caller, s.err = caller.Caller{Rejected: true}, caller.ErrInvalidCredential
	s.get(t, http.MethodGet, "/a")
	s.err = caller.ErrUnverified
	s.get(t, http.MethodGet, "/a")
	s.get(t, http.MethodGet, "/a")
	want := []string{
		"true true alice allowed=true err=<nil> served=0",
		"true true alice allowed=false err=<nil> served=1",
		"true true alice allowed=false err=invalid charge",
		"true true  allowed=true err=invalid credential served=1",
		"true true  allowed=true err=credential could not be verified served=1",
		"true true  allowed=false err=<nil> served=1",
	}
	if !slices.EqualFunc(s.observed, want, strings.HasPrefix) {
		t.Errorf("\n got %s\nwant %s", strings.Join(s.observed, "\n     "), strings.Join(want, "\n     "))
	}
}

// The Gate logs a bad credential.
func TestGate_log(t *testing.T) {
	s := newServer(t)
	s.caller, s.err = caller.Caller{Rejected: true}, fmt.Errorf("%w: forged", caller.ErrInvalidCredential)
	if r := s.get(t, http.MethodGet, "/a"); r.StatusCode != http.StatusUnauthorized {
		t.Fatal(r.Status)
	}
	if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `level=INFO msg="credential refused" err="`) ||
		!strings.Contains(log, "forged") {
		t.Errorf("log: got %q, want one line about the forged credential", log)
	}
}

// New panics with the name of the missing option.
func TestNew_missing(t *testing.T) {
	nothing := func(context.Context, time.Time, rules.Request) rules.Selection { return rules.Selection{} }
	identify := func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
		return caller.Caller{}, nil
	}
	for field, o := range map[string]httplimit.Options{"Identify": {}, "Select": {Identify: identify}, "Limiter": {Identify: identify,
		Select: nothing}} {
		func() {
			defer func() {
				if got, want := recover(), "httplimit: Options."+field+" is nil"; got != want {
					t.Errorf("panic: got %v, want %s", got, want)
				}
			}()
			httplimit.New(o)
		}()
	}
}

// A request that is denied because the store fails gets 503, not 429. The answer must not be cached.
func TestGate_denied(t *testing.T) {
	s := newServer(t)
	s.store = nil
	deny, err := limiter.NewLimit(limiter.Limit{Name: "strict", Rate: algo.Rate{Requests: 5, Window: time.Minute},
		OnError: limiter.OnErrorDeny})
	if err != nil {
		t.Fatal(err)
	}
	var observed []limiter.Decision
	h := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(failing{server: s}, limiter.Options{Logger: slog.New(slog.DiscardHandler)})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			return rules.Selection{Charges: []limiter.Charge{{Subject: r.Caller.Subject(), Limit: deny, Cost: 1}}}
		},
		// The denial by on_error takes precedence over a bad credential.
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
			return caller.Caller{User: "a"}, caller.ErrInvalidCredential
		},
		Observe: func(_ context.Context, o telemetry.Outcome) {
			if o.Err != nil {
				t.Errorf("observed error: got %v, want none", o.Err)
			}
			observed = append(observed, o.Decision)
		},
	}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called, want no call") }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	const want = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service Unavailable",` +
		`"status":503,"error":"store_unavailable",` +
		`"message":"The limits of this request cannot be checked now. Retry after 1 second.","retry_after":1}`
	if got := w.Body.String(); w.Code != http.StatusServiceUnavailable || got != want {
		t.Errorf("status %d\n got %s\nwant %s", w.Code, got, want)
	}
	for name, want := range map[string]string{"Retry-After": "1", "Weir-Degraded": "store_unavailable", "Cache-Control": "no-store",
		"Content-Type": "application/problem+json", "X-RateLimit-Limit": ""} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if len(observed) != 1 || !observed[0].Failed {
		t.Errorf("observed: got %+v, want one failed request", observed)
	}
}
