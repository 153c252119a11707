package telemetry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

var (
	noon  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	alice = caller.Caller{User: "alice", APIKey: "k1", IP: netip.MustParsePrefix("203.0.113.7/32")}

	allowed = limiter.Decision{Allowed: true}
	refused = limiter.Decision{Limit: limit("search")}
)

func limit(name string) *limiter.Limit {
	l, err := limiter.NewLimit(limiter.Limit{Name: name, Rule: "GET /search", Rate: algo.Rate{Requests: 1, Window: time.Second}})
	if err != nil {
		panic(err)
	}
	return l
}

// counts maps the names of metrics to values. The value of a latency is the number of samples.
type counts map[string]float64

type line struct {
	at      time.Time
	counts  counts
	latency []float64
	rule    string // value of the dimension Rule
}

// log collects lines and checks that each Write is one line.
type log struct {
	testing.TB
	metrics []line
	refused []telemetry.DecisionLine
	bytes   int
	writing sync.Mutex
	schema  *jsonschema.Schema
}

func newLog(tb testing.TB) *log {
	tb.Helper()
	schema, err := jsonschema.NewCompiler().Compile("testdata/emf.json")
	if err != nil {
		tb.Fatal(err)
	}
	return &log{TB: tb, schema: schema}
}

func (l *log) Write(b []byte) (int, error) {
	if !l.writing.TryLock() {
		l.Error("got two concurrent writes, want one at a time")
	}
	defer l.writing.Unlock()
	l.bytes += len(b)
	if b[0] != '{' || !bytes.HasSuffix(b, []byte("}\n")) || bytes.Count(b, []byte("\n")) != 1 {
		l.Errorf("got %q, want one line", b)
		return len(b), nil
	}
	if bytes.Contains(b, []byte(`"_aws"`)) {
		l.metrics = append(l.metrics, l.read(b))
		return len(b), nil
	}
	var r telemetry.DecisionLine
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || r.Kind != "refused" && r.Kind != "shadowed" || r.Count < 1 {
		l.Errorf("%s: %v", b, err)
	}
	l.refused = append(l.refused, r)
	return len(b), nil
}

// read validates a line of metrics against the format.
func (l *log) read(b []byte) line {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err == nil {
		err = l.schema.Validate(document)
	}
	if err != nil {
		l.Errorf("%s: %v", b, err)
		return line{}
	}
	var head struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Rule string
	}
	root := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(b, &head), json.Unmarshal(b, &root)); err != nil {
		l.Error(err)
		return line{}
	}
	got, n := line{at: time.UnixMilli(head.AWS.Timestamp).UTC(), counts: counts{}, rule: head.Rule}, 0
	for _, d := range head.AWS.CloudWatchMetrics {
		if of := strings.Join(d.Dimensions[0], " "); of != "" && of != telemetry.RuleDimension {
			l.Errorf("%s: got dimensions %q", b, of)
		}
		for _, m := range d.Metrics { // each member of the line is one metric
			n++
			got.read(l, m.Name, m.Unit, root[m.Name])
			if ofRule := strings.HasPrefix(m.Name, "Rule") && !strings.HasPrefix(m.Name, "Rules"); ofRule != (len(d.Dimensions[0]) == 1) {
				l.Errorf("%s: %s: got dimensions %q", b, m.Name, d.Dimensions[0])
			}
			delete(root, m.Name)
		}
	}
	delete(root, "_aws")
	delete(root, telemetry.RuleDimension)
	if len(root) != 0 || n != len(got.counts) {
		l.Errorf("%s: got members %v, want each member to be one metric", b, slices.Collect(maps.Keys(root)))
	}
	return got
}

func (l *line) read(tb testing.TB, name, unit string, value json.RawMessage) {
	tb.Helper()
	want, n := "Count", 0.0
	var err error
	switch name {
	case telemetry.Latency, telemetry.StoreLatency:
		var values []float64
		want, err = "Milliseconds", json.Unmarshal(value, &values)
		n = float64(len(values))
		if name == telemetry.Latency {
			l.latency = values
		}
	case telemetry.RulesVersion:
		want, err = "None", json.Unmarshal(value, &n)
	case telemetry.RulesAge:
		want, err = "Seconds", json.Unmarshal(value, &n)
	default:
		err = json.Unmarshal(value, &n)
	}
	if unit != want || n != math.Trunc(n) || err != nil {
		tb.Errorf("%s: got value %v, unit %s and error %v", name, n, unit, err)
	}
	l.counts[name] = n
}

// total returns the sum of all lines.
func (l *log) total() counts {
	sum := counts{}
	for _, m := range l.metrics {
		for name, n := range m.counts {
			sum[name] += n
		}
	}
	return sum
}

