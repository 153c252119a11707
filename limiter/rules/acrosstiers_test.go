package rules_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A caller that changes tier keeps its usage of a limit with across_tiers, also with an override, and in a tier that a rule
// does not name. The field itself begins a new count.
func TestParse_acrossTiers(t *testing.T) {
	text := string(storetest.Must(os.ReadFile("testdata/good/across_tiers.json")))
	before := storetest.Must(rules.Parse([]byte(strings.ReplaceAll(text, `,"across_tiers":true`, "")), rules.Options{Version: 1}))
	after := storetest.Must(rules.Parse([]byte(text), rules.Options{Version: 2}))
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for i, step := range []struct {
		rules     *rules.Rules
		path      string
		user      string
		tier      string
		remaining int64
	}{
		{before, "/a", "alice", "free", 49},
		{before, "/a", "alice", "paid", 199}, // a new count
		{after, "/a", "alice", "paid", 199},
		{after, "/b", "alice", "free", 48},
		{after, "/a", "alice", "gold", 7},
		{after, "/a", "alice", "paid", 196},
		{after, "/a", "vip", "free", 499},
		{after, "/a", "vip", "paid", 498},
		{after, "/c", "bob", "free", 4},
		{after, "/c", "bob", "paid", 7},
		{after, "/c", "bob", "free", 2},
		{after, "/d", "bob", "free", 4},
		{after, "/d", "bob", "paid", 7},
		{after, "/d", "bob", "free", 2},
	} {
		charges := step.rules.Charges(nil, "GET", rules.EncodedPath(step.path), caller.Caller{User: step.user, Tier: step.tier})
		if d, err := l.Take(t.Context(), start, charges); err != nil || !d.Allowed || d.Remaining != step.remaining {
			t.Errorf("step %d: got %+v, error %v, want %d remaining", i, d, err, step.remaining)
		}
	}
	if restarts, _ := rules.Moved(before, after); len(restarts) != 3 {
		t.Errorf("counts that restart: got %q, want one of each rule", restarts)
	}
}

// overlap is a caller whose record gets another tier and other numbers while the rules change too. Environments take the
// changes at different times.
type overlap struct {
	*rand.Rand
	rules    [2]*rules.Rules
	callers  [2]caller.Caller
	admitted map[algo.Instant]int64
}

func newOverlap(t *testing.T, seed uint64) *overlap {
	o := &overlap{Rand: rand.New(rand.NewPCG(seed, 3)), admitted: map[algo.Instant]int64{}}
	rate := []string{`"window":"1h","algorithm":"fixed_window"`, `"window":"1h"`, `"period":"month"`,
		`"requests":10,"window":"1h","algorithm":"token_bucket"`}[seed%4]
	field, record := "requests", []string{"x=%d/1h", "x=%d/1h", "x=%d anchor=15", "x=%d/1h"}[seed%4]
	if seed%4 == 3 {
		field = "burst"
	}
	for i := range o.rules {
		if i == 1 && seed%4 < 2 && o.IntN(2) == 0 {
			rate = strings.Replace(rate, "1h", "3h", 1)
		}
		if i == 1 && seed%4 == 3 && o.IntN(2) == 0 {
			rate = strings.Replace(rate, "10", []string{"4", "20", "60"}[o.IntN(3)], 1)
		}
		text := `{"rules":[{"endpoint":"*","limits":{`
		for _, tier := range []string{"free", "paid", "gold"} {
			text += fmt.Sprintf(`%q:{"name":"x",%s,%q:%d,"per":["client"],"across_tiers":true},`, tier, rate, field, 5+o.IntN(36))
		}
		o.rules[i] = storetest.Must(rules.Parse([]byte(strings.TrimSuffix(text, ",")+`}}]}`), rules.Options{Version: int64(i + 1)}))
		o.callers[i] = caller.Caller{APIKey: "acme", Tier: []string{"free", "paid", "gold"}[o.IntN(3)]}
		if o.IntN(2) == 0 {
			o.callers[i].Limits = limitsOf(t, int64(5+i), fmt.Sprintf(record, 5+o.IntN(36)))
		}
	}
	if o.callers[1].Limits == nil {
		o.callers[1].Limits = limitsOf(t, 6, "")
	}
	return o
}

// charge returns the charge of an environment with these rules and this record, for its tier or another one.
func (o *overlap) charge(of, record int, tier string) limiter.Charge {
	who := o.callers[record]
	who.Tier = cmp.Or(tier, who.Tier)
	return o.rules[of].Charges(nil, "GET", rules.EncodedPath("/"), who)[0]
}

// used returns what was admitted since an instant.
func (o *overlap) used(since algo.Instant) (n int64) {
	for at, cost := range o.admitted {
		if at >= since {
			n += cost
		}
	}
	return n
}

