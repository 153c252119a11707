package lambdahttp_test

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
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const eachCount = `{"rules":[{"endpoint":"*","limits":{"*":[
	{"name":"calls","requests":100,"window":"1m","per":["ip"]},
	{"name":"input","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":100},
	{"name":"output","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":200},
	{"name":"failures","requests":100,"window":"1m","per":["ip"],"count":"failures"},
	{"name":"bytes","requests":10000,"window":"1m","per":["ip"],"count":"bytes","reserve":1000},
	{"name":"flight","requests":2,"window":"1m","per":["ip"],"count":"concurrent"}]}}]}`

// decided is a REST API whose authorizer and back end are different functions. The back end is foreign, unless
// e.WeirBehind is set.
type decided struct {
	t       *testing.T
	e       *lambdahttp.Environment
	store   *flaky
	now     time.Time
	metrics bytes.Buffer
	log     bytes.Buffer
	settle  lambda.Handler
}

// flaky is a store whose writes fail while down is true. It counts them.
type flaky struct {
	limiter.Store
	storetest.Patient

	down   bool
	writes int
}

func (f *flaky) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	for _, c := range charges {
		if c.Cost > 0 {
			f.writes++
			if f.down {
				return false, fmt.Errorf("%w: down", limiter.ErrUnavailable)
			}
			break
		}
	}
	return f.Store.Take(ctx, now, subject, charges, results)
}

func newDecided(t *testing.T, document string) *decided {
	t.Helper()
	d := &decided{t: t, store: &flaky{Store: storetest.Must(memstore.New(memstore.Options{}))}, now: noon}
	d.e = environment(t, d.store)
	d.e.Rules = live.Fixed(storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1})))
	d.e.Clock = func() time.Time { return d.now }
	d.e.Recorder = telemetry.New(&d.metrics, "dev", nil)
	d.e.MACs = mac.Fixed("dev", []byte("secret"))
	d.e.Logger = slog.New(slog.NewTextHandler(&d.log, nil))
	d.settle = lambdahttp.NewLog(d.e, nil)
	return d
}

// authorize returns the context of the authorizer for an anonymous request.
func (d *decided) authorize() map[string]any {
	d.t.Helper()
	p, err := authorize(d.t, d.e, sampleEvent(d.t, "rest-authorizer-anonymous.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	return p.Context
}

// sealed returns the value with which the back end of an admitted request reports.
func (d *decided) sealed() string {
	d.t.Helper()
	text, _ := d.authorize()[contract.KeyReport].(string)
	if text == "" {
		d.t.Fatal("got no value for reports, want one")
	}
	return text
}

// serve passes an event with a context of the authorizer to an API.
func (d *decided) serve(api http.HandlerFunc, authorizer map[string]any) answer {
	d.t.Helper()
	return handle(d.t, d.e, api, behind(d.t, authorizer))
}

// want checks the usage of the limits.
func (d *decided) want(when, want string) {
	d.t.Helper()
	var got []string
	for _, c := range d.e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/api/v1/search"),
		caller.Caller{IP: netip.MustParsePrefix("203.0.113.7/32")}) {
		look := limiter.Charge{Subject: c.Subject, Limit: c.Limit}
		results := make([]algo.Result, 1)
		if _, err := d.store.Store.Take(ctx, algo.InstantOf(d.now), look.Subject, []limiter.Charge{look}, results); err != nil {
			d.t.Fatal(err)
		}
		if used := results[0].Machine.Used(results[0].State, algo.InstantOf(d.now)); used > 0 {
			got = append(got, fmt.Sprintf("%s %d", c.Limit.Name, used))
		}
	}
	if got := strings.Join(got, ", "); got != want {
		d.t.Errorf("%s: got %s, want %s", when, got, want)
	}
}

func (d *decided) counted(name string) (sum int) {
	d.t.Helper()
	d.now = d.now.Add(2 * time.Second)
	d.e.Recorder.Flush(d.now)
	counts, _ := recorded(d.t, d.metrics.Bytes())
	return counts[name]
}

// report invokes the function log. In the text of event, %s stands for the sealed value.
func (d *decided) report(event, sealed, want string) {
	d.t.Helper()
	got, err := d.settle.Invoke(ctx, []byte(strings.Replace(event, "%s", sealed, 1)))
	if err != nil || string(got) != want {
		d.t.Errorf("%s: got %s, %v; want %s", event, got, err, want)
	}
}

// lines invokes the function log with lines of an access log. Equal lines have the same id.
func (d *decided) lines(lines ...string) error {
	d.t.Helper()
	var log struct {
		MessageType string              `json:"messageType"`
		LogEvents   []map[string]string `json:"logEvents"`
	}
	for _, line := range lines {
		log.LogEvents = append(log.LogEvents, map[string]string{"id": line, "message": line})
	}
	got, err := d.settle.Invoke(ctx, logged(d.t, storetest.Must(json.Marshal(log))))
	if err == nil && string(got) != "null" {
		d.t.Errorf("answer to lines: got %s, want null", got)
	}
	return err
}

func logged(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text)
	_ = z.Close()
	return []byte(`{"awslogs":{"data":"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"}}`)
}