func (l *log) want(want ...line) {
	l.Helper()
	if len(l.metrics) != len(want) {
		l.Fatalf("got %d lines, want %d: %+v", len(l.metrics), len(want), l.metrics)
	}
	for i, w := range want {
		if got := l.metrics[i]; !got.at.Equal(w.at) || !maps.Equal(got.counts, w.counts) || got.rule != w.rule {
			l.Errorf("line %d:\n got %s %v %s\nwant %s %v %s", i+1, got.at, got.counts, got.rule, w.at, w.counts, w.rule)
		}
	}
	l.metrics = nil
}

// Each kind of outcome increases its metrics and no others.
func TestRecorder_Record(t *testing.T) {
	invalid, missing := fmt.Errorf("%w: forged", caller.ErrInvalidCredential), fmt.Errorf("token: %w", caller.ErrMissingCredential)
	for _, c := range []struct {
		name     string
		decision limiter.Decision
		err      error
		want     counts
	}{
		{"allowed", limiter.Decision{Allowed: true, StoreCalls: 2}, nil, counts{"Allowed": 1, "Refused": 0, "StoreCalls": 2, "StoreLatency": 1,
			"Latency": 1}},
		{"refused", limiter.Decision{Limit: limit("a"), StoreCalls: 3}, nil, counts{"Allowed": 0, "Refused": 1, "StoreCalls": 3,
			"StoreLatency": 1, "Latency": 1}},
		{"refused without a limit to show", limiter.Decision{}, nil, counts{"Allowed": 0, "Refused": 1, "Latency": 1}},
		{"remembered", limiter.Decision{Limit: limit("a"), FromCache: true}, nil, counts{"Allowed": 0, "Refused": 1, "FromCache": 1,
			"Latency": 1}},
		{"busy", limiter.Decision{Reason: limiter.ReasonBusy, StoreCalls: 1}, nil, counts{"Allowed": 0, "Refused": 1, "Busy": 1, "StoreCalls": 1,
			"StoreLatency": 1, "Latency": 1}},
		{"degraded", limiter.Decision{Allowed: true, Reason: limiter.ReasonTimeout, StoreCalls: 1}, nil, counts{"Allowed": 1, "Refused": 0,
			"Degraded": 1, "StoreCalls": 1, "StoreLatency": 1, "Latency": 1}},
		{"refused by the count of an earlier outage", limiter.Decision{Reason: limiter.ReasonOutage}, nil, counts{"Allowed": 0, "Refused": 1,
			"Latency": 1}},
		{"refused while the store failed", limiter.Decision{Reason: limiter.ReasonTimeout}, nil, counts{"Allowed": 0, "Refused": 1, "Degraded": 1,
			"Latency": 1}},
		{"denied because the store failed", limiter.Decision{Failed: true, Reason: limiter.ReasonBreaker, StoreCalls: 1}, nil,
			counts{"Allowed": 0, "Refused": 0, "Degraded": 1, "Failed": 1, "StoreCalls": 1, "StoreLatency": 1}},
		{"denied because there is no room", limiter.Decision{Failed: true, LocalFull: true, Reason: limiter.ReasonBreaker}, nil,
			counts{"Allowed": 0, "Refused": 0, "Degraded": 1, "Failed": 1, "LocalFull": 1}},
		{"shadowed", limiter.Decision{Allowed: true, Shadowed: limit("a")}, nil, counts{"Allowed": 1, "Refused": 0, "Shadowed": 1, "Latency": 1}},
		{"refused and shadowed", limiter.Decision{Shadowed: limit("a")}, nil, counts{"Allowed": 0, "Refused": 1, "Shadowed": 1, "Latency": 1}},
		{"bad credential", limiter.Decision{Allowed: true, StoreCalls: 1}, invalid, counts{"Allowed": 0, "Refused": 0, "Unauthorized": 1,
			"StoreCalls": 1, "StoreLatency": 1}},
		{"no credential", allowed, missing, counts{"Allowed": 0, "Refused": 0, "Unauthorized": 1}},
		{"not verified", limiter.Decision{Allowed: true, Reason: limiter.ReasonTimeout}, caller.ErrUnverified, counts{"Allowed": 0, "Refused": 0,
			"Failed": 1, "Degraded": 1}},
		{"bad credential while the store failed", limiter.Decision{Allowed: true, Reason: limiter.ReasonBreaker}, invalid,
			counts{"Allowed": 0, "Refused": 0, "Unauthorized": 1, "Degraded": 1}},
		{"above the limit", limiter.Decision{Allowed: true, Overshoot: 7}, nil, counts{"Allowed": 1, "Refused": 0, "Overshoot": 7, "Latency": 1}},
		{"given back", limiter.Decision{Refunds: limiter.Refunds{Given: 2, Dropped: 1}, StoreCalls: 3}, nil, counts{"Allowed": 0, "Refused": 1,
			"RefundsGiven": 2, "RefundsDropped": 1, "StoreCalls": 3, "StoreLatency": 1, "Latency": 1}},
		{"evicted", limiter.Decision{Allowed: true, Evicted: 2}, nil, counts{"Allowed": 1, "Refused": 0, "Evicted": 2, "Latency": 1}},
		{"clamped", limiter.Decision{Clamped: 3}, nil, counts{"Allowed": 0, "Refused": 1, "Clamped": 3, "Latency": 1}},
		{"moved share", limiter.Decision{Allowed: true, Transfer: limiter.Transfer{Calls: 2, Moved: 9, Lost: 1, Failed: 2}}, nil,
			counts{"Allowed": 1, "Refused": 0, "RegionCalls": 2, "TransfersLost": 1, "RegionsFailed": 2, "Latency": 1}},
		{"a bad credential without room", limiter.Decision{LocalFull: true}, caller.ErrUnverified, counts{"Allowed": 0, "Refused": 0,
			"Failed": 1}},
		{"not decided", limiter.Decision{}, limiter.ErrInvalidCharge, counts{"Allowed": 0, "Refused": 0, "Failed": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog(t)
			telemetry.New(l, "dev", hash).Record(outcomeOf(noon, 0, alice, c.decision, c.err))
			l.want(line{at: noon, counts: c.want})
			if n := c.want["Refused"] + c.want["Shadowed"]; len(l.refused) != int(min(n, 1)) {
				t.Errorf("lines of refusals: got %+v, want one if there are any", l.refused)
			}
		})
	}
	l := newLog(t)
	telemetry.New(l, "dev", hash).RulesRefused(noon)
	l.want(line{at: noon, counts: counts{"Allowed": 0, "Refused": 0, "RulesRefused": 1}})
	l = newLog(t)
	telemetry.New(l, "dev", hash).Refunds(noon, limiter.Refunds{Given: 2, Dropped: 3})
	telemetry.New(l, "dev", hash).Refunds(noon, limiter.Refunds{}) // no counts, so no line
	l.want(line{at: noon, counts: counts{"Allowed": 0, "Refused": 0, "RefundsGiven": 2, "RefundsDropped": 3}})
}

