package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/verify"
)

// faults has one fault for each row. With the fault, the row and no other row must fail.
var faults = []struct {
	name, row string
	place
}{
	{"the URL is that of the HTTP API", "rest-answers", fronted(rest, as("Apigw-Requestid"))},
	{"the URL is that of the REST API", "http-answers", fronted(httpAPI, as("X-Amz-Apigw-Id"))},
	{"nothing at the function URL", "function-url-answers", fronted(functionURL, aborted)},
	{"nothing at the URL of the layer", "layer-answers", fronted(layerURL, aborted)},
	{"policy too narrow", "store-decides", place{denied: true}},
	{"the handler does not copy the fields", "rest-allowed-fields", fronted(rest, without("X-RateLimit-Remaining"))},
	{"no response for UNAUTHORIZED", "rest-unauthorized", place{apis: removing("UNAUTHORIZED")}},
	{"a suspended key is unknown to the authorizer", "rest-suspended-key", fronted(rest, anonymous)},
	{"a preflight counts", "rest-preflight", fronted(rest, charged)},
	{"an API key is unknown to the authorizer", "rest-api-key", fronted(rest, replacing("X-Api-Key", func(value string) bool { return value == validKey }, caller.NewAPIKey()))},
	{"tokens are ignored", "rest-token", fronted(rest, replacing("Authorization", isToken, ""))},
	{"no field with the limit", "http-allowed-fields", fronted(httpAPI, without("RateLimit-Policy"))},
	{"401 without a challenge", "http-unauthorized", fronted(httpAPI, without("X-Amzn-Remapped-Www-Authenticate"))},
	{"a suspended key is unknown to the handler", "http-suspended-key", fronted(httpAPI, anonymous)},
	{"a preflight of the HTTP API counts", "http-preflight", fronted(httpAPI, charged)},
	{"an unknown API key is ignored by the handler", "http-api-key", fronted(httpAPI, replacing("X-Api-Key", isNewKey, ""))},
	{"a token is invalid for the handler", "http-token", fronted(httpAPI, replacing("Authorization", isToken, "Bearer e30.e30.e30"))},
	{"the function URL drops a field", "function-url-allowed-fields", fronted(functionURL, without("X-RateLimit-Reset"))},
	{"the layer drops a field", "layer-allowed-fields", fronted(layerURL, without("RateLimit"))},
	{"the base path of the domain is unknown", "custom-domain", fronted(domain, without("RateLimit-Policy"))},
	{"costs are not settled", "settlement", unsettledPlace},
	{"no distribution", "rest-distribution-answers", fronted(restEdge, without("X-Amz-Cf-Id"))},
	{"an error is kept", "rest-distribution-uncached", fronted(restEdge, keeping(http.StatusForbidden))},
	{"no viewer function", "rest-distribution-forged", fronted(restEdge, believing)},
	{"a client chooses its address", "rest-distribution-around", fronted(rest, choosing)},
	{"a distribution of another API", "http-distribution-answers", fronted(httpEdge, without("X-RateLimit-Limit"))},
	{"simultaneous requests are collapsed", "http-distribution-uncached", fronted(httpEdge, collapsing)},
	{"no viewer function of the HTTP API", "http-distribution-forged", fronted(httpEdge, believing)},
	{"a client of the HTTP API chooses its address", "http-distribution-around", fronted(httpAPI, choosing)},
	{"caching on", "rest-not-cached", place{authorizer: cached}},
	{"one request too many is admitted", "limit-exact", place{authorizer: lenient}},
	{"403 instead of 429", "rest-refused-status", denied(func(p map[string]any) { delete(p, "StatusCode") })},
	{"fields not mapped", "rest-refused-fields", denied(unmapped)},
	{"Content-Type not changed", "rest-refused-content-type", denied(func(p map[string]any) {
		delete(p["ResponseParameters"].(map[string]any), "gatewayresponse.header.Content-Type")
	})},
	{"body not overridden", "rest-refused-body", denied(func(p map[string]any) { delete(p, "ResponseTemplates") })},
	{"a missing value gives an empty field", "rest-missing-value", fronted(rest, emptied)},
	{"503 of the HTTP API instead of 429", "http-refused", fronted(httpAPI, unavailable)},
	{"503 of the function URL instead of 429", "function-url-refused", fronted(functionURL, unavailable)},
	{"503 of the layer instead of 429", "layer-refused", fronted(layerURL, unavailable)},
	{"the limit does not recover", "retry-after", place{stopped: true}},
	{"TTL off", "table-ttl", place{resources: func(r resources) {
		r.each("AWS::DynamoDB::Table", func(_ string, p map[string]any) { delete(p, "TimeToLiveSpecification") })
	}}},
	{"alarms without actions", "alarm-actions", place{resources: func(r resources) {
		r.each("AWS::CloudWatch::Alarm", func(id string, p map[string]any) {
			if strings.Contains(id, "degraded") {
				delete(p, "AlarmActions")
			}
		})
	}}},
	{"500 if the authorizer fails", "rest-authorizer-failure", place{apis: removing("AUTHORIZER_FAILURE", "AUTHORIZER_CONFIGURATION_ERROR")}},
	{"a 503 is kept", "rest-distribution-failure", fronted(restEdge, keeping(http.StatusServiceUnavailable))},
}