func line(id, sealed, status, length string) string {
	return fmt.Sprintf(`{"requestId":%q,"report":%q,"status":%q,"responseLength":%q}`, id, sealed, status, length)
}

const (
	charged = `{"charged":true}`
	forged  = `{"charged":false,"reason":"forged"}`
	invalid = `{"charged":false,"reason":"invalid"}`
	nothing = `{"charged":false,"reason":"nothing"}`
)

// Behind the authorizer, the handler decides and settles limits with a count as without one. The authorizer charges only
// the others, and the client gets the fields of the limit with less remaining, and no cost.
func TestHandler_settlesBehind(t *testing.T) {
	d := newDecided(t, strings.Replace(eachCount, `"name":"calls","requests":100`, `"name":"calls","requests":1`, 1))
	d.e.WeirBehind = true
	authorizer := d.authorize()
	d.want("after the authorizer", "calls 1")
	if authorizer[contract.KeyReport] != nil {
		t.Errorf("got the context %v, want no value for reports", authorizer)
	}
	api := func(w http.ResponseWriter, _ *http.Request) {
		d.want("in the handler", "calls 1, input 100, output 200, failures 1, bytes 1000, flight 1")
		w.Header().Set("Weir-Cost", "input=12, output=34")
		_, _ = w.Write([]byte(strings.Repeat("x", 300)))
	}
	a := d.serve(api, authorizer)
	d.want("after the answer", "calls 1, input 12, output 34, bytes 300")
	if a.StatusCode != http.StatusOK || a.header("Weir-Cost") != "" || !strings.HasPrefix(a.header("RateLimit"), `"calls";r=0;`) {
		t.Errorf("got %d %v, want the fields of calls and no cost", a.StatusCode, a.MultiValueHeaders)
	}
	refusing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
	if a := d.serve(refusing, authorizer); a.StatusCode != http.StatusTooManyRequests || a.header("RateLimit") != "" {
		t.Errorf("a refusal of the API: got %d %v, want no fields of Weir", a.StatusCode, a.MultiValueHeaders)
	}
	event := behind(t, authorizer)
	for range 2 { // requests in flight
		_ = storetest.Must(d.e.Limiter.Take(ctx, d.now, d.e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/api/v1/search"),
			caller.Caller{IP: netip.MustParsePrefix("203.0.113.7/32")})[5:]))
	}
	if a := handle(t, d.e, http.HandlerFunc(api), event); a.StatusCode != http.StatusTooManyRequests ||
		a.header("RateLimit-Policy") != `"flight";q=2;qu="concurrent-requests"` {
		t.Errorf("with 2 requests in flight: got %d %v, want 429 by flight", a.StatusCode, a.MultiValueHeaders)
	}
	if refused, allowed := d.counted(telemetry.Refused), d.counted(telemetry.Allowed); refused != 1 || allowed != 1 {
		t.Errorf("got %d refused and %d allowed, want 1 and 1: the handler records only what it refuses", refused, allowed)
	}
}

// A panic of the API counts as a failure.
func TestHandler_settlesPanic(t *testing.T) {
	d := newDecided(t, eachCount)
	d.e.WeirBehind = true
	event := behind(d.t, d.authorize())
	func() {
		defer func() { _ = recover() }()
		_, _ = lambdahttp.NewHandler(d.e, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })).Invoke(ctx, event)
	}()
	d.want("after a panic", "calls 1, input 100, output 200, failures 1")
}