// Facts of a request and of a settlement have metrics of their own. Of several overshoots, the largest counts.
func TestRecorder_facts(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 0, alice, allowed, nil)) // written at once
	l.metrics = nil
	for _, overshoot := range []int64{2, 5, 3} {
		o := outcomeOf(noon, 0, caller.Caller{ForeignKey: true, IPNotFound: true}, limiter.Decision{Allowed: true, Overshoot: overshoot}, nil)
		o.Unmatched, o.RecordIgnored, o.Uncounted = true, true, true
		r.Record(o)
	}
	r.Settled(telemetry.Settlement{Time: noon, Rejected: 1, Unread: 2, Settlement: limiter.Settlement{Lost: 3,
		Excess: []limiter.Excess{{Cost: 4}, {Cost: 5}}}})
	r.FlushAll(noon)
	l.want(line{at: noon, counts: counts{"Allowed": 3, "Refused": 0, "Latency": 3, "Overshoot": 5, "ForeignKeys": 3, "AddressesNotFound": 3,
		"Unmatched": 3, "RecordsIgnored": 3, "ClaimsUncounted": 3,
		"ReportsRejected": 1, "CostsUnread": 2, "SettlementsLost": 3, "DebtExcess": 9}})
}

// The first decision after a quiet second is written at once. The decisions of the next second are
// written with the first decision after that second.
func TestRecorder_writeTimes(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	record := func(after time.Duration) { r.Record(outcomeOf(noon.Add(after), 0, alice, allowed, nil)) }
	n := func(after time.Duration, n float64) line {
		return line{at: noon.Add(after), counts: counts{"Allowed": n, "Refused": 0, "Latency": n}}
	}
	record(0)
	l.want(n(0, 1))
	record(0)
	record(time.Millisecond)
	record(time.Second - 1)
	l.want()
	record(time.Second)
	l.want(n(time.Second, 4))
	record(2*time.Second - 1)
	l.want()
	record(2*time.Second + 500*time.Millisecond)
	l.want(n(2500*time.Millisecond, 2))
	record(3*time.Second + 499*time.Millisecond)
	l.want()
	// Old counts are written with their own time.
	const pause = 3499*time.Millisecond + time.Minute
	record(pause - 1)
	l.want(n(pause-1, 2).truncated())
	record(pause)
	l.want()
	record(pause + time.Hour)
	l.want(n(pause, 1), n(pause+time.Hour, 1))
	// After the clock has gone back by less than a second, no line is due. After it has gone back by an
	// hour, a line is due at once.
	record(pause + time.Hour - time.Second + 1)
	l.want()
	record(pause)
	l.want(n(pause, 2))
}