// Each fault makes its row fail, and no other.
func TestRun_faults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.authorizer == nil {
				f.authorizer = busy
			}
			results := verified(t, f.open(t))
			if got := ids(results, verify.Fail); !slices.Equal(got, []string{f.row}) {
				t.Errorf("failed rows: got %q, want %q\n%s", got, f.row, failures(results))
			}
		})
	}
}

// Without a fault, every row passes that does not need a person or a stack. There is a fault for each of
// these rows.
func TestRun_withoutFault(t *testing.T) {
	results := verified(t, place{authorizer: busy}.open(t))
	passed := ids(results, verify.Pass)
	var seeded []string
	for _, f := range faults {
		seeded = append(seeded, f.row)
	}
	if !slices.Equal(passed, seeded) {
		t.Errorf("passed rows: got %q, want those with a fault %q\n%s", passed, seeded, failures(results))
	}
	for _, r := range results {
		if r.Outcome == verify.Skip && (r.Reason == "" || !strings.HasPrefix(r.Reason, "only a person") && !strings.HasPrefix(r.Reason, "requires")) {
			t.Errorf("row %s: got skipped (%s), want a row that requires a person or a stack", r.Row, r.Reason)
		}
	}
}

// A deployment without an issuer ignores tokens. No row fails.
func TestRun_issuerless(t *testing.T) {
	d := place{issuerless: true}.open(t)
	d.Token = ""
	results := verified(t, d)
	if failed := ids(results, verify.Fail); len(failed) > 0 || !slices.Contains(ids(results, verify.Pass), "rest-unauthorized") {
		t.Errorf("failed rows: got %q, want none, and rest-unauthorized passed\n%s", failed, failures(results))
	}
}

// Each way in which a credential can be wrong fails its row: a valid one is refused, or any other is accepted.
func TestRun_credentials(t *testing.T) {
	unknown := func(field string, is func(string) bool, value string) place {
		return fronted(rest, replacing(field, is, value))
	}
	for row, places := range map[string][]place{
		"rest-api-key": {unknown("X-Api-Key", isNewKey, ""), unknown("X-Api-Key", func(v string) bool { return v == validKey }, "weir_unknown")},
		"rest-token":   {unknown("Authorization", isToken, ""), unknown("Authorization", isToken, "Bearer e30.e30.e30")},
	} {
		for i, p := range places {
			if failed := ids(verified(t, p.open(t)), verify.Fail); !slices.Equal(failed, []string{row}) {
				t.Errorf("%s, fault %d: got failed rows %q, want this one", row, i, failed)
			}
		}
	}
	d := place{}.open(t)
	d.APIKey, d.Token = "", ""
	for _, r := range verified(t, d) {
		if (strings.HasSuffix(r.Row, "-api-key") || strings.HasSuffix(r.Row, "-token")) && r.Outcome != verify.Skip && r.Row != "rest-suspended-key" {
			t.Errorf("%s without a credential: got %+v, want a skip", r.Row, r)
		}
	}
}