// With a foreign back end, the authorizer writes nothing on limits with a count. It refuses a request if one of them has no
// room for a cost of 1. It ignores requests in flight.
func TestAuthorizer_looks(t *testing.T) {
	d := newDecided(t, eachCount)
	sealed := d.sealed()
	d.want("a look", "calls 1")
	if d.store.writes != 1 {
		t.Errorf("got %d writes, want the one of calls", d.store.writes)
	}
	d.report(`{"report":"%s","cost":{"input":999}}`, sealed, charged)
	if got := d.authorize(); got["weir"] != "allowed" || got["rateLimitRemaining"] != "1" {
		t.Errorf("with room for 1: got %v, want it allowed, with 1 of input remaining", got)
	}
	d.report(`{"report":"%s","cost":{"input":1}}`, sealed, charged)
	if got := d.authorize(); got["weir"] != "refused" || got[contract.KeyPolicy] != "input" || got[contract.KeyReport] != nil {
		t.Errorf("without room: got %v, want a refusal by input, and no value for reports", got)
	}
	d.want("a refusal", "calls 2, input 1000")
}

// A back end reports costs, a status and a length, together or separately. A report charges by force, knows no reserve, and
// charges again if it is repeated.
func TestForward_reports(t *testing.T) {
	for _, c := range []struct{ name, event, answer, want string }{
		{"one cost", `{"report":"%s","cost":12}`, charged, "calls 1, input 12, output 12"},
		{"named costs", `{"report":"%s","cost":{"input":12,"output":34}}`, charged, "calls 1, input 12, output 34"},
		{"a cost of 0", `{"report":"%s","cost":{"output":0}}`, charged, "calls 1"},
		{"a cost above the limit", `{"report":"%s","cost":{"input":1900}}`, charged, "calls 1, input 1900"},
		{"a status", `{"report":"%s","status":200}`, charged, "calls 1"},
		{"a failure", `{"report":"%s","status":500}`, charged, "calls 1, failures 1"},
		{"everything", `{"report":"%s","cost":1,"status":400,"bytes":5}`, charged, "calls 1, input 1, output 1, failures 1, bytes 5"},
		{"an unknown limit beside a known one", `{"report":"%s","cost":{"input":1,"tokens":2}}`, charged, "calls 1, input 1"},
		{"an unknown limit", `{"report":"%s","cost":{"tokens":2}}`, nothing, "calls 1"},
		{"no value", `{"report":"%s"}`, nothing, "calls 1"},
		{"a negative cost", `{"report":"%s","cost":-1}`, invalid, "calls 1"},
		{"a fraction", `{"report":"%s","cost":1.5}`, invalid, "calls 1"},
		{"no number beside a number", `{"report":"%s","cost":{"input":null,"output":3},"status":200}`, invalid, "calls 1"},
		{"a name twice", `{"report":"%s","cost":{"input":1,"input":3}}`, charged, "calls 1, input 3"},
		{"null", `{"report":"%s","cost":null,"status":200}`, invalid, "calls 1"},
		{"no JSON", `{"report":"%s"`, invalid, "calls 1"},
	} {
		d := newDecided(t, eachCount)
		d.report(c.event, d.sealed(), c.answer)
		d.want(c.name, c.want)
	}
	d := newDecided(t, eachCount)
	sealed := d.sealed()
	for range 2 {
		d.report(`{"report":"%s","cost":12,"status":500}`, sealed, charged)
	}
	d.want("a repeated report", "calls 1, input 24, output 24, failures 2")
}

// A caller's own numbers, periods and buckets are charged as the authorizer looks at them.
func TestForward_ownNumbers(t *testing.T) {
	d := newDecided(t, `{"tiers":["free","paid"],"rules":[{"endpoint":"*","limits":{
		"free":[{"name":"month","requests":50,"period":"month","per":["ip"],"count":"cost","reserve":5},{"name":"rate","requests":60,"burst":30,
			"window":"1m","algorithm":"token_bucket","per":["ip"],"count":"cost","reserve":5}],
		"paid":[{"name":"month","requests":500,"period":"month","per":["ip"],"count":"cost","reserve":5}]}}],
		"overrides":[{"ip":"203.0.113.7","limits":{"month":{"requests":20}}}]}`)
	d.report(`{"report":"%s","cost":{"month":20,"rate":3}}`, d.sealed(), charged)
	if got := d.authorize(); got["weir"] != "refused" || got[contract.KeyPolicy] != "month" || got[contract.KeyLimit] != "20" {
		t.Errorf("got %v, want a refusal by 20 a month", got)
	}
	d.want("after the report", "month 20, rate 3")
}