// truncated returns l with its time in whole milliseconds, like a written line.
func (l line) truncated() line {
	l.at = l.at.Truncate(time.Millisecond)
	return l
}

// The time of a decision is its end. Therefore, the time of the recorder does not go back for a slow
// request that began earlier than others.
func TestRecorder_slow(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	for i := range 1000 {
		at := noon.Add(time.Duration(i) * time.Millisecond)
		r.Record(outcomeOf(at, 0, alice, allowed, nil))
		r.Record(outcomeOf(at.Add(-5*time.Second), 5*time.Second, alice, allowed, nil))
	}
	l.want(line{at: noon, counts: counts{"Allowed": 1, "Refused": 0, "Latency": 1}})
}

// Each concurrent decision is counted once, and there is at most one line per second.
func TestRecorder_concurrent(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	const workers, seconds, each = 8, 10, 5000
	for s := range seconds {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				d, err := limiter.Decision{Allowed: w%2 == 0, StoreCalls: 1, Limit: limit("a")}, error(nil)
				if w == 7 {
					err = caller.ErrInvalidCredential
				}
				for i := range each / seconds {
					r.Record(outcomeOf(noon.Add(time.Duration(s)*time.Second+time.Duration(i)*time.Microsecond), 0, alice, d, err))
				}
			})
		}
		wg.Wait()
	}
	lines := len(l.metrics)
	r.Record(outcomeOf(noon.Add(2*seconds*time.Second), 0, alice, limiter.Decision{Allowed: true}, nil))
	got := l.total()
	delete(got, telemetry.Latency)
	delete(got, telemetry.StoreLatency)
	if want := (counts{"Allowed": 4*each + 1, "Refused": 3 * each, "Unauthorized": each, "StoreCalls": workers * each}); !maps.Equal(got,
		want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if lines < 2 || lines > seconds {
		t.Errorf("got %d lines in %d seconds, want at most one a second", lines, seconds)
	}
	n := 0
	for _, m := range l.refused {
		n += int(m.Count)
	}
	if n != 3*each {
		t.Errorf("refusals in the log: got %d, want %d", n, 3*each)
	}
}

// Latencies are in milliseconds. If a line cannot hold all of them, it has a random sample.
func TestRecorder_latency(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 1234567*time.Nanosecond, alice, allowed, nil))
	r.Record(outcomeOf(noon.Add(100*time.Millisecond), 2*time.Millisecond, alice, refused, nil))
	r.Record(outcomeOf(noon.Add(100*time.Millisecond), time.Millisecond, alice, allowed, caller.ErrUnverified))
	r.Record(outcomeOf(noon.Add(2*time.Second), 0, alice, allowed, nil))
	if got, want := [][]float64{l.metrics[0].latency, l.metrics[1].latency}, [][]float64{{1.234}, {2, 0}}; !slices.EqualFunc(got, want,
		slices.Equal) {
		t.Errorf("latencies: got %v, want %v", got, want)
	}
	l.metrics = nil
	for i := range 10_000 { // all requests before the next write
		r.Record(outcomeOf(noon.Add(2*time.Second+1-time.Duration(i)*time.Microsecond), time.Duration(i)*time.Microsecond, alice, allowed, nil))
	}
	r.Record(outcomeOf(noon.Add(3*time.Second), 0, alice, allowed, nil))
	if len(l.metrics) != 1 || l.metrics[0].counts["Allowed"] != 10_001 || len(l.metrics[0].latency) != 50 {
		t.Fatalf("got %+v, want one line with 10,001 allowed requests and 50 latencies", l.metrics)
	}
	late := 0
	for _, ms := range l.metrics[0].latency {
		if ms < 0 || ms >= 10 {
			t.Errorf("got a latency of %v ms, want one of 0 to 10 ms", ms)
		}
		if ms >= 5 {
			late++
		}
	}
	if late < 4 || late > 46 { // 25 is the mean, and 21 is about six standard deviations
		t.Errorf("values from the second half of the requests: got %d of 50, want about 25", late)
	}
}