// A deployment can have another header field of API keys, or none. Then no row about API keys fails without a fault.
func TestRun_apiKeyHeader(t *testing.T) {
	passed := []string{"rest-unauthorized", "rest-suspended-key", "rest-api-key", "http-unauthorized", "http-suspended-key", "http-api-key"}
	none := []string{"rest-unauthorized", "http-unauthorized"}
	for _, tt := range []struct {
		place
		passed, failed []string
	}{
		{place{apiKeyHeader: "x-other"}, passed, nil},
		{place{apiKeyHeader: "x-other", fronts: fronted(rest, replacing("X-Other", isNewKey, "")).fronts}, slices.DeleteFunc(slices.Clone(passed), func(row string) bool { return row == "rest-api-key" }), []string{"rest-api-key"}},
		{place{apiKeyHeader: "none"}, none, nil},
		{place{apiKeyHeader: "none", issuerless: true}, nil, nil},
	} {
		d := tt.open(t)
		if tt.issuerless {
			d.Token = ""
		}
		results := verified(t, d)
		got := slices.DeleteFunc(ids(results, verify.Pass), func(row string) bool { return !slices.Contains(passed, row) })
		if failed := ids(results, verify.Fail); !slices.Equal(failed, tt.failed) || !slices.Equal(got, tt.passed) {
			t.Errorf("%s, issuerless %t: got failed rows %q and passed rows %q, want %q and %q\n%s", tt.apiKeyHeader, tt.issuerless, failed, got, tt.failed, tt.passed, failures(results))
		}
		for _, r := range results {
			if r.Outcome == verify.Skip && slices.Contains(passed, r.Row) && !strings.Contains(r.Reason, "API keys identify no caller") {
				t.Errorf("%s: got skipped (%s), want the reason that API keys identify no caller", r.Row, r.Reason)
			}
		}
	}
}

// If the functions refuse requests around the distributions, all rows pass through the distributions.
func TestRun_refusing(t *testing.T) {
	d := place{authorizer: busy, refusing: true}.open(t)
	d.DirectURL, d.DirectHTTPURL = d.URL, d.HTTPURL
	d.URL, d.HTTPURL, d.FunctionURL, d.LayerURL, d.DomainURL = d.RESTDistributionURL, d.HTTPDistributionURL, "", "", ""
	results := verified(t, d)
	if failed := ids(results, verify.Fail); len(failed) > 0 {
		t.Errorf("failed rows: got %q, want none\n%s", failed, failures(results))
	}
	for _, r := range results {
		if strings.HasSuffix(r.Row, "-distribution-around") && !strings.HasSuffix(r.Observed, "direct_request") {
			t.Errorf("%s: got %+v, want refused requests", r.Row, r)
		}
	}
}

// A domain whose API has other counters fails its row, and so does one without the fields. What proves nothing is skipped.
func TestRun_domain(t *testing.T) {
	other := place{}.open(t)
	for name, c := range map[string]struct {
		change func(*verify.Deployment)
		want   verify.Outcome
	}{
		"the same counters":  {func(*verify.Deployment) {}, verify.Pass},
		"other counters":     {func(d *verify.Deployment) { d.DomainURL = other.URL }, verify.Fail},
		"no answer":          {func(d *verify.Deployment) { d.DomainURL = "http://127.0.0.1:1" }, verify.Fail},
		"no domain":          {func(d *verify.Deployment) { d.DomainURL = "" }, verify.Skip},
		"cached decisions":   {func(d *verify.Deployment) { *d = *place{authorizer: cached}.open(t) }, verify.Skip},
		"a fast limit":       {func(d *verify.Deployment) { d.Clock = hurried(d.Clock) }, verify.Skip},
		"a used-up limit":    {func(d *verify.Deployment) { d.MaxWait = 0; verified(t, d) }, verify.Skip},
		"no rules to select": {func(d *verify.Deployment) { d.Rules = nil }, verify.Skip},
	} {
		d := place{}.open(t)
		c.change(d)
		if got := outcome(t, d, "custom-domain"); got.Outcome != c.want {
			t.Errorf("%s: got %+v, want %s", name, got, c.want)
		}
	}
}