// A value that no authorizer of this deployment made charges nothing.
func TestForward_forged(t *testing.T) {
	d, other := newDecided(t, eachCount), newDecided(t, eachCount)
	sealed := d.sealed()
	other.e.MACs = mac.Fixed("prod", []byte("secret"))
	text, sum, _ := strings.Cut(sealed, ".")
	plain := string(storetest.Must(base64.RawURLEncoding.DecodeString(text)))
	victim := base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(plain, "203.0.113.7", "203.0.113.8")))
	for name, bad := range map[string]string{
		"another caller": victim + "." + sum, "another deployment": other.sealed(), "a part": sealed[:len(sealed)-4], "longer": sealed + "AAAA",
		"no MAC": text, "empty": "", "huge": strings.Repeat("A", 1<<20),
		"a log line": text + "." + storetest.Must(d.e.MACs.Sign(ctx, noon, []byte(text))),
	} {
		d.report(`{"report":"%s","cost":12}`, bad, forged)
		if strings.Contains(d.log.String(), sealed[:20]) {
			t.Errorf("%s: got a part of the value in the log", name)
		}
	}
	d.want("forgeries", "calls 1")
	if got := d.counted(telemetry.ReportsRejected); got != 8 {
		t.Errorf("rejected reports: got %d, want 8", got)
	}
}

// Without a key, the request is admitted, and its costs are lost. If the value would be too long, the charges that a client
// cannot choose are in it first. The spellings of a path do not make it too long.
func TestAuthorizer_cannotReport(t *testing.T) {
	const limit = `{"name":"limit-with-a-long-name-%d","requests":%d,"window":"1m","per":[%s],"count":"cost","reserve":1}`
	var many []string
	for i := range 19 {
		many = append(many, fmt.Sprintf(limit, i, 1000, fmt.Sprintf(`"header:h%d","ip"`, i)))
	}
	long := strings.Join(many, ",") + "," + fmt.Sprintf(limit, 19, 1, `"ip"`)
	spelled := fmt.Sprintf(limit, 0, 1, `"ip","path:id"`) + "," + fmt.Sprintf(limit, 1, 1, `"ip","path:id"`)
	down := func(context.Context) ([]byte, error) { return nil, errors.New("down") }
	for name, c := range map[string]struct {
		document, path string
		ring           *mac.Ring
		kept, lost     int // subjects and charges
		log            string
	}{
		"no table":     {eachCount, "search", nil, 0, 4, "no keys"},
		"table failed": {eachCount, "search", mac.NewRing(mac.Scope{Namespace: "dev"}, down), 0, 4, "down"},
		"too long":     {fmt.Sprintf(inOne, "*", long), "search", mac.Fixed("dev", nil), 7, 13, "20 charges of limits with a count need"},
		"spelled": {fmt.Sprintf(inOne, "/api/v1/{id}", spelled), strings.Repeat("x", 80) + "%2F%3Fb", mac.Fixed("dev", nil), 3, 0,
			""},
	} {
		d := newDecided(t, c.document)
		d.e.MACs = c.ring
		event := changed(t, sampleEvent(t, "rest-authorizer-anonymous.json"), "/api/v1/search", "/api/v1/"+c.path)
		got := storetest.Must(authorize(t, d.e, event)).Context
		report, _ := got[contract.KeyReport].(string)
		if got["weir"] != "allowed" || (report != "") != (c.kept > 0) {
			t.Errorf("%s: got %v, want an admitted request, with a value for reports: %t", name, got, c.kept > 0)
		}
		if report != "" {
			before := d.store.writes
			d.report(`{"report":"%s","cost":1}`, report, charged)
			if again := storetest.Must(authorize(t, d.e, event)).Context; again["weir"] != "refused" || d.store.writes != before+c.kept {
				t.Errorf("%s: got %v after %d writes, want a refusal after %d", name, again, d.store.writes-before, c.kept)
			}
		}
		if got := d.counted(telemetry.SettlementsLost); got != c.lost || !strings.Contains(d.log.String(), c.log) {
			t.Errorf("%s: got %d lost settlements and the log %s, want %d and %q", name, got, &d.log, c.lost, c.log)
		}
	}
}

