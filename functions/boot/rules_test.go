package boot_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// allows returns which rules decide on a request at the deployment's time: their version, and how
// many requests they allow.
func (d *deployment) allows(t *testing.T) (version, requests int64) {
	t.Helper()
	_ = d.Rules.At(t.Context(), d.now)
	for range 20 { // no request waits that long; a machine that has much to do may
		d.Rules.Settle()
	}
	r := d.Rules.At(t.Context(), d.now)
	return r.Version(), r.Charges(nil, http.MethodGet, rules.MustParsePath("/api/a"), caller.Caller{User: "alice"})[0].Limit.Rate.Requests
}

// putRules puts a document with so many requests a minute.
func (d *deployment) putRules(t *testing.T, requests int, after int64) int64 {
	t.Helper()
	document := fmt.Appendf(nil, `{"version":3,"rules":[{"endpoint":"/api/*","limits":{"*":{"requests":%d,"window":"1m"}}}]}`, requests)
	v, err := rulestore.New(d.client, d.table).Publish(t.Context(), d.now, document, "", after, 3)
	if err != nil {
		t.Fatal(err)
	}
	return v.Version
}

// The rules of the table go before those that the function was deployed with, whatever the versions
// of documents say, and cost a read a minute. Those that it has stay while the table fails.
func TestConfig_rules_table(t *testing.T) {
	d := newDeployment(t, "STORE=memory", "RULES_FROM=table")
	want := func(what string, version, requests int64) {
		t.Helper()
		if gotVersion, got := d.allows(t); gotVersion != version || got != requests {
			t.Errorf("%s: version %d with %d requests, want %d with %d", what, gotVersion, got, version, requests)
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
	if reads := d.requests.Load() - before; reads < 1 || reads > 2 {
		t.Errorf("%d reads in a minute", reads)
	}
}

// A bundle whose version is above the time in Unix seconds, such as one in milliseconds, gives way
// to what is put into the table, in environments that are running too.
func TestConfig_rules_bundleAhead(t *testing.T) {
	for _, version := range []int64{9_999_999_999, noon.UnixMilli()} {
		d := newDeployment(t, "STORE=memory")
		document := fmt.Sprintf(`{"version":%d,"rules":[{"endpoint":"/api/*","limits":{"*":{"requests":10,"window":"1m"}}}]}`, version)
		c := load(t, "STORE=memory", "RULES_FROM=table", "RECORDS_TABLE="+d.table, "DYNAMODB_ENDPOINT="+d.endpoint, "WEIR_LOCAL=true", "RULES_FILE="+write(t, "rules.json", document))
		store, _, err := c.OpenStore(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Environment(t.Context(), store, d.options())
		if err != nil {
			t.Fatal(err)
		}
		d.Environment = e
		if got, requests := d.allows(t); got != 1 || requests != 10 {
			t.Errorf("%d: version %d with %d requests while the table is empty", version, got, requests)
		}
		put := d.putRules(t, 11, 0)
		d.now = d.now.Add(time.Minute)
		if got, requests := d.allows(t); got != put || requests != 11 {
			t.Errorf("%d: version %d with %d requests after a put, want %d with 11", version, got, requests, put)
		}
	}
}

// An environment that starts while the table fails decides by what it was deployed with, which
// gives way to whatever the state was counted by, until the table answers.
func TestConfig_rules_coldStart(t *testing.T) {
	d := newDeployment(t, "STORE=memory", "RULES_FROM=table")
	d.now = time.Now() // from which on it does not know
	age := func() (seconds int) {
		t.Helper()
		d.metrics.Reset()
		version, _ := d.allows(t)
		d.Recorder.Record(outcome.Outcome{Time: d.now, Decision: limiter.Decision{Allowed: true}})
		var line struct{ RulesAge, RulesVersion int }
		if err := json.Unmarshal(d.metrics.Bytes(), &line); err != nil || int64(line.RulesVersion) != version {
			t.Errorf("%s: %v", &d.metrics, err)
		}
		return line.RulesAge
	}
	d.shut.Store(true)
	if seconds := age(); seconds != 3600 { // as old at once as an alarm wants it
		t.Errorf("the table fails: %d s", seconds)
	}
	if version, requests := d.allows(t); version != 0 || requests != 10 {
		t.Errorf("the table fails: version %d with %d requests", version, requests)
	}
	d.shut.Store(false)
	first := d.putRules(t, 11, 0)
	d.now = d.now.Add(time.Second)
	if seconds := age(); seconds != 0 {
		t.Errorf("back: %d s", seconds)
	}
	if version, requests := d.allows(t); version != first || requests != 11 {
		t.Errorf("back: version %d with %d requests", version, requests)
	}
}

// A reload that counts limits in other items logs which counts restart, once and in few words.
func TestConfig_rules_restarts(t *testing.T) {
	d := newDeployment(t, "STORE=memory", "RULES_FROM=table")
	version := int64(0)
	put := func(endpoints int) {
		t.Helper()
		var list []string
		for i := range endpoints {
			list = append(list, fmt.Sprintf(`{"endpoint":"/e%d","limits":{"*":{"requests":3,"window":"30d","algorithm":"token_bucket"}}}`, i))
		}
		list = append(list, `{"endpoint":"*","limits":{"global":{"name":"all","requests":11,"window":"1m","per":["global"]}}}`)
		v, err := rulestore.New(d.client, d.table).Publish(t.Context(), d.now, []byte(`{"rules":[`+strings.Join(list, ",")+`]}`), "", version, 0)
		if err != nil {
			t.Fatal(err)
		}
		version = v.Version
		for range 3 {
			d.now = d.now.Add(time.Minute)
			_, _ = d.allows(t)
		}
	}
	for _, c := range []struct{ endpoints, logged int }{{10, 0}, {11, 1}, {12, 1}} {
		put(c.endpoints)
		if n := strings.Count(d.logged.String(), "counts restart"); n != c.logged {
			t.Errorf("%d endpoints: logged %d times, want %d:\n%s", c.endpoints, n, c.logged, &d.logged)
		}
	}
	if text := d.logged.String(); !strings.Contains(text, "count=10") || !strings.Contains(text, "rules[9].limits.* (e9)") {
		t.Errorf("logged %s", text)
	}
}

// A document with mistakes leaves what is in force, is counted once and told with its mistakes; the
// age of the rules grows until a good one comes.
func TestConfig_rules_refused(t *testing.T) {
	d := newDeployment(t, "STORE=memory", "RULES_FROM=table")
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
			t.Errorf("version %d", version)
		}
		d.Recorder.Record(outcome.Outcome{Time: d.now, Duration: time.Millisecond, Decision: limiter.Decision{Allowed: true}})
	}
	if n := strings.Count(d.metrics.String(), `"RulesRefused":1`); n != 1 || strings.Contains(d.metrics.String(), `"RulesRefused":2`) {
		t.Errorf("counted %d times:\n%s", n, &d.metrics)
	}
	if !strings.Contains(d.metrics.String(), fmt.Sprintf(`"RulesVersion":%d`, first)) || !strings.Contains(d.metrics.String(), `"RulesAge":300`) {
		t.Errorf("version and age are missing:\n%s", &d.metrics)
	}
	if n := strings.Count(d.logged.String(), "rules refused"); n != 1 || !strings.Contains(d.logged.String(), "unknown0") || strings.Contains(d.logged.String(), "unknown10") || !strings.Contains(d.logged.String(), "mistakes=50") {
		t.Errorf("told %d times:\n%s", n, &d.logged)
	}
	good := d.putRules(t, 13, bad.Version)
	d.now = d.now.Add(time.Minute)
	if version, requests := d.allows(t); version != good || requests != 13 {
		t.Errorf("mended: version %d with %d requests", version, requests)
	}
}

// The table is read at the start, before the first request comes.
func TestConfig_rules_warm(t *testing.T) {
	d := newDeployment(t, "STORE=memory", "RULES_FROM=table")
	put := d.putRules(t, 11, 0)
	load(t, "STORE=memory").Warm(t.Context(), storetest.Must(memstore.New(memstore.Options{})), d.Environment)
	if version := d.Rules.Current().Version(); version != put {
		t.Errorf("version %d, want %d", version, put)
	}
}

// AppConfig's agent is asked within the time that is left of the minute, and its document says its
// version.
func TestConfig_rules_appConfig(t *testing.T) {
	var document atomic.Value
	document.Store("")
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/applications/a1/environments/e1/configurations/p1" || document.Load() == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, document.Load().(string))
	}))
	t.Cleanup(agent.Close)
	port := agent.URL[strings.LastIndex(agent.URL, ":")+1:]
	d := newDeployment(t, "STORE=memory", "RULES_FROM=appconfig:a1/e1/p1", "AWS_APPCONFIG_EXTENSION_HTTP_PORT="+port)
	const limits = `"rules":[{"endpoint":"/api/*","limits":{"*":{"requests":%d,"window":"1m"}}}]}`
	for _, c := range []struct {
		document          string
		version, requests int64
	}{
		{"", 0, 10}, // not deployed yet
		{`{"version":5,` + fmt.Sprintf(limits, 15), 5, 15},
		{`{"version":4,` + fmt.Sprintf(limits, 14), 5, 15},
		{`{` + fmt.Sprintf(limits, 14), 5, 15},
		{"", 5, 15},
		{`{"version":6,` + fmt.Sprintf(limits, 16), 6, 16},
	} {
		document.Store(c.document)
		d.now = d.now.Add(15 * time.Second)
		if version, requests := d.allows(t); version != c.version || requests != c.requests {
			t.Errorf("%s: version %d with %d requests, want %d with %d", c.document, version, requests, c.version, c.requests)
		}
	} // The older one, and the one without a version.
	d.Recorder.Record(outcome.Outcome{Time: d.now.Add(time.Minute), Duration: time.Millisecond, Decision: limiter.Decision{Allowed: true}})
	if n := strings.Count(d.metrics.String(), `"RulesRefused":1`); n != 2 {
		t.Errorf("counted %d times:\n%s", n, &d.metrics)
	}
	if told := d.logged.String(); strings.Count(told, "rules refused: older than the rules in force") != 1 || !strings.Contains(told, "got version 4, want more than 5") {
		t.Errorf("told:\n%s", told)
	}
}