// When the version of the rules is known, each line has it. If the rules have a source, each line also
// has their age.
func TestRecorder_Rules(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	want := func(after time.Duration, members counts) {
		t.Helper()
		r.Record(outcomeOf(noon.Add(after), 0, alice, allowed, nil))
		maps.Copy(members, counts{"Allowed": 1, "Refused": 0, "Latency": 1})
		l.want(line{at: noon.Add(after), counts: members})
	}
	want(0, counts{})
	r.Rules(noon, 7, time.Time{}, nil, nil)
	want(time.Second, counts{"RulesVersion": 7})
	r.Rules(noon.Add(2*time.Second), 8, noon.Add(time.Second), nil, nil)
	r.Rules(noon.Add(time.Second), 7, noon, nil, nil) // ignored, because the previous call has a later time
	l.want()                                          // no line, because a call of Rules is not a request
	want(2*time.Second, counts{"RulesVersion": 8, "RulesAge": 1})
	want(time.Hour, counts{"RulesVersion": 8, "RulesAge": 3599})
	r.Rules(noon.Add(-time.Hour), 9, noon.Add(-time.Hour), nil, nil) // the clock was set back
	want(-time.Hour-time.Second, counts{"RulesVersion": 9, "RulesAge": 0})
}

// A nil Recorder records nothing.
func TestRecorder_none(*testing.T) {
	var none *telemetry.Recorder
	for _, r := range []*telemetry.Recorder{none, {}} {
		r.Record(outcomeOf(noon, 0, alice, refused, nil))
		r.RulesRefused(noon)
		r.Refunds(noon, limiter.Refunds{Given: 1})
		r.Rules(noon, 1, noon, []string{"a"}, nil)
	}
}

// Record allocates no memory while no line is due.
func TestRecorder_allocations(t *testing.T) {
	r := telemetry.New(newLog(t), "dev", nil)
	r.Rules(noon, 1, noon, []string{"a", "b"}, nil)
	two, by := through("b", "c"), refusedBy("a")
	for name, record := range map[string]func(){
		"allowed":         func() { r.Record(outcomeOf(noon, 0, alice, allowed, nil)) },
		"refused":         func() { r.Record(outcomeOf(noon, 0, alice, refused, nil)) },
		"allowed by rule": func() { r.Record(two.outcome(noon, 0, alice, nil)) },
		"refused by rule": func() { r.Record(by.outcome(noon, 0, alice, nil)) },
		"rules":           func() { r.Rules(noon, 1, noon, []string{"a", "b"}, nil) },
	} {
		record()
		if n := testing.AllocsPerRun(100, record); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

// A flood of refusals does not increase the log: 40,000 refusals in a second cause at most twenty
// lines. The sum of these lines is exact.
func TestRecorder_flood(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 0, alice, allowed, nil))
	l.bytes = 0
	const n = 40_000
	shadowed := limiter.Decision{Allowed: true, Shadowed: limit("tried")}
	for i := range n {
		from := caller.Caller{IP: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)}
		if i%4 == 0 {
			from = caller.Caller{User: fmt.Sprint("user", i%80)}
		}
		at := noon.Add(time.Duration(i) * time.Microsecond)
		r.Record(outcomeOf(at, 0, from, refused, nil))
		r.Record(outcomeOf(at, 0, from, shadowed, nil))
	}
	if l.bytes != 0 {
		t.Errorf("got %d bytes within a second, want 0", l.bytes)
	}
	r.Record(outcomeOf(noon.Add(time.Second), 0, alice, allowed, nil))
	sums, names := map[string]int64{}, map[string]bool{}
	for i, m := range l.refused {
		sums[m.Kind] += m.Count
		if rest := i >= 18; rest != (m.Subject == "") || rest != (m.Limit == "") || !rest && m.Count < n/80 || names[m.Subject] && !rest {
			t.Errorf("line %d: got %+v, want a subject and a limit in all lines but the last two, and each subject once", i+1, m)
		}
		names[m.Subject] = true
	}
	if len(l.metrics) != 2 || l.metrics[1].counts["Refused"] != n || len(l.refused) != 20 || l.bytes > 5000 {
		t.Fatalf("got %d and %d lines, %d bytes: %+v, want 2 and 20 lines of at most 5000 bytes", len(l.metrics), len(l.refused), l.bytes,
			l.refused)
	}
	// Each of the 18 callers has a second pair of counts, which is in the lines of the next seconds.
	for second := 2; second < 40 && len(l.refused) > 0; second++ {
		l.refused = nil
		r.Record(outcomeOf(noon.Add(time.Duration(second)*time.Second), 0, alice, allowed, nil))
		for _, m := range l.refused {
			sums[m.Kind] += m.Count
		}
	}
	if sums["refused"] != n || sums["shadowed"] != n {
		t.Errorf("sums of the lines: got %v, want %d of each kind", sums, n)
	}
}