// A limit that refunds nothing fails its row. What proves nothing is skipped.
func TestRun_settlement(t *testing.T) {
	missing := fronted(rest, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == settledPath {
				http.NotFound(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	for name, c := range map[string]struct {
		place  place
		change func(*verify.Deployment)
		want   verify.Outcome
		reason string
	}{
		"settled by the handler":   {place{}, func(*verify.Deployment) {}, verify.Pass, ""},
		"settled by nothing":       {unsettledPlace, func(*verify.Deployment) {}, verify.Fail, ""},
		"not awaited":              {unsettledPlace, func(d *verify.Deployment) { d.MaxWait = 0 }, verify.Skip, "was not awaited"},
		"a fast limit":             {unsettledPlace, func(d *verify.Deployment) { d.Clock = hurried(d.Clock) }, verify.Skip, "regains a request in 2m0s"},
		"the window ends":          {unsettledPlace, longWaits, verify.Skip, "a window of the limit ended"},
		"cached decisions":         {place{authorizer: cached}, func(*verify.Deployment) {}, verify.Skip, "do not change X-RateLimit-Remaining"},
		"requests that fail":       {missing, func(*verify.Deployment) {}, verify.Skip, "no success"},
		"rules without such limit": {place{}, func(d *verify.Deployment) { d.Path = "/api/v1/search" }, verify.Skip, "the rules have no GET endpoint"},
	} {
		d := c.place.open(t)
		c.change(d)
		if got := outcome(t, d, "settlement"); got.Outcome != c.want || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want %s with the reason %q", name, got, c.want, c.reason)
		}
	}
}

// longWaits makes each wait an hour long.
func longWaits(d *verify.Deployment) {
	wait := d.Wait
	d.Wait = func(ctx context.Context, _ time.Duration) error { return wait(ctx, time.Hour) }
}

// hurried returns a clock on which an hour passes between two readings.
func hurried(clock func() time.Time) func() time.Time {
	var readings atomic.Int64
	return func() time.Time { return clock().Add(time.Duration(readings.Add(1)) * time.Hour) }
}

// outcome runs all rows and returns the result of one.
func outcome(t *testing.T, d *verify.Deployment, row string) verify.Result {
	t.Helper()
	return resultOf(verified(t, d), row)
}

func resultOf(results []verify.Result, row string) verify.Result {
	return results[slices.IndexFunc(results, func(r verify.Result) bool { return r.Row == row })]
}

// If the store did not decide some requests of a burst, the row about the exact limit reports it.
func TestRun_degradedBurst(t *testing.T) {
	p := fronted(rest, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "items/weir-verify") {
				w.Header().Set("Weir-Degraded", "store_timeout")
			}
			h.ServeHTTP(w, r)
		})
	})
	p.authorizer = lenient
	for _, r := range verified(t, p.open(t)) {
		if want := "60 pass, some of them without the store (Weir-Degraded: store_timeout)"; r.Row == "limit-exact" && (r.Outcome != verify.Fail || r.Observed != want) {
			t.Errorf("limit-exact: got %s, observed %q, want fail and %q", r.Outcome, r.Observed, want)
		}
	}
}

