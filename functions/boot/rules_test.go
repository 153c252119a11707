package boot_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// allows returns the version of the rules in force at the deployment's time, and the number of
// requests that these rules allow.
func (d *deployment) allows(t *testing.T) (version, requests int64) {
	t.Helper()
	r := reloaded(t, d.Environment, d.now)
	return r.Version(), r.Charges(nil, http.MethodGet, rules.EncodedPath("/api/a"), caller.Caller{User: "alice"})[0].Limit.Rate.Requests
}

// putRules publishes a document that allows the given number of requests a minute.
func (d *deployment) putRules(t *testing.T, requests int, after int64) int64 {
	t.Helper()
	document := fmt.Appendf(nil, `{"version":3,"rules":[{"endpoint":"/api/*","limits":{"*":{"requests":%d,"window":"1m"}}}]}`, requests)
	v, err := rulestore.New(d.client, d.table).Publish(t.Context(), d.now, document, "", after, 3)
	if err != nil {
		t.Fatal(err)
	}
	return v.Version
}

// The rules in the table replace the bundled document, even if the bundled document has a higher
// version. They and the interventions cost one read each a minute, and stay in force while the table fails.
func TestConfig_rules_table(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "RULES_FROM=table")
	want := func(what string, version, requests int64) {
		t.Helper()
		if gotVersion, got := d.allows(t); gotVersion != version || got != requests {
			t.Errorf("%s: got version %d with %d requests, want %d with %d", what, gotVersion, got, version, requests)
		}
	}
	want("no rules in the table", 1, 10)
	first := d.putRules(t, 11, 0)
	d.now = d.now.Add(time.Minute)
	want("put", first, 11)
	d.shut.Store(true)
	for range 10 {
		d.now = d.now.Add(time.Minute)
		want("the table fails", first, 11)
	}
	d.shut.Store(false)
	second := d.putRules(t, 12, first)
	d.now = d.now.Add(time.Minute)
	want("back", second, 12)
	before := d.requests.Load()
	for range 60 {
		d.now = d.now.Add(time.Second)
		want("a minute later", second, 12)
	}
	if reads := d.requests.Load() - before; reads != 2 && reads != 4 {
		t.Errorf("got %d reads in a minute, want those of one or two reloads", reads)
	}
}

// A bundled document can have a version above the current time in Unix seconds, for example a time in
// milliseconds. A document in the table still replaces it, even in running environments.
func TestConfig_rules_bundleAhead(t *testing.T) {
	for _, version := range []int64{9_999_999_999, noon.UnixMilli()} {
		d := newDeployment(t, "STORE=memory:")
		document := fmt.Sprintf(`{"version":%d,"rules":[{"endpoint":"/api/*","limits":{"*":{"requests":10,"window":"1m"}}}]}`, version)
		c := load(t, "STORE=memory:", "RULES_FROM=table", "RECORDS_TABLE="+d.table, "DYNAMODB_ENDPOINT="+d.endpoint, "WEIR_LOCAL=true",
			"RULES_FILE="+write(t, "rules.json", document))
		store, _, err := c.OpenStore(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := storetest.Must(c.Environment(t.Context(), store, d.options()))
		d.Environment = e
		if got, requests := d.allows(t); got != 1 || requests != 10 {
			t.Errorf("bundle %d, empty table: got version %d with %d requests, want 1 with 10", version, got, requests)
		}
		put := d.putRules(t, 11, 0)
		d.now = d.now.Add(time.Minute)
		if got, requests := d.allows(t); got != put || requests != 11 {
			t.Errorf("bundle %d, after publishing: got version %d with %d requests, want %d with 11", version, got, requests, put)
		}
	}
}

// An environment that starts while the table fails uses its bundled document, as version 0. Every
// published document has a higher version. Therefore, states that were charged under published rules
// keep the parameters of those rules until the table answers.
func TestConfig_rules_coldStart(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "RULES_FROM=table")
	d.now = time.Now() // the real time, from which the environment computes the unknown age
	age := func() (seconds int) {
		t.Helper()
		d.metrics.Reset()
		version, _ := d.allows(t)
		d.Recorder.Record(telemetry.Outcome{Time: d.now, Decision: limiter.Decision{Allowed: true}})
		var line struct{ RulesAge, RulesVersion int }
		if err := json.Unmarshal(d.metrics.Bytes(), &line); err != nil || int64(line.RulesVersion) != version {
			t.Errorf("metrics: got %s, %v; want version %d of the rules", &d.metrics, err, version)
		}
		return line.RulesAge
	}
	d.shut.Store(true)
	if seconds := age(); seconds != 3600 { // old enough to start an alarm immediately
		t.Errorf("age while the table fails: got %d s, want 3600 s", seconds)
	}
	if version, requests := d.allows(t); version != 0 || requests != 10 {
		t.Errorf("while the table fails: got version %d with %d requests, want 0 with 10", version, requests)
	}
	d.shut.Store(false)
	first := d.putRules(t, 11, 0)
	d.now = d.now.Add(time.Second)
	if seconds := age(); seconds != 0 {
		t.Errorf("age after the table has recovered: got %d s, want 0 s", seconds)
	}
	if version, requests := d.allows(t); version != first || requests != 11 {
		t.Errorf("after the table has recovered: got version %d with %d requests, want the published rules", version, requests)
	}
}