// A thousand callers are counted separately until the next write. Further callers are counted
// together.
func TestRecorder_manyCallers(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 0, alice, allowed, nil))
	for i := range 1000 {
		r.Record(outcomeOf(noon, 0, caller.Caller{User: fmt.Sprint(i)}, refused, nil))
	}
	for range 50 {
		r.Record(outcomeOf(noon, 0, alice, refused, nil))
	}
	r.Record(outcomeOf(noon, 0, caller.Caller{User: "7"}, refused, nil))
	r.Record(outcomeOf(noon.Add(time.Second), 0, alice, allowed, nil))
	seven := telemetry.DecisionLine{Kind: "refused", Time: noon, Subject: hash(limiter.User("7")), Rule: "GET /search", Limit: "search",
		Count: 2}
	rest := telemetry.DecisionLine{Kind: "refused", Time: noon, Count: 982 + 50}
	if len(l.refused) != 19 || l.refused[0] != seven || l.refused[18] != rest {
		t.Errorf("got %+v, want first %+v and last %+v", l.refused, seven, rest)
	}
	r.Record(outcomeOf(noon.Add(2*time.Second), 0, alice, refused, nil))
	if last := l.refused[len(l.refused)-1]; last.Subject != hash(limiter.User("alice")) || last.Count != 1 {
		t.Errorf("got %+v, want alice counted separately again", last)
	}
}

// A line has the numbers of the last refusal. A caller has one line a second: that of its limit with the most
// refusals. The counts of its other limits are in the lines of the next seconds. A line contains only the hash of
// the caller, and the pattern of the rule.
func TestRecorder_refused(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 0, caller.Caller{}, allowed, nil))
	record := func(n int, from caller.Caller, d limiter.Decision) {
		for i := range n {
			r.Record(outcomeOf(noon.Add(time.Duration(i)*time.Millisecond), 0, from, d, nil))
		}
	}
	elsewhere := alice
	elsewhere.IP, elsewhere.IPFrom = netip.MustParsePrefix("2001:db8::/64"), "weir"
	record(4, alice, refused)
	record(3, elsewhere, limiter.Decision{Limit: refused.Limit, Capacity: 20, Remaining: 1, RetryAfter: 1500*time.Millisecond + 1})
	record(6, alice, limiter.Decision{Limit: limit("address")})
	record(5, caller.Caller{APIKey: "k1", IP: alice.IP}, refused)
	record(3, caller.Caller{IP: alice.IP}, refused)
	record(1, caller.Caller{IP: alice.IP}, limiter.Decision{Allowed: true, Shadowed: limit("tried")})
	record(2, caller.Caller{}, limiter.Decision{})
	user, key, address := hash(limiter.User("alice")), hash(limiter.APIKey("k1")), hash(limiter.IP(alice.IP))
	line := func(kind string, after int, subject, limit string, n int64) telemetry.DecisionLine {
		return telemetry.DecisionLine{Kind: kind, Time: noon.Add(time.Duration(after) * time.Millisecond), Subject: subject, Rule: "GET /search",
			Limit: limit, Count: n}
	}
	search := line("refused", 3, user, "search", 7)
	search.Capacity, search.Remaining, search.RetryAfter, search.AddressFrom = 20, 1, 1.5, "weir"
	tried := line("shadowed", 0, address, "tried", 1)
	tried.Capacity = 1
	unknown := line("refused", 1, hash(limiter.IP(netip.Prefix{})), "", 2)
	unknown.Rule = ""
	for second, want := range [][]telemetry.DecisionLine{
		1: {search, line("refused", 4, key, "search", 5), line("refused", 2, address, "search", 3), unknown},
		2: {line("refused", 5, user, "address", 6), tried},
		3: nil,
	} {
		if second == 0 {
			continue
		}
		l.refused = nil
		r.Record(outcomeOf(noon.Add(time.Duration(second)*time.Second), 0, caller.Caller{}, allowed, nil))
		if !slices.Equal(l.refused, want) {
			t.Errorf("second %d:\n got %+v\nwant %+v", second, l.refused, want)
		}
	}
}

// If several limits have refused a caller equally often, enforced limits come before shadow limits, and later refusals
// before earlier ones.
func TestRecorder_equalCounts(t *testing.T) {
	for range 20 { // the order of a map is random
		l := newLog(t)
		r := telemetry.New(l, "dev", hash)
		r.Record(outcomeOf(noon, 0, alice, allowed, nil))
		r.Record(outcomeOf(noon, 0, alice, limiter.Decision{Limit: limit("early")}, nil))
		r.Record(outcomeOf(noon.Add(2), 0, alice, limiter.Decision{Allowed: true, Shadowed: limit("tried")}, nil))
		r.Record(outcomeOf(noon.Add(1), 0, alice, limiter.Decision{Limit: limit("late")}, nil))
		for second := range time.Duration(3) {
			r.Flush(noon.Add((second + 1) * time.Second))
		}
		var got []string
		for _, line := range l.refused {
			got = append(got, line.Limit)
		}
		if want := []string{"late", "early", "tried"}; !slices.Equal(got, want) {
			t.Fatalf("lines of limits: got %v, want %v", got, want)
		}
	}
}