// Each URL alone is sufficient for the rows about it and for those about any URL. A run sends only GET requests
// and preflights.
func TestRun_oneURL(t *testing.T) {
	for name, keep := range map[string]func(verify.Deployment) verify.Deployment{
		rest:        func(d verify.Deployment) verify.Deployment { return verify.Deployment{URL: d.URL} },
		httpAPI:     func(d verify.Deployment) verify.Deployment { return verify.Deployment{HTTPURL: d.HTTPURL} },
		functionURL: func(d verify.Deployment) verify.Deployment { return verify.Deployment{FunctionURL: d.FunctionURL} },
		layerURL:    func(d verify.Deployment) verify.Deployment { return verify.Deployment{LayerURL: d.LayerURL} },
	} {
		t.Run(name, func(t *testing.T) {
			p := fronted(name, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet && r.Method != http.MethodOptions {
						t.Errorf("request: got %s %s, want GET or OPTIONS", r.Method, r.URL)
					}
					h.ServeHTTP(w, r)
				})
			})
			all := p.open(t)
			d := keep(*all)
			d.Rules, d.MaxWait, d.Clock, d.Wait = all.Rules, all.MaxWait, all.Clock, all.Wait
			results := verified(t, &d)
			passed := ids(results, verify.Pass)
			for _, want := range []string{"store-decides", name + "-allowed-fields", "limit-exact", "retry-after"} {
				if !slices.Contains(passed, want) {
					t.Errorf("passed rows: got %q, want %s among them", passed, want)
				}
			}
			if failed := ids(results, verify.Fail); len(failed) > 0 {
				t.Errorf("failed rows: got %q, want none\n%s", failed, failures(results))
			}
		})
	}
}

// An interrupted test restores the authorizer.
func TestRun_restores(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &functions{}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	d := &verify.Deployment{URL: server.URL, Path: "/", Faults: breaking(func(ctx context.Context) (func(context.Context) error, error) {
		restore, err := f.BreakAuthorizer(ctx)
		cancel()
		return func(ctx context.Context) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return restore(ctx)
		}, err
	})}
	if _, err := verify.Run(ctx, d.Plan(verify.Rows()), verify.Progress{}); err == nil || f.broken.Load() {
		t.Errorf("got error %v and a broken authorizer %t, want an interrupted run and a restored authorizer", err, f.broken.Load())
	}
}

// breaking implements verify.Faults.
type breaking func(context.Context) (func(context.Context) error, error)

func (b breaking) BreakAuthorizer(ctx context.Context) (func(context.Context) error, error) {
	return b(ctx)
}

// The authorizer starts to fail late, as on AWS, where a change takes effect after seconds. If the test is
// not permitted to break the authorizer, the row does not fail.
func TestRun_lateFault(t *testing.T) {
	d := place{}.open(t)
	faults, wait := d.Faults, d.Wait
	breakNow := func() {}
	d.Faults = breaking(func(context.Context) (func(context.Context) error, error) {
		breakNow = func() { _, _ = faults.BreakAuthorizer(t.Context()) }
		return func(context.Context) error { return nil }, nil
	})
	d.Wait = func(ctx context.Context, w time.Duration) error { breakNow(); return wait(ctx, w) }
	if passed := ids(verified(t, d), verify.Pass); !slices.Contains(passed, "rest-authorizer-failure") {
		t.Errorf("a late failure: got passed rows %q, want rest-authorizer-failure among them", passed)
	}
	d = place{}.open(t)
	d.Faults = breaking(func(context.Context) (func(context.Context) error, error) { return nil, errors.New("not permitted") })
	if failed := ids(verified(t, d), verify.Fail); len(failed) > 0 {
		t.Errorf("no permission to change: got failed rows %q, want none", failed)
	}
}