// bounds returns the smallest number of all tiers, the largest number of a tier, and the largest count of that tier that
// can be right, in the windows of the old rules or of the new ones.
func (o *overlap) bounds(now algo.Instant, tier string) (least, most, count int64) {
	least, count = math.MaxInt64, math.MaxInt64
	for i := range 4 {
		for _, other := range []string{"free", "paid", "gold"} {
			m := o.charge(i/2, i%2, other).Limit.Machine()
			least = min(least, m.Capacity())
			if other != tier {
				continue
			}
			most = max(most, m.Capacity())
			if w := algo.WindowOf(m); w != nil {
				count = min(count, o.used(w.Start(w.Index(now))))
			}
		}
	}
	return least, most, count
}

// fastest returns a bucket of the fastest rate of all rules and records.
func (o *overlap) fastest() (judge algo.Bucket) {
	judge.Interval = time.Hour
	for i := range 4 {
		if b, ok := o.charge(i/2, i%2, "").Limit.Machine().(*algo.Bucket); ok {
			judge.Interval = min(judge.Interval, b.Interval)
		}
	}
	return judge
}

// While rules, records and tiers change, judged from outside: no request is admitted above the largest number of its tier,
// and none is refused that is certainly below all numbers.
func TestRules_acrossTiers_overlap(t *testing.T) {
	for seed := range uint64(200) {
		o, store := newOverlap(t, seed), storetest.Must(memstore.New(memstore.Options{}))
		var envs [3]*limiter.Limiter
		for i := range envs {
			envs[i] = storetest.Must(limiter.New(struct{ limiter.Store }{store}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		}
		var views [3][2]int // of each environment: its rules and its record
		judge, debts := o.fastest(), map[string]algo.State{}
		now := start
		for range 150 {
			now = now.Add(time.Duration(o.Int64N(int64(4 * time.Minute))))
			i, cost := o.IntN(3), 1+o.Int64N(3)
			if o.IntN(25) == 0 {
				views[i][o.IntN(2)] = 1
			}
			tier := []string{"", "", "free", "paid"}[o.IntN(4)]
			c := o.charge(views[i][0], views[i][1], tier)
			tier = cmp.Or(tier, o.callers[views[i][1]].Tier)
			c.Cost = cost
			d := storetest.Must(envs[i].Take(t.Context(), now, []limiter.Charge{c}))
			at := algo.InstantOf(now)
			least, most, count := o.bounds(at, tier)
			if !d.Allowed {
				if 2*o.used(0)+cost <= least {
					t.Fatalf("seed %d: %s refused after %d, want admitted: every number is %d or more", seed, tier, o.used(0), least)
				}
				continue
			}
			o.admitted[at] += cost
			if count != math.MaxInt64 && count+cost > most {
				t.Fatalf("seed %d: %s admitted to %d, want at most %d", seed, tier, count+cost, most)
			}
			for _, other := range []string{"free", "paid", "gold"} { // a bucket with the largest burst of the tier has room
				_, judge.Burst, _ = o.bounds(at, other)
				judge.Depth = judge.Increment(judge.Burst)
				if s, ok := judge.Take(debts[other], at, cost); ok || other != tier || algo.WindowOf(c.Limit.Machine()) != nil {
					debts[other] = s
				} else {
					t.Fatalf("seed %d: %s admitted beyond a burst of %d", seed, tier, judge.Burst)
				}
			}
		}
	}
}

// A note names a period whose count a caller loses when it changes tier.
func TestRules_Notes_acrossTiers(t *testing.T) {
	month := func(fields string) string { return `{"name":"x","requests":9,"period":"month"` + fields + `}` }
	const want = `1 rules[0].limits.free: a caller that changes tier starts a new count; "across_tiers": true in every tier keeps its usage`
	for limits, want := range map[string]string{
		`"free":` + month("") + `,"paid":` + month(""):                                         want,
		`"free":` + month("") + `,"*":` + month(""):                                            want,
		`"free":` + month(`,"across_tiers":true`) + `,"paid":` + month(`,"across_tiers":true`): "",
		`"free":` + month("") + `,"global":` + month(`,"per":["client","endpoint"]`):           "",
		`"free":` + month(`,"per":["ip"]`) + `,"paid":` + month(`,"per":["ip"]`):               "",
		`"free":` + month("") + `,"paid":` + strings.Replace(month(""), `"x"`, `"y"`, 1):       "",
		`"free":` + limit + `,"paid":` + limit:                                                 "",
	} {
		if got := strings.Join(notes(t, document(rule("/a", "", limits)), "changes tier"), "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", limits, got, want)
		}
	}
}