// Flush writes what waits without a further request, and at most once a second.
func TestRecorder_Flush(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	lines := func(after time.Duration, want int) {
		t.Helper()
		r.Flush(noon.Add(after))
		if len(l.metrics) != want || len(l.refused) != want {
			t.Errorf("after %s: got %d and %d lines, want %d of each", after, len(l.metrics), len(l.refused), want)
		}
	}
	lines(0, 0)
	r.Record(outcomeOf(noon, 0, alice, refused, nil))
	for range 40 {
		r.Record(outcomeOf(noon, 0, alice, refused, nil))
	}
	r.Record(outcomeOf(noon, 0, alice, limiter.Decision{Limit: limit("day")}, nil))
	lines(time.Second-1, 1)
	lines(time.Second, 2)
	lines(2*time.Second-1, 2)
	lines(2*time.Second, 3) // the second limit of a caller
	if search, day := l.refused[1], l.refused[2]; search.Count != 40 || day.Count != 1 || day.Limit != "day" {
		t.Errorf("lines of the flushes: got %+v and %+v, want 40 refusals and 1", search, day)
	}
	lines(time.Hour, 3)
	var none *telemetry.Recorder
	none.Flush(noon)
}

// FlushAll writes all that waits, also within a second of the last write.
func TestRecorder_FlushAll(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Record(outcomeOf(noon, 0, alice, allowed, nil))
	for _, limits := range [][]string{{"day", "hour", "day"}, {"day"}} {
		l.refused = nil
		for _, name := range limits {
			r.Record(outcomeOf(noon.Add(1), 0, alice, limiter.Decision{Limit: limit(name)}, nil))
		}
		for range 2 { // the second call has nothing to write
			r.FlushAll(noon.Add(2))
		}
		var refused int64
		for _, line := range l.refused {
			refused += line.Count
		}
		if refused != int64(len(limits)) || l.refused[0].Limit != "day" {
			t.Errorf("%q: got the lines %+v, want all refusals", limits, l.refused)
		}
	}
	var none *telemetry.Recorder
	none.FlushAll(noon)
}

var hash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))

// The hash of a subject depends on a key. Without the key, a list of addresses or users does not reveal
// the subject of a hash.
func TestNewSubjectHash(t *testing.T) {
	key, subject := []byte("0123456789abcdef"), limiter.User("alice")
	got := telemetry.NewSubjectHash("dev", key)(subject)
	if want := "0dd2b727b938945c"; got != want {
		t.Errorf("got %s, want %s, because the hashes in logs must stay the same", got, want)
	}
	unkeyed := sha256.Sum256([]byte("dev/user:alice"))
	for name, other := range map[string]string{
		"another namespace": telemetry.NewSubjectHash("prod", key)(subject),
		"another key":       telemetry.NewSubjectHash("dev", []byte("0123456789abcdeF"))(subject),
		"another subject":   telemetry.NewSubjectHash("dev", key)(limiter.APIKey("alice")),
		"no key":            telemetry.NewSubjectHash("dev", nil)(subject),
		"a plain hash":      hex.EncodeToString(unkeyed[:8]),
	} {
		if other == got {
			t.Errorf("%s: got the same hash, want another", name)
		}
	}
	// A random key replaces a missing or short key.
	for _, short := range [][]byte{nil, {}, []byte("0123456789abcde")} {
		one, two := telemetry.NewSubjectHash("dev", short), telemetry.NewSubjectHash("dev", short)
		if one(subject) == two(subject) {
			t.Errorf("key %q: got the same hash in two processes, want different hashes", short)
		}
	}
	hash := telemetry.NewSubjectHash("dev", key)
	key[0] = 'x'
	if hash(subject) != got {
		t.Error("change of the key after the call: got another hash, want the hash of the copied key")
	}
}