// A limit that is used up proves nothing about its exactness. An answer that no limit decided proves nothing about the cache.
func TestRun_vacuous(t *testing.T) {
	d := place{}.open(t)
	d.MaxWait = 0
	verified(t, d)
	for _, r := range verified(t, d) {
		if r.Row == "limit-exact" && (r.Outcome != verify.Skip || r.Reason != verify.UsedUp) {
			t.Errorf("a limit that is used up: got %+v, want a skipped row with the reason %q", r, verify.UsedUp)
		}
	}
	for row, status := range map[string]int{"rest-not-cached": http.StatusBadGateway, "limit-exact": http.StatusTooManyRequests} {
		if passed := ids(verified(t, afterFirst(status).open(t)), verify.Pass); slices.Contains(passed, row) {
			t.Errorf("%d to the burst: got passed rows %q, want no %s", status, passed, row)
		}
	}
	var waited atomic.Bool
	d = fronted(rest, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if waited.Load() {
				http.NotFound(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}).open(t)
	wait := d.Wait
	d.Wait = func(ctx context.Context, w time.Duration) error { waited.Store(true); return wait(ctx, w) }
	if passed := ids(verified(t, d), verify.Pass); slices.Contains(passed, "retry-after") {
		t.Errorf("404 after the wait: got passed rows %q, want no retry-after", passed)
	}
}

// afterFirst returns a place that answers the first request to the exhausted limit, and later ones with a status and
// the problem of a busy subject.
func afterFirst(status int) place {
	var items atomic.Int64
	return fronted(rest, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "items/weir-verify") && items.Add(1) > 1 {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"subject_busy"}`))
				return
			}
			h.ServeHTTP(w, r)
		})
	})
}

// hostileAccount is an account whose texts have control characters of terminals.
type hostileAccount struct{}

func (hostileAccount) Check(context.Context, string) verify.Observation {
	return verify.Observation{Outcome: verify.Fail, Observed: "a\x1b[2J", Reason: "b\x1b[2J", Raw: "c\x1b]0;title\a"}
}

// An answer cannot control the terminal, and a long answer is shortened.
func TestRun_hostile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":"\u001b[2J\u001b` + strings.Repeat("\x1b[31mred", 100_000) + `"}`))
	}))
	t.Cleanup(server.Close)
	d := place{}.open(t)
	d.URL, d.Account = server.URL, hostileAccount{}
	for _, r := range verified(t, d) {
		if text := fmt.Sprint(r); strings.Contains(text, "\x1b") || len(text) > 6000 {
			t.Errorf("row %s: got %d bytes with an escape sequence %t, want a short text without one", r.Row, len(text), strings.Contains(text, "\x1b"))
		}
	}
}

// If the deployment requires a credential, no row fails. Without a credential, the rows about limits are
// skipped. With a credential, they pass.
func TestRun_credential(t *testing.T) {
	d := place{closed: true}.open(t)
	results := verified(t, d)
	if failed, passed := ids(results, verify.Fail), ids(results, verify.Pass); len(failed) > 0 || slices.Contains(passed, "limit-exact") || slices.Contains(passed, "store-decides") {
		t.Errorf("without a credential: got failed rows %q and passed rows %q, want none about limits\n%s", failed, passed, failures(results))
	}
	token, err := checkouttest.Find(t).Token("vera", "", time.Until(start)+time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Credential = http.Header{"Authorization": {"Bearer " + token}}
	results = verified(t, d)
	if failed, passed := ids(results, verify.Fail), ids(results, verify.Pass); len(failed) > 0 || !slices.Contains(passed, "limit-exact") || !slices.Contains(passed, "http-refused") {
		t.Errorf("with a credential: got failed rows %q and passed rows %q, want all about limits\n%s", failed, passed, failures(results))
	}
}

// verified runs all rows. It checks that the run sends no more requests than planned.
func verified(t *testing.T, d *verify.Deployment) []verify.Result {
	t.Helper()
	plan := d.Plan(verify.Rows())
	results, err := verify.Run(t.Context(), plan, verify.Progress{})
	if err != nil || len(results) != len(verify.Rows()) {
		t.Fatalf("results: got %d, error %v, want one for each row", len(results), err)
	}
	sent := 0
	for _, r := range results {
		sent += r.Requests
	}
	if sent > plan.Requests || plan.Requests > 600 {
		t.Errorf("requests: got %d of %d planned, want at most the planned number, and at most 600", sent, plan.Requests)
	}
	return results
}

func fronted(url string, front func(http.Handler) http.Handler) place {
	return place{fronts: map[string]func(http.Handler) http.Handler{url: front}}
}

// denied returns a place with a changed response for denied requests.
func denied(change func(properties map[string]any)) place {
	return place{apis: func(r resources) {
		r.each("AWS::ApiGateway::GatewayResponse", func(_ string, p map[string]any) {
			if p["ResponseType"] == "ACCESS_DENIED" {
				change(p)
			}
		})
	}}
}

// removing returns a change that removes gateway responses.
func removing(kinds ...string) func(resources) {
	return func(r resources) {
		r.each("AWS::ApiGateway::GatewayResponse", func(id string, p map[string]any) {
			if slices.Contains(kinds, p["ResponseType"].(string)) {
				delete(r, id)
			}
		})
	}
}

// unmapped removes the response parameters whose values come from the authorizer's context.
func unmapped(properties map[string]any) {
	fields := properties["ResponseParameters"].(map[string]any)
	for name, value := range fields {
		if strings.HasPrefix(value.(string), "context.authorizer.") {
			delete(fields, name)
		}
	}
}

func answering(change func(*httptest.ResponseRecorder)) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorded := httptest.NewRecorder()
			h.ServeHTTP(recorded, r)
			change(recorded)
			maps.Copy(w.Header(), recorded.Header())
			w.WriteHeader(recorded.Code)
			_, _ = w.Write(recorded.Body.Bytes())
		})
	}
}

