package telemetry_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

func of(rule string) *limiter.Limit {
	l := *limit("a")
	l.Rule = rule
	return &l
}

// decided is a decision and the charges of its request.
type decided struct {
	limiter.Decision
	charges []limiter.Charge
}

func (d decided) outcome(now time.Time, took time.Duration, from caller.Caller, err error) telemetry.Outcome {
	o := outcomeOf(now, took, from, d.Decision, err)
	o.Charges = d.charges
	return o
}

// through returns a decision that is allowed by limits of these rules. refusedBy returns a decision that the last of
// the rules refuses.
func through(rules ...string) (d decided) {
	d.Allowed = true
	for _, rule := range rules {
		d.charges = append(d.charges, limiter.Charge{Subject: limiter.User("alice"), Limit: of(rule), Cost: 1})
	}
	return d
}

func refusedBy(rules ...string) decided {
	d := through(rules...)
	d.Allowed, d.Limit = false, d.charges[len(rules)-1].Limit
	return d
}

func (l *log) byRule() map[string]counts {
	sums := map[string]counts{}
	for _, m := range l.metrics {
		for name, n := range m.counts {
			if m.rule == "" || !strings.HasPrefix(name, "Rule") || strings.HasPrefix(name, "Rules") {
				continue
			}
			if sums[m.rule] == nil {
				sums[m.rule] = counts{}
			}
			sums[m.rule][name] += n
		}
	}
	return sums
}

