package lambdahttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// report invokes the function forward. In the text of event, %s stands for the receipt.
func (d *decided) report(event, receipt, want string) {
	d.t.Helper()
	got, err := d.settle.Invoke(ctx, []byte(strings.Replace(event, "%s", receipt, 1)))
	if err != nil || string(got) != want {
		d.t.Errorf("%s: got %s, %v; want %s", event, got, err, want)
	}
}

// lines invokes the function forward with lines of an access log.
func (d *decided) lines(lines ...string) error {
	d.t.Helper()
	var log struct {
		MessageType string              `json:"messageType"`
		LogEvents   []map[string]string `json:"logEvents"`
	}
	for i, line := range lines {
		log.LogEvents = append(log.LogEvents, map[string]string{"id": fmt.Sprint(i), "message": line})
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

func line(receipt, status, length string) string {
	return fmt.Sprintf(`{"requestId":"a","receipt":%q,"status":%q,"responseLength":%q}`, receipt, status, length)
}

const (
	settled = `{"settled":true}`
	used    = `{"settled":false,"reason":"used"}`
	forged  = `{"settled":false,"reason":"forged"}`
	expired = `{"settled":false,"reason":"expired"}`
	invalid = `{"settled":false,"reason":"invalid"}`
	nothing = `{"settled":false,"reason":"nothing"}`
)

// A back end reports costs, a status and a length, together or separately. A limit without a report keeps
// its reserve.
func TestSettle_reports(t *testing.T) {
	for _, c := range []struct{ name, event, answer, want string }{
		{"one cost", `{"receipt":"%s","cost":12}`, settled, "calls 1, input 12, output 12, failures 1, bytes 1000"},
		{"named costs", `{"receipt":"%s","cost":{"input":12,"output":34}}`, settled, "calls 1, input 12, output 34, failures 1, bytes 1000"},
		{"one named cost", `{"receipt":"%s","cost":{"output":0}}`, settled, "calls 1, input 100, output 0, failures 1, bytes 1000"},
		{"a cost above the reserve", `{"receipt":"%s","cost":{"input":900}}`, settled, "calls 1, input 900, output 200, failures 1, bytes 1000"},
		{"a status", `{"receipt":"%s","status":200}`, settled, "calls 1, input 100, output 200, failures 0, bytes 1000"},
		{"a failure", `{"receipt":"%s","status":500}`, settled, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"a length", `{"receipt":"%s","bytes":0}`, settled, "calls 1, input 100, output 200, failures 1, bytes 0"},
		{"everything", `{"receipt":"%s","cost":1,"status":200,"bytes":5}`, settled, "calls 1, input 1, output 1, failures 0, bytes 5"},
		{"an unknown limit beside a known one", `{"receipt":"%s","cost":{"input":1,"tokens":2}}`, settled, "calls 1, input 1, output 200, failures 1, bytes 1000"},
		{"an unknown limit", `{"receipt":"%s","cost":{"tokens":2}}`, nothing, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"no value", `{"receipt":"%s"}`, nothing, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"an unknown length", `{"receipt":"%s","bytes":-7}`, nothing, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"a negative cost", `{"receipt":"%s","cost":-1}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"a huge cost", `{"receipt":"%s","cost":1000000001,"status":200}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"a fraction", `{"receipt":"%s","cost":1.5}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"text", `{"receipt":"%s","cost":{"input":"12"}}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"no number beside a number", `{"receipt":"%s","cost":{"input":null,"output":3},"status":200}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"null as the cost", `{"receipt":"%s","cost":null,"status":200}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"the same name twice", `{"receipt":"%s","cost":{"input":1,"output":3,"input":2},"status":200}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"the same name twice, escaped", `{"receipt":"%s","cost":{"input":1,"\u0069nput":2},"status":200}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"a list", `{"receipt":"%s","cost":[1]}`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
		{"no JSON", `{"receipt":"%s"`, invalid, "calls 1, input 100, output 200, failures 1, bytes 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecided(t, eachCount)
			d.report(c.event, d.receipt(), c.answer)
			d.want(c.name, c.want)
			if rejected := d.counted(telemetry.ReportsRejected); (rejected > 0) != (c.answer == invalid || strings.Contains(c.event, "tokens")) {
				t.Errorf("rejected reports: got %d", rejected)
			}
		})
	}
}

// A receipt settles the cost once: a second report of a cost changes nothing, even for another limit. A
// forged, foreign or expired receipt changes nothing.
func TestSettle_receipts(t *testing.T) {
	d := newDecided(t, eachCount)
	receipt := d.receipt()
	d.report(`{"receipt":"%s","cost":{"input":12}}`, receipt, settled)
	d.report(`{"receipt":"%s","cost":{"output":34}}`, receipt, used)
	for _, bad := range []string{"", "x", receipt[1:], receipt[:len(receipt)-1], strings.Repeat("A", 1<<20)} {
		d.report(`{"receipt":"%s","cost":0}`, bad, forged)
	}
	other := newDecided(t, eachCount)
	d.report(`{"receipt":"%s","cost":0}`, other.receipt(), forged)
	d.want("one report", "calls 1, input 12, output 200, failures 1, bytes 1000")
	last := d.receipt()
	d.now = noon.Add(15 * time.Minute)
	d.report(`{"receipt":"%s","cost":0}`, last, expired)
	for name, want := range map[string]int{telemetry.ReceiptsSettled: 1, telemetry.ReceiptsReplayed: 1, telemetry.ReceiptsForged: 6, telemetry.ReceiptsExpired: 1} {
		if got := d.counted(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// A line of the access log and the report of the cost settle the same receipt, in either order. The line
// leaves the cost alone. A second line changes nothing and counts nothing.
func TestSettle_lines(t *testing.T) {
	for name, order := range map[string][]int{"line first": {0, 1}, "report first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			d := newDecided(t, eachCount)
			receipt := d.receipt()
			steps := []func(){
				func() {
					if err := d.lines(line("-", "200", "5"), "not JSON", line(receipt, "200", "300"), line(receipt, "200", "300"), line("forged", "200", "1")); err != nil {
						t.Error(err)
					}
				},
				func() { d.report(`{"receipt":"%s","cost":{"input":12,"output":34}}`, receipt, settled) },
			}
			for _, i := range order {
				steps[i]()
			}
			d.want("line and report", "calls 1, input 12, output 34, failures 0, bytes 300")
			// The two equal lines are settled at the same time, so each can settle one of the limits.
			if settled, replayed, forged := d.counted(telemetry.ReceiptsSettled), d.counted(telemetry.ReceiptsReplayed), d.counted(telemetry.ReceiptsForged); settled != 2 && settled != 3 || replayed != 0 || forged != 1 {
				t.Errorf("got %d settled, %d replayed and %d forged, want 2 or 3, 0 and 1", settled, replayed, forged)
			}
		})
	}
}

// The cost, the status and the length settle separately, in any order. A report of one value does not use up the
// receipt for the others. A report that settles at least one value counts as settled, even if it repeats another
// value.
func TestSettle_parts(t *testing.T) {
	report := func(event, answer string) func(*decided, string) {
		return func(d *decided, receipt string) { d.report(event, receipt, answer) }
	}
	logged := func(d *decided, receipt string) {
		if err := d.lines(line(receipt, "200", "300")); err != nil {
			d.t.Error(err)
		}
	}
	for name, steps := range map[string][]func(*decided, string){
		"apart":             {report(`{"receipt":"%s","status":200}`, settled), report(`{"receipt":"%s","bytes":300}`, settled), report(`{"receipt":"%s","cost":12}`, settled)},
		"line at the end":   {report(`{"receipt":"%s","cost":12,"status":200}`, settled), logged},
		"report at the end": {logged, report(`{"receipt":"%s","cost":12,"status":200}`, settled)},
		"repeated":          {logged, report(`{"receipt":"%s","cost":12}`, settled), report(`{"receipt":"%s","cost":7,"status":200,"bytes":7}`, used)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided(t, eachCount)
			receipt := d.receipt()
			for _, step := range steps {
				step(d, receipt)
			}
			d.want(name, "calls 1, input 12, output 12, failures 0, bytes 300")
			if replayed := d.counted(telemetry.ReceiptsReplayed); (replayed == 1) != (name == "repeated") || replayed > 1 {
				t.Errorf("replayed receipts: got %d", replayed)
			}
		})
	}
}

// A line changes nothing if its limits count only cost. The values of a line can be numbers, or be missing.
func TestSettle_linesValues(t *testing.T) {
	d := newDecided(t, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"tokens","requests":1000,"window":"1m","per":["ip"],"count":"cost","reserve":100}}}]}`)
	receipt := d.receipt()
	if err := d.lines(line(receipt, "200", "300")); err != nil {
		t.Error(err)
	}
	d.want("a limit that counts cost", "tokens 100")
	d.report(`{"receipt":"%s","cost":7}`, receipt, settled)
	d.want("after the report", "tokens 7")

	d = newDecided(t, eachCount)
	a, b, c := d.receipt(), d.receipt(), d.receipt()
	if err := d.lines(`{"receipt":"`+a+`","status":200,"responseLength":5}`, line(b, "-", "-"), line(c, "500", "-")); err != nil {
		t.Error(err)
	}
	d.want("numbers and missing values", "calls 3, input 300, output 600, failures 2, bytes 2005")
}

// API Gateway does not escape what a client sends. A line in which a member stands twice settles nothing, so no
// User-Agent can turn a failure into a success.
func TestSettle_repeatedMembers(t *testing.T) {
	d := newDecided(t, eachCount)
	for _, agent := range []string{`x","status":"200`, `x","\u0073tatus":"200`, `x","responseLength":"0`} {
		d.now = d.now.Add(2 * time.Minute)
		receipt := d.receipt()
		if err := d.lines(`{"receipt":"` + receipt + `","status":"500","responseLength":"300","userAgent":"` + agent + `"}`); err != nil {
			t.Errorf("%s: got %v, want no error", agent, err)
		}
		d.want(agent, "calls 1, input 100, output 200, failures 1, bytes 1000")
	}
	if got := d.counted(telemetry.ReportsRejected); got != 3 {
		t.Errorf("rejected lines: got %d, want 3", got)
	}
}

// A line that was cut settles nothing, wherever the cut is, and the function counts it if it begins with the receipt.
func TestSettle_cutLines(t *testing.T) {
	d := newDecided(t, eachCount)
	text := `{"receipt":"` + d.receipt() + `","referer":"x","bytes":"1"}","status":"200","responseLength":"1"}`
	cut := 0
	for end := range len(text) {
		for _, mark := range []string{"", "[TRUNCATED]"} {
			if mark == "" && json.Valid([]byte(text[:end])) {
				continue // a referer can end a line, so the mark of API Gateway matters
			}
			if err := d.lines(text[:end] + mark); err != nil {
				t.Fatal(err)
			}
			if end > len(`{"receipt`) {
				cut++
			}
		}
	}
	d.want("cut lines", "calls 1, input 100, output 200, failures 1, bytes 1000")
	if got := d.counted(telemetry.ReportsRejected); got != cut {
		t.Errorf("rejected lines: got %d, want %d", got, cut)
	}
}