// as replaces the field by which API Gateway identifies a request.
func as(field string) func(http.Handler) http.Handler {
	return answering(func(r *httptest.ResponseRecorder) {
		maps.DeleteFunc(r.Header(), func(name string, _ []string) bool { return strings.Contains(strings.ToLower(name), "apigw") })
		r.Header().Set(field, "JKJaXmPLvHcESHA=")
	})
}

// aborted closes each connection without an answer.
func aborted(http.Handler) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// without removes a field from answers.
func without(field string) func(http.Handler) http.Handler {
	return answering(func(r *httptest.ResponseRecorder) {
		for name := range r.Header() {
			if strings.EqualFold(name, field) && r.Code != http.StatusTooManyRequests {
				delete(r.Header(), name)
			}
		}
	})
}

// keeping answers a request to a path like the first one if that got this status, as CloudFront does by default for ten
// seconds.
func keeping(status int) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		var kept sync.Map // *httptest.ResponseRecorder by path
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first, ok := kept.Load(r.URL.Path)
			if !ok {
				recorder := httptest.NewRecorder()
				h.ServeHTTP(recorder, r)
				if first = recorder; recorder.Code == status {
					kept.Store(r.URL.Path, recorder)
				}
			}
			recorder := first.(*httptest.ResponseRecorder)
			maps.Copy(w.Header(), recorder.Header())
			w.WriteHeader(recorder.Code)
			_, _ = w.Write(recorder.Body.Bytes())
		})
	}
}

// collapsing answers all requests with a query string with the answer to the first.
func collapsing(h http.Handler) http.Handler {
	kept := keeping(http.StatusOK)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			kept.ServeHTTP(w, r)
		} else {
			h.ServeHTTP(w, r)
		}
	})
}

// believing passes on the address that the client sent. Other requests have one address.
func believing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(contract.ViewerAddressField) != "" {
			r.Header.Set(viewerless, "true")
		}
		h.ServeHTTP(w, r)
	})
}

// choosing takes the address of the client from a field.
func choosing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if address := r.Header.Get(contract.ViewerAddressField); address != "" {
			r.RemoteAddr = address + ":443"
		}
		h.ServeHTTP(w, r)
	})
}

// unavailable answers 503 instead of 429.
var unavailable = answering(func(r *httptest.ResponseRecorder) {
	if r.Code == http.StatusTooManyRequests {
		r.Code = http.StatusServiceUnavailable
	}
})

// emptied adds an empty field to refusals.
var emptied = answering(func(r *httptest.ResponseRecorder) {
	if r.Code == http.StatusTooManyRequests {
		r.Header()["Weir-Degraded"] = []string{""}
	}
})

// anonymous removes the suspended key from requests.
func anonymous(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == suspendedKey {
			r.Header.Del("X-Api-Key")
		}
		h.ServeHTTP(w, r)
	})
}