const inOne = `{"rules":[{"endpoint":%q,"limits":{"*":[%s]}}]}`

// The access log reports failures and lengths. A line that one delivery has twice charges once, and another delivery charges
// again. The values of a line can be numbers, or be missing.
func TestForward_lines(t *testing.T) {
	d := newDecided(t, eachCount)
	sealed := d.sealed()
	for range 2 {
		a, b := line("a", sealed, "500", "300"), line("b", sealed, "500", "300")
		if err := d.lines(a, b, a, line("c", sealed, "200", "-"), `{"requestId":"d","report":"`+sealed+`","status":404,"responseLength":5}`,
			line("e", "-", "500", "7"), "text", line("f", "AAAA.BBBB", "500", "7")); err != nil {
			t.Error(err)
		}
	}
	d.want("two deliveries", "calls 1, failures 6, bytes 1210")
	if got := d.counted(telemetry.ReportsRejected); got != 2 {
		t.Errorf("rejected reports: got %d, want 2", got)
	}
}

// API Gateway does not escape what a client sends. A line in which a member stands twice charges nothing, and so does a line
// that was cut. The function counts both.
func TestForward_badLines(t *testing.T) {
	d := newDecided(t, eachCount)
	sealed, bad := d.sealed(), 0
	for _, agent := range []string{`x","status":"200`, `x","\u0073tatus":"200`, `x","responseLength":"0`} {
		bad++
		if d.lines(`{"report":"`+sealed+`","status":"500","responseLength":"300","userAgent":"`+agent+`"}`) != nil {
			t.Errorf("%s: got an error, want none", agent)
		}
	}
	text := line("a", sealed, "500", "5")
	for end := strings.Index(text, `"report"`) + 9; end < len(text); end += 10 {
		bad++
		if d.lines(text[:end]+"[TRUNCATED]") != nil {
			t.Errorf("cut after %d bytes: got an error, want none", end)
		}
	}
	for name, event := range map[string][]byte{
		"no gzip": []byte(`{"awslogs":{"data":"AAAA"}}`), "no JSON": logged(t, []byte("{")),
		"too large": logged(t, bytes.Repeat([]byte(" "), 8<<20+1)), "no base64": []byte(`{"awslogs":{"data":"!"}}`),
	} {
		bad++
		if _, err := d.settle.Invoke(ctx, event); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
	d.want("bad lines", "calls 1")
	if got := d.counted(telemetry.ReportsRejected); got != bad {
		t.Errorf("rejected lines: got %d, want %d", got, bad)
	}
}

// If the store or the records table fails, the function returns an error, so that the report is repeated. This process counts
// nothing by itself.
func TestForward_failures(t *testing.T) {
	d := newDecided(t, eachCount)
	a := d.sealed()
	d.store.down = true
	if got, err := d.settle.Invoke(ctx, []byte(`{"report":"`+a+`","status":500}`)); err == nil {
		t.Errorf("the store fails: got %s, want an error", got)
	}
	if err := d.lines(line("a", a, "500", "1"), line("b", a, "500", "1")); err == nil || !strings.Contains(err.Error(), "2 of 2 lines") ||
		strings.Contains(err.Error(), a[:20]) {
		t.Errorf("the store fails: got %v, want an error of two lines without the value", err)
	}
	d.store.down = false
	ring := d.e.MACs
	d.e.MACs = nil
	if d.lines(line("a", a, "500", "1")) == nil {
		t.Error("no key: got no error, want one")
	}
	d.e.MACs = ring
	d.now = d.now.Add(time.Second)
	if err := d.lines(line("a", a, "500", "1")); err != nil {
		t.Error(err)
	}
	d.want("after the outage", "calls 1, failures 1, bytes 1")
}