// If a reload moves limits to other items, their counts restart. The log gets one line with at most ten
// of these limits.
func TestConfig_rules_restarts(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "RULES_FROM=table", "REFUSAL=problem")
	version := int64(0)
	put := func(endpoints int, refusal string) {
		t.Helper()
		var list []string
		for i := range endpoints {
			list = append(list, fmt.Sprintf(`{"endpoint":"/e%d","limits":{"*":{"requests":3,"window":"30d","algorithm":"token_bucket"}}}`, i))
		}
		list = append(list, `{"endpoint":"*","limits":{"global":{"name":"all","requests":11,"window":"1m","per":["global"]}}}`)
		v, err := rulestore.New(d.client, d.table).Publish(t.Context(), d.now, []byte(`{"refusal":"`+refusal+`","rules":[`+
			strings.Join(list, ",")+`]}`), "", version, 0)
		if err != nil {
			t.Fatal(err)
		}
		version = v.Version
		for range 3 {
			d.now = d.now.Add(time.Minute)
			_, _ = d.allows(t)
		}
	}
	for _, c := range []struct {
		endpoints, logged int
		refusal           string
	}{{10, 0, "problem"}, {11, 1, "problem"}, {12, 1, "openai"}} {
		put(c.endpoints, c.refusal)
		want := c.refusal == "openai" // the gateway responses of a REST API have another form
		if got := strings.Contains(d.logged.String(), "form=problem rules=openai"); got != want {
			t.Errorf("%s: got a warning of the form: %t, want %t:\n%s", c.refusal, got, want, &d.logged)
		}
		if n := strings.Count(d.logged.String(), "counts restart"); n != c.logged {
			t.Errorf("%d endpoints: logged %d times, want %d:\n%s", c.endpoints, n, c.logged, &d.logged)
		}
	}
	if text := d.logged.String(); !strings.Contains(text, "count=10") || !strings.Contains(text, "rules[9].limits.* (e9)") {
		t.Errorf("restarted counts: got log %s, want 10 counts with rules[9].limits.*", text)
	}
}

// A document with mistakes is rejected, counted once and logged once. The previous rules stay in
// force, and their age grows until a valid document is published.
func TestConfig_rules_refused(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "RULES_FROM=table")
	first := d.putRules(t, 11, 0)
	d.now = d.now.Add(time.Minute)
	_, _ = d.allows(t)
	var mistakes strings.Builder
	for i := range 50 {
		fmt.Fprintf(&mistakes, `,"unknown%d":1`, i)
	}
	bad, err := rulestore.New(d.client, d.table).Publish(t.Context(), d.now, []byte(`{"rules":[]`+mistakes.String()+`}`), "", first, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		d.now = d.now.Add(time.Minute)
		if version, _ := d.allows(t); version != first {
			t.Errorf("version after the rejection: got %d, want the previous version", version)
		}
		d.Recorder.Record(telemetry.Outcome{Time: d.now, Duration: time.Millisecond, Decision: limiter.Decision{Allowed: true}})
	}
	if n := strings.Count(d.metrics.String(), `"RulesRefused":1`); n != 1 || strings.Contains(d.metrics.String(), `"RulesRefused":2`) {
		t.Errorf("got %d rejected documents, want 1:\n%s", n, &d.metrics)
	}
	if !strings.Contains(d.metrics.String(), fmt.Sprintf(`"RulesVersion":%d`, first)) || !strings.Contains(d.metrics.String(),
		`"RulesAge":300`) {
		t.Errorf("metrics: want the previous version and an age of 300 s, got\n%s", &d.metrics)
	}
	if n := strings.Count(d.logged.String(), "rules refused"); n != 1 || !strings.Contains(d.logged.String(), "unknown0") ||
		strings.Contains(d.logged.String(), "unknown10") || !strings.Contains(d.logged.String(), "mistakes=50") {
		t.Errorf("rejected document logged %d times, want once with at most 10 of its mistakes:\n%s", n, &d.logged)
	}
	good := d.putRules(t, 13, bad.Version)
	d.now = d.now.Add(time.Minute)
	if version, requests := d.allows(t); version != good || requests != 13 {
		t.Errorf("after a valid document: got version %d with %d requests, want the new rules", version, requests)
	}
}

// A starting function reads the rules in the table before the first request.
func TestConfig_rules_warm(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "RULES_FROM=table")
	put := d.putRules(t, 11, 0)
	load(t, "STORE=memory:").Warm(t.Context(), storetest.Must(memstore.New(memstore.Options{})), d.Environment)
	if version := d.Rules.Current().Version(); version != put {
		t.Errorf("version: got %d, want %d", version, put)
	}
}