// replacing replaces the values of a field for which is returns true. An empty value removes the field.
func replacing(field string, is func(string) bool, value string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if is(r.Header.Get(field)) {
				if r.Header.Set(field, value); value == "" {
					r.Header.Del(field)
				}
			}
			h.ServeHTTP(w, r)
		})
	}
}

// isToken reports whether a field has a token with a signature, and isNewKey whether it has a new API key.
func isToken(value string) bool { return strings.Count(value, ".") == 2 }
func isNewKey(value string) bool {
	return value != validKey && len(value) == len(validKey)
}

// unsettledPlace settles no costs: neither the handler nor the subscription of the log does.
var unsettledPlace = place{handler: unsettled, apis: func(r resources) {
	r.each("AWS::Logs::SubscriptionFilter", func(id string, _ map[string]any) { delete(r, id) })
}}

// unsettled removes the receipt from events, so the handler settles nothing.
func unsettled(h lambda.Handler) lambda.Handler {
	return function(func(ctx context.Context, event []byte) ([]byte, error) {
		return h.Invoke(ctx, bytes.Replace(event, []byte(`"receipt":`), []byte(`"unknown":`), 1))
	})
}

// charged sends a GET request for each preflight.
func charged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			get := r.Clone(r.Context())
			get.Method = http.MethodGet
			h.ServeHTTP(httptest.NewRecorder(), get)
		}
		h.ServeHTTP(w, r)
	})
}

// cached returns an authorizer whose policies API Gateway caches for each path.
func cached(h lambda.Handler) lambda.Handler {
	var mu sync.Mutex
	policies := map[string][]byte{}
	return function(func(ctx context.Context, event []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		path := string(between(event, `"path":"`, `"`)) + string(between(event, `"x-api-key":"`, `"`)) + string(between(event, `"Authorization":"`, `"`))
		if policies[path] != nil {
			return policies[path], nil
		}
		policy, err := h.Invoke(ctx, event)
		policies[path] = policy
		return policy, err
	})
}

// between returns the part of a text between two other texts. It ignores their case.
func between(text []byte, from, to string) []byte {
	lower := bytes.ToLower(text)
	_, after, _ := bytes.Cut(lower, []byte(strings.ToLower(from)))
	value, _, _ := bytes.Cut(after, []byte(to))
	if len(lower) != len(text) { // a letter with another length in lower case
		return value
	}
	start := len(text) - len(after)
	return text[start : start+len(value)]
}

// lenient admits one request without counting it.
func lenient(h lambda.Handler) lambda.Handler {
	var mu sync.Mutex
	var admitted []byte // a policy that admits a request to the limit that the run exhausts
	once := false
	return busy(function(func(ctx context.Context, event []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if admitted != nil && !once && bytes.Contains(event, []byte("items/weir-verify")) {
			once = true
			return admitted, nil
		}
		policy, err := h.Invoke(ctx, event)
		if bytes.Contains(event, []byte("items/weir-verify")) {
			admitted = policy
		}
		return policy, err
	}))
}

// busy answers the first refused request as if its subject were busy.
func busy(h lambda.Handler) lambda.Handler {
	var refused atomic.Bool
	return function(func(ctx context.Context, event []byte) ([]byte, error) {
		policy, err := h.Invoke(ctx, event)
		if err == nil && bytes.Contains(policy, []byte(`"Deny"`)) && refused.CompareAndSwap(false, true) {
			policy = busyPolicy(policy)
		}
		return policy, err
	})
}

// busyPolicy removes the values of the limit from a refusal.
func busyPolicy(policy []byte) []byte {
	for _, key := range []string{"rateLimitLimit", "rateLimitRemaining", "rateLimitReset", "rateLimitPolicy", "rateLimit"} {
		value := between(policy, `"`+key+`":"`, `",`)
		policy = bytes.Replace(policy, fmt.Appendf(nil, `"%s":"%s",`, key, value), nil, 1)
	}
	return bytes.Replace(policy, []byte(`"rate_limit_exceeded"`), []byte(`"subject_busy"`), 1)
}