// If the store or the records table fails, the function returns an error, and a repetition settles
// exactly once.
func TestSettle_failures(t *testing.T) {
	d := newDecided(t, eachCount)
	a, b := d.receipt(), d.receipt()
	ring := d.e.Receipts
	d.store.down = true
	if got, err := d.settle.Invoke(ctx, []byte(`{"receipt":"`+a+`","status":200}`)); err == nil {
		t.Errorf("the store fails: got %s, want an error", got)
	}
	if err := d.lines(line(a, "200", "1"), line(b, "200", "1")); err == nil || !strings.Contains(err.Error(), "2 of 2 lines") || strings.Contains(err.Error(), a[:20]) {
		t.Errorf("the store fails: got %v, want an error of two lines without a receipt", err)
	}
	d.store.down = false
	d.e.Receipts = nil
	if err := d.lines(line(a, "200", "1")); err == nil {
		t.Error("no keys: got no error, want one")
	}
	d.e.Receipts = ring
	for range 2 {
		if err := d.lines(line(a, "200", "1"), line(b, "200", "1")); err != nil {
			t.Error(err)
		}
	}
	d.want("repetitions", "calls 2, input 200, output 400, failures 0, bytes 2")
	if got := d.counted(telemetry.SettlementsLost); got != 1 { // only the report is lost: Lambda repeats the lines
		t.Errorf("lost settlements: got %d, want 1", got)
	}
}