// Lines are at most as large as the documentation of package telemetry states.
func TestRecorder_size(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "prod", nil)
	size := func(what string, most int) {
		t.Helper()
		t.Logf("%s: %d bytes", what, l.bytes)
		if l.bytes > most || l.bytes < most*8/10 {
			t.Errorf("%s: got %d bytes, want at most %d as documented", what, l.bytes, most)
		}
		l.bytes = 0
	}
	labels := []string{"GET /api/v1/search", "POST /api/v1/data", "GET /api/v1/items/{id}", "address"}
	r.Rules(noon, 1772625600, time.Time{}, labels, nil)
	usual := through(labels[0], labels[3])
	usual.StoreCalls, usual.StoreTime = 2, 4567*time.Microsecond
	r.Record(usual.outcome(noon, 5678*time.Microsecond, alice, nil))
	size("one decision", 640)
	for range 99 {
		r.Record(usual.outcome(noon, 5678*time.Microsecond, alice, nil))
	}
	r.Record(usual.outcome(noon.Add(time.Second), 5678*time.Microsecond, alice, nil))
	size("a hundred and more", 1250)
	long := make([]string, 20)
	for i := range long {
		long[i] = fmt.Sprint(i, strings.Repeat("é", 1000))
	}
	r.Rules(noon.Add(time.Second), 1772625600, noon.Add(-time.Hour), long, nil)
	longest := limit(strings.Repeat("a", 32))
	longest.Rule = long[19]
	for i := range 20_000 {
		from := caller.Caller{User: fmt.Sprint(i % 1000)}
		d := refusedBy(long[i%20])
		d.StoreCalls, d.StoreTime, d.FromCache, d.Shadowed, d.Clamped, d.Overshoot = 2, 899_999*time.Microsecond, true, d.Limit, 3, 1e9
		d.Refunds = limiter.Refunds{Given: 3, Dropped: 4}
		r.Record(d.outcome(noon.Add(time.Second), 899_999*time.Microsecond, from, nil))
		d.Limit, d.Capacity, d.Remaining, d.RetryAfter, d.Shadowed = longest, 1e9, 1e9, 999_999_999*time.Millisecond, nil
		r.Record(d.outcome(noon.Add(time.Second), 899_999*time.Microsecond, from, nil))
		r.Record(d.outcome(noon.Add(time.Second), 899_999*time.Microsecond, from, nil))
		r.Record(outcomeOf(noon.Add(time.Second), 899_999*time.Microsecond, from, limiter.Decision{Allowed: true, Reason: limiter.ReasonTimeout},
			nil))
		r.Record(outcomeOf(noon.Add(time.Second), 0, from, allowed, caller.ErrInvalidCredential))
		r.Record(outcomeOf(noon.Add(time.Second), 0, from, allowed, caller.ErrUnverified))
	}
	r.Record(usual.outcome(noon.Add(3*time.Second), 0, alice, nil))
	size("everything", 9000)
}

// stuck blocks in Write until the test releases it.
type stuck struct{ took, write chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	s.took <- struct{}{}
	<-s.write
	return len(b), nil
}

// A slow log delays only the request that writes to it.
func TestRecorder_slowLog(t *testing.T) {
	s := stuck{make(chan struct{}), make(chan struct{})}
	r := telemetry.New(s, "dev", nil)
	done := make(chan struct{}, 2)
	record := func(after time.Duration) {
		r.Record(outcomeOf(noon.Add(after), 0, alice, allowed, nil))
		done <- struct{}{}
	}
	go record(0)
	<-s.took
	go record(time.Millisecond)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a request waited for the line of another request, want no wait")
	}
	close(s.write)
	<-done
}

func outcomeOf(now time.Time, took time.Duration, from caller.Caller, d limiter.Decision, err error) telemetry.Outcome {
	return telemetry.Outcome{Time: now, Duration: took, Caller: from, Decision: d, Err: err}
}

func TestOutcome_Class(t *testing.T) {
	allowed, failed := limiter.Decision{Allowed: true}, limiter.Decision{Failed: true}
	for _, c := range []struct {
		o    telemetry.Outcome
		want telemetry.Class
	}{
		{telemetry.Outcome{}, telemetry.ClassRefused},
		{telemetry.Outcome{Decision: allowed}, telemetry.ClassAllowed},
		{telemetry.Outcome{Decision: failed}, telemetry.ClassFailed},
		{telemetry.Outcome{Decision: allowed, Err: fmt.Errorf("token: %w", caller.ErrInvalidCredential)}, telemetry.ClassUnauthorized},
		{telemetry.Outcome{Decision: allowed, Err: caller.ErrMissingCredential}, telemetry.ClassUnauthorized},
		{telemetry.Outcome{Decision: allowed, Err: caller.ErrUnverified}, telemetry.ClassFailed},
		{telemetry.Outcome{Err: errors.New("unreadable event")}, telemetry.ClassFailed},
	} {
		if got := c.o.Class(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.o, got, c.want)
		}
	}
}
