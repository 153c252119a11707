package lambdahttp_test

import (
	"bytes"
	"context"
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
	"github.com/weir-limits/weir/functions/receipts"
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
	{"name":"bytes","requests":10000,"window":"1m","per":["ip"],"count":"bytes","reserve":1000}]}}]}`

// decided is a REST API whose authorizer and back end are different functions.
type decided struct {
	t       *testing.T
	e       *lambdahttp.Environment
	store   *flaky
	now     time.Time
	metrics bytes.Buffer
	log     bytes.Buffer
	settle  lambda.Handler
}

// flaky is a store whose settlements fail while down is true.
type flaky struct {
	limiter.Store
	storetest.Patient

	down bool
}

func (f *flaky) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (limiter.Settled, error) {
	if f.down {
		return limiter.Settled{}, errors.New("down")
	}
	return f.Store.Settle(ctx, now, subject, charges, results, elapsed, once)
}

func newDecided(t *testing.T, document string) *decided {
	t.Helper()
	d := &decided{t: t, store: &flaky{Store: storetest.Must(memstore.New(memstore.Options{}))}, now: noon}
	d.e = environment(t, d.store)
	d.e.Rules = live.Fixed(storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1})))
	d.e.Clock = func() time.Time { return d.now }
	d.e.Recorder = telemetry.New(&d.metrics, "dev", nil)
	d.e.Receipts = receipts.Fixed("dev", receipts.NewKeys())
	d.e.Logger = slog.New(slog.NewTextHandler(&d.log, nil))
	d.settle = lambdahttp.NewForward(d.e)
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

func (d *decided) receipt() string {
	d.t.Helper()
	text, _ := d.authorize()[contract.KeyReceipt].(string)
	if text == "" {
		d.t.Fatal("got no receipt, want one")
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
	for _, c := range d.e.Rules.Current().Charges(nil, "GET", rules.EncodedPath("/api/v1/search"), caller.Caller{IP: netip.MustParsePrefix("203.0.113.7/32")}) {
		look := limiter.Charge{Subject: c.Subject, Limit: c.Limit}
		results := make([]algo.Result, 1)
		if _, err := d.store.Take(ctx, algo.InstantOf(d.now), look.Subject, []limiter.Charge{look}, results); err != nil {
			d.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", c.Limit.Name, results[0].Machine.Used(results[0].State, algo.InstantOf(d.now))))
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

// The handler settles each limit of a request that the authorizer has charged, exactly once. Neither the
// receipt nor the cost field reaches the client.
func TestHandler_settles(t *testing.T) {
	d := newDecided(t, eachCount)
	authorizer := d.authorize()
	d.want("before the answer", "calls 1, input 100, output 200, failures 1, bytes 1000")
	api := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Weir-Cost", "input=12, output=34")
		_, _ = w.Write([]byte(strings.Repeat("x", 300)))
	}
	a := d.serve(api, authorizer)
	d.want("after the answer", "calls 1, input 12, output 34, failures 0, bytes 300")
	if text := fmt.Sprint(a); a.StatusCode != http.StatusOK || strings.Contains(text, authorizer[contract.KeyReceipt].(string)) || strings.Contains(strings.ToLower(text), "weir-cost") {
		t.Errorf("got %s, want an answer without the receipt and the cost", text)
	}
	d.serve(api, authorizer)
	d.want("a replay", "calls 1, input 12, output 34, failures 0, bytes 300")
	if settled, replayed := d.counted(telemetry.ReceiptsSettled), d.counted(telemetry.ReceiptsReplayed); settled != 1 || replayed != 1 {
		t.Errorf("got %d settled and %d replayed receipts, want 1 and 1", settled, replayed)
	}
}

// A panic of the API counts as a failure.
func TestHandler_settlesPanic(t *testing.T) {
	d := newDecided(t, eachCount)
	event := behind(d.t, d.authorize())
	func() {
		defer func() { _ = recover() }()
		_, _ = lambdahttp.NewHandler(d.e, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })).Invoke(ctx, event)
	}()
	d.want("after a panic", "calls 1, input 100, output 200, failures 1, bytes 0")
}

// The handler removes the cost field even if the request has no receipt.
func TestHandler_noReceipt(t *testing.T) {
	d := newDecided(t, eachCount)
	authorizer := d.authorize()
	delete(authorizer, contract.KeyReceipt)
	a := d.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Weir-Cost") != "" {
			t.Error("the API got the cost field of a client")
		}
		w.Header().Set("weir-cost", "12")
	}, authorizer)
	if a.header("Weir-Cost") != "" {
		t.Errorf("got %v, want no cost field", a.MultiValueHeaders)
	}
	d.want("without a receipt", "calls 1, input 100, output 200, failures 1, bytes 1000")
}

// A receipt is taken only from the context of the authorizer.
func TestHandler_foreignReceipt(t *testing.T) {
	d := newDecided(t, eachCount)
	own := d.authorize()
	receipt := own[contract.KeyReceipt].(string)
	delete(own, contract.KeyReceipt)
	api := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	event := changed(t, behind(d.t, own), `"multiValueHeaders":{`, `"multiValueHeaders":{"Receipt":["`+receipt+`"],"Weir-Receipt":["`+receipt+`"],`)
	handle(t, d.e, api, changed(t, event, `"headers":{`, `"receipt":"`+receipt+`","headers":{"receipt":"`+receipt+`",`))
	d.want("a receipt in a header", "calls 1, input 100, output 200, failures 1, bytes 1000")
	handle(t, d.e, api, behind(d.t, map[string]any{contract.KeyReceipt: receipt}))
	d.want("a context that is not Weir's", "calls 2, input 200, output 400, failures 1, bytes 1000")
}

// A forged, truncated, oversized or expired receipt changes nothing. The request is served.
func TestHandler_badReceipt(t *testing.T) {
	d := newDecided(t, eachCount)
	authorizer := d.authorize()
	receipt := authorizer[contract.KeyReceipt].(string)
	for _, bad := range []string{receipt[:len(receipt)-4], receipt + "AAAA", "x", strings.Repeat("A", 1<<20), receipt[:20] + "AAAA" + receipt[24:]} {
		authorizer[contract.KeyReceipt] = bad
		if a := d.serve(func(http.ResponseWriter, *http.Request) {}, authorizer); a.StatusCode != http.StatusOK {
			t.Errorf("got %d, want 200", a.StatusCode)
		}
	}
	d.want("forgeries", "calls 1, input 100, output 200, failures 1, bytes 1000")
	if got := d.counted(telemetry.ReceiptsForged); got != 5 {
		t.Errorf("forged receipts: got %d, want 5", got)
	}
	if strings.Contains(d.log.String(), receipt[:20]) {
		t.Errorf("log: got a part of a receipt: %s", &d.log)
	}
	authorizer[contract.KeyReceipt] = receipt
	d.now = noon.Add(15 * time.Minute)
	d.serve(func(http.ResponseWriter, *http.Request) {}, authorizer)
	if got := d.counted(telemetry.ReceiptsExpired); got != 1 {
		t.Errorf("expired receipts: got %d, want 1", got)
	}
}

// A request has a receipt only if it is admitted and one of its limits is settled after the answer. The
// receipt fits the authorizer's context.
func TestAuthorizer_receipt(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		want     bool
	}{
		"counts requests": {`{"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":1,"window":"1m","per":["ip"]}}}]}`, false},
		"counts failures": {`{"rules":[{"endpoint":"*","limits":{"*":{"name":"a","requests":1,"window":"1m","per":["ip"],"count":"failures"}}}]}`, true},
	} {
		d := newDecided(t, c.document)
		receipt, _ := d.authorize()[contract.KeyReceipt].(string)
		if (receipt != "") != c.want || len(receipt) > contract.MaxReceipt {
			t.Errorf("%s: got a receipt of %d bytes, want a receipt: %t", name, len(receipt), c.want)
		}
		if refused := d.authorize(); refused["weir"] != "refused" || refused[contract.KeyReceipt] != nil {
			t.Errorf("%s: got %v, want a refusal without a receipt", name, refused)
		}
	}
}

// Without keys, or if the receipt would be too long, the request is still admitted, and the limits keep
// their reserve.
func TestAuthorizer_receiptOmitted(t *testing.T) {
	var many []string
	for i := range 19 {
		many = append(many, fmt.Sprintf(`{"name":"limit-with-a-long-name-%d","requests":1000,"window":"1m","per":["header:h%d","ip"],"count":"cost","reserve":1}`, i, i))
	}
	long := `{"rules":[{"endpoint":"*","limits":{"*":[` + strings.Join(many, ",") + `]}}]}`
	for name, c := range map[string]struct {
		document string
		ring     *receipts.Ring
		log      string
	}{
		"no table":     {eachCount, nil, "no keys of receipts"},
		"table failed": {eachCount, receipts.NewRing(receipts.Scope{Namespace: "dev"}, func(context.Context) (receipts.Keys, error) { return receipts.Keys{}, errors.New("down") }), "down"},
		"too long":     {long, receipts.Fixed("dev", receipts.NewKeys()), "too"},
	} {
		d := newDecided(t, c.document)
		d.e.Receipts = c.ring
		if got := d.authorize(); got["weir"] != "allowed" || got[contract.KeyReceipt] != nil {
			t.Errorf("%s: got %v, want an admitted request without a receipt", name, got)
		}
		if got := d.counted(telemetry.ReceiptsOmitted); got != 1 || !strings.Contains(d.log.String(), c.log) {
			t.Errorf("%s: got %d omitted receipts and the log %s, want 1 and %q", name, got, &d.log, c.log)
		}
	}
}