// An allowed request counts once for each rule that charged it. A refused request counts for the rule
// that refused it.
func TestRecorder_byRule(t *testing.T) {
	shadowed := through("GET /a", "*")
	shadowed.Shadowed = of("*")
	failed := refusedBy("*")
	failed.Failed = true
	nobody := refusedBy("*")
	nobody.Limit = nil
	for _, c := range []struct {
		name     string
		decision decided
		err      error
		want     map[string]counts
	}{
		{"allowed", through("GET /a", "*"), nil, map[string]counts{"GET /a": {"RuleAllowed": 1, "RuleRefused": 0},
			"*": {"RuleAllowed": 1, "RuleRefused": 0}}},
		{"by two limits of a rule", through("GET /a", "GET /a"), nil, map[string]counts{"GET /a": {"RuleAllowed": 1, "RuleRefused": 0}}},
		{"refused", refusedBy("GET /a", "*"), nil, map[string]counts{"*": {"RuleAllowed": 0, "RuleRefused": 1}}},
		{"shadow mode", shadowed, nil, map[string]counts{"GET /a": {"RuleAllowed": 1, "RuleRefused": 0}, "*": {"RuleAllowed": 1, "RuleRefused": 0,
			"RuleShadowed": 1}}},
		{"no rule", through(), nil, map[string]counts{}},
		{"two other rules", through("x", "y"), nil, map[string]counts{"(others)": {"RuleAllowed": 1, "RuleRefused": 0}}},
		{"bad credential", through("*"), caller.ErrInvalidCredential, map[string]counts{}},
		{"the store failed", failed, nil, map[string]counts{}},
		{"no limit to show", nobody, nil, map[string]counts{}},
	} {
		l := newLog(t)
		r := telemetry.New(l, "dev", hash)
		r.Rules(noon, 1, time.Time{}, []string{"GET /a", "*"}, nil)
		r.Record(c.decision.outcome(noon, 0, alice, c.err))
		// This call writes a line with the counts of the second rule, because each line has room for only
		// one rule.
		r.RulesRefused(noon.Add(time.Second))
		if got := l.byRule(); !maps.EqualFunc(got, c.want, maps.Equal) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	l := newLog(t)
	telemetry.New(l, "dev", hash).Record(through("GET /a").outcome(noon, 0, alice, nil))
	l.want(line{at: noon, counts: counts{"Allowed": 1, "Refused": 0, "Latency": 1}})
}

// A line has room for one rule, so the rules take turns. Counts that have waited for a minute get separate lines with
// the time of the counts.
func TestRecorder_byRule_rotation(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Rules(noon, 1, time.Time{}, []string{"a", "b", "c"}, nil)
	want := func(at time.Time, totals float64, rule string, n float64) {
		t.Helper()
		if len(l.metrics) == 0 {
			t.Fatalf("got no line of rule %q, want one", rule)
		}
		got := l.metrics[0]
		l.metrics = l.metrics[1:]
		if !got.at.Equal(at) || got.counts["Allowed"] != totals || got.rule != rule || got.counts["RuleAllowed"] != n {
			t.Errorf("got %+v, want %q at %s: %v of %v", got, rule, at, n, totals)
		}
	}
	record := func(after time.Duration, rules ...string) time.Time {
		r.Record(through(rules...).outcome(noon.Add(after), 0, alice, nil))
		return noon.Add(after)
	}
	at := record(0, "a", "b", "c")
	want(at, 1, "b", 1) // a line with the second rule; the counts of a and c wait for the next lines
	record(time.Millisecond, "a", "c")
	at = record(time.Second, "b")
	want(at, 2, "c", 2)
	at = record(2*time.Second, "c")
	want(at, 1, "a", 2)
	last := record(2*time.Second+5*time.Millisecond, "a")
	at = record(3*time.Hour, "c")
	want(last, 1, "b", 1)
	want(last, 0, "c", 1)
	want(last, 0, "a", 1)
	want(at, 1, "c", 1)
	at = record(4*time.Hour, "a")
	want(at, 1, "a", 1)
	left := record(5*time.Hour, "b", "c")
	want(left, 1, "b", 1)
	at = record(6*time.Hour, "a")
	want(left, 0, "c", 1) // the waiting count of c, with the time of the last request before the pause
	want(at, 1, "a", 1)
	if len(l.metrics) != 0 {
		t.Errorf("got lines %+v, want no more", l.metrics)
	}
}

func TestRecorder_byRule_cap(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	var labels []string
	for i := range 1000 {
		labels = append(labels, fmt.Sprintf("GET /%d", i))
	}
	flush := func(hour int) map[string]counts {
		for second := range 12 {
			r.RulesRefused(noon.Add(time.Duration(hour)*time.Hour + time.Duration(second)*time.Second))
		}
		defer func() { l.metrics = nil }()
		return l.byRule()
	}
	r.Rules(noon, 1, time.Time{}, labels, nil)
	for _, label := range labels {
		r.Record(through(label).outcome(noon, 0, alice, nil))
		r.Record(refusedBy(label).outcome(noon, 0, alice, nil))
	}
	got := flush(1)
	for i, label := range append(labels[:10:10], "(others)") {
		if want := map[bool]float64{false: 1, true: 990}[i == 10]; got[label]["RuleAllowed"] != want || got[label]["RuleRefused"] != want {
			t.Errorf("%s: got %v, want %v of each", label, got[label], want)
		}
	}
	if len(got) != 11 {
		t.Errorf("got %d names, want 11: %v", len(got), got)
	}
	r.Record(outcomeOf(noon.Add(2*time.Hour), 0, alice, allowed, nil)) // the counts of this request wait for the next line
	for _, label := range labels[:3] {
		r.Record(through(label).outcome(noon.Add(2*time.Hour), 0, alice, nil))
	}
	r.Rules(noon.Add(2*time.Hour), 2, time.Time{}, []string{"GET /2", "new"}, nil)
	r.Record(through("new").outcome(noon.Add(2*time.Hour), 0, alice, nil))
	want := map[string]counts{"GET /2": {"RuleAllowed": 1, "RuleRefused": 0}, "new": {"RuleAllowed": 1, "RuleRefused": 0},
		"(others)": {"RuleAllowed": 2, "RuleRefused": 0}}
	if got := flush(3); !maps.EqualFunc(got, want, maps.Equal) {
		t.Errorf("after a change: got %v, want %v", got, want)
	}
}

// Rule names are printable ASCII, and different rules have different names.
func TestRecorder_byRule_names(t *testing.T) {
	long := "GET /" + strings.Repeat("x", 1024)
	labels := []string{"GET /ä", "GET /ö", long + "1", long + "2", "(others)", " ", "GET /a\nb", "GET /a?b"}
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	r.Rules(noon, 1, time.Time{}, labels, nil)
	for i, label := range append(labels, "another") {
		r.Record(through(label).outcome(noon.Add(time.Duration(i)*time.Second), 0, alice, nil))
	}
	if got := l.byRule(); len(got) != len(labels)+1 || got["GET /a?b"] == nil || got["(others)"]["RuleAllowed"] != 1 {
		t.Errorf("got %d names, want %d: %v", len(got), len(labels)+1, got)
	}
}

// Each concurrent request is counted once for its rule.
func TestRecorder_byRule_concurrent(t *testing.T) {
	l := newLog(t)
	r := telemetry.New(l, "dev", hash)
	const workers, each = 8, 2000
	decisions := make([]decided, 20)
	labels := make([]string, len(decisions))
	for i := range decisions {
		labels[i] = fmt.Sprint("rule ", i)
		decisions[i] = through(labels[i])
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				at := noon.Add(time.Duration(i) * 10 * time.Millisecond)
				r.Rules(at, 1, time.Time{}, labels, nil)
				r.Record(decisions[(i+w)%20].outcome(at, 0, alice, nil))
			}
		})
	}
	wg.Wait()
	r.RulesRefused(noon.Add(time.Hour))
	got := l.byRule()
	for i, label := range append(labels[:10:10], "(others)") {
		if want := map[bool]float64{false: workers * each / 20, true: workers * each / 2}[i == 10]; got[label]["RuleAllowed"] != want {
			t.Errorf("%s: got %v, want %v", label, got[label], want)
		}
	}
}