// If a back end never settles, a request keeps its slot until the window of the limit has passed. A status frees the
// slot earlier.
func TestSettle_slots(t *testing.T) {
	d := newDecided(t, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"exports","requests":1,"window":"1m","per":["ip"],"count":"concurrent"}}}]}`)
	admitted := func(when string, want bool) {
		t.Helper()
		if got := d.authorize()["weir"] == "allowed"; got != want {
			t.Errorf("%s: got admitted %t, want %t", when, got, want)
		}
	}
	admitted("first", true)
	d.now = noon.Add(59 * time.Second)
	admitted("within the window", false)
	d.now = noon.Add(61 * time.Second)
	receipt := d.receipt()
	admitted("after the window, with a new holder", false)
	d.report(`{"receipt":"%s","status":200}`, receipt, settled)
	d.now = noon.Add(63 * time.Second)
	admitted("after a status", true)
}

// An event that is not compressed JSON, or that is too large, is dropped: a repetition would not help.
func TestSettle_badLines(t *testing.T) {
	d := newDecided(t, eachCount)
	for name, event := range map[string][]byte{
		"no gzip":   []byte(`{"awslogs":{"data":"AAAA"}}`),
		"no JSON":   logged(t, []byte("{")),
		"too large": logged(t, bytes.Repeat([]byte(" "), 8<<20+1)),
		"no base64": []byte(`{"awslogs":{"data":"!"}}`),
	} {
		if _, err := d.settle.Invoke(ctx, event); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
	if got := d.counted(telemetry.ReportsRejected); got != 4 {
		t.Errorf("rejected events: got %d, want 4", got)
	}
}

// Many lines of one subject settle at the same time, each once.
func TestSettle_concurrent(t *testing.T) {
	d := newDecided(t, strings.ReplaceAll(eachCount, `"requests":1`, `"requests":1000`))
	const requests = 200
	lines := make([]string, 0, 2*requests)
	for range requests {
		receipt := d.receipt()
		lines = append(lines, line(receipt, "200", "2"), line(receipt, "200", "2"))
		d.report(`{"receipt":"%s","cost":1}`, receipt, settled)
	}
	if err := d.lines(lines...); err != nil {
		t.Error(err)
	}
	d.want("all requests", "calls 200, input 200, output 200, failures 0, bytes 400")
}

// No event panics, and none without a receipt of this deployment settles anything.
func FuzzSettle(f *testing.F) {
	f.Add([]byte(`{"receipt":"AQ","cost":{"input":1},"status":200,"bytes":5}`))
	f.Add([]byte(`{"awslogs":{"data":"H4sIAAAAAAAA"}}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		d := newDecided(t, eachCount)
		d.receipt()
		_, _ = d.settle.Invoke(ctx, event)
		d.want("after a foreign event", "calls 1, input 100, output 200, failures 1, bytes 1000")
	})
}
