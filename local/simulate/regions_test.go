package simulate

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
)

func plannedRegions(t *testing.T, p Parameters, only string) []Scenario {
	t.Helper()
	p.Regions = 3
	plan, err := PlanRegions(p, regexp.MustCompile(only))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Three regions, 120 ms apart, admit almost what one store admits, and never more, with few calls between them.
func TestPlanRegions_figures(t *testing.T) {
	figures := []struct {
		traffic string
		// least is what they admit at least, in percent of one store, and most the calls between regions per request: of a
		// fixed and of a sliding window.
		least, most [2]float64
	}{
		{"1,000 a minute, *, 90 %: one region", [2]float64{99.9, 99.9}, [2]float64{0.005, 0.04}},
		{"1,000 a minute, *, 200 %: one region", [2]float64{99.9, 99.4}, [2]float64{0.05, 0.26}},
		{"1,000 a minute, *, 90 %: 80/15/5 %", [2]float64{99.9, 99.9}, [2]float64{0.007, 0.03}},
		{"1,000 a minute, *, 90 %: even", [2]float64{99.9, 99.9}, [2]float64{0.002, 0.005}},
		{"1,000 a minute, *, 200 %: even", [2]float64{99.9, 99.5}, [2]float64{0.11, 0.21}},
		{"60 a minute, *, 90 %: one region", [2]float64{99.5, 98}, [2]float64{0.1, 0.5}},
		{"5 a minute, *, 90 %: one region", [2]float64{99.5, 75}, [2]float64{0.7, 1.4}},
		{"100 a second, *, 90 %: one region", [2]float64{99, 95}, [2]float64{0.07, 0.18}},
		{"100 a second, *, 90 %: 80/15/5 %", [2]float64{98, 95}, [2]float64{0.1, 0.17}},
	}
	for _, f := range figures {
		for i, algorithm := range []string{"fixed_window", "sliding_window"} {
			p := Default(DynamoDB)
			p.Distance = 120 * time.Millisecond
			name := strings.Replace(f.traffic, "*", algorithm, 1)
			s := plannedRegions(t, p, "^"+regexp.QuoteMeta(name)+"$")[0]
			s.Measured /= 5
			r := simulated(t, s)
			part, calls := 100*ratio(r.admitted(), r.Oracle), ratio(r.RegionCalls, r.Requests)
			t.Logf("%s: %.2f %% of one store, %.4f calls between regions", name, part, calls)
			if r.Over != 0 || part < f.least[i] || calls > f.most[i] {
				t.Errorf("%s: got %d above the limit, %.2f %% of one store and %.4f calls between regions, want 0, at least %.1f %% and at most %.3f",
					name, r.Over, part, calls, f.least[i], f.most[i])
			}
		}
	}
}

// minutes are the requests of three regions in each minute.
type minutes [11]struct{ offered, admitted [3]int }

func minutesOf(t *testing.T, s Scenario) (m minutes, r Result) {
	t.Helper()
	sim, err := newSimulation(&s)
	if err != nil {
		t.Fatal(err)
	}
	sim.record = func(r *request) {
		minute, region := &m[r.at.Sub(sim.start)/time.Minute], sim.all[r.environment].region
		if minute.offered[region]++; r.admitted {
			minute.admitted[region]++
		}
		sim.count(r)
	}
	if err := sim.openStore(); err != nil {
		t.Fatal(err)
	}
	if err := sim.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return m, sim.result()
}

// One of three regions is cut off for seven minutes. It admits its share, and the others theirs and what they can move. All together
// never admit more than one store. The window after the cut is as before.
func TestRun_regionsCut(t *testing.T) {
	for _, s := range plannedRegions(t, Default(DynamoDB), "cut off$") {
		first := strings.Contains(s.Name, "first")
		s.rejoins, s.Measured = 7*time.Minute+20*time.Second, 10*time.Minute
		m, r := minutesOf(t, s)
		if r.Over != 0 {
			t.Errorf("%s: got %d above the limit, want none", s.Name, r.Over)
		}
		for n, minute := range m {
			got, of := minute.admitted, minute.offered
			wrong := got[0]+got[1]+got[2] > 1000 || got[2] != of[2]
			switch cut := n >= 1 && n <= 7; {
			case cut && first: // the base share of 334
				wrong = wrong || got[0] > 334 || got[0] < 330 || got[1] != of[1]
			case cut: // the first two have base shares of 334 and 333
				wrong = wrong || got[0]+got[1] > 667 || got[0]+got[1] < 645
			case n != 8: // not the minute in which the cut ends
				wrong = wrong || got[0] < of[0]*98/100 || got[1] != of[1]
			}
			if wrong {
				t.Errorf("%s, minute %d: got %v of %v admitted", s.Name, n, got, of)
			}
		}
	}
}

// Regions have the same result on any number of processors, and another one with another seed.
func TestRun_regionsDeterministic(t *testing.T) {
	for _, s := range plannedRegions(t, Default(DynamoDB), "^100 a second, .*: 80/15/5 %$") {
		s.Environments, s.Measured = 20, 3*time.Second
		first := simulated(t, s)
		again, err := Run(t.Context(), s, 3, nil)
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%s: got %+v on one processor and %+v, %v on three, want equal results", s.Name, first, again, err)
		}
		if s.Seed++; reflect.DeepEqual(simulated(t, s), first) {
			t.Errorf("%s: got the same result with a different seed, want a different result", s.Name)
		}
	}
}

// Regions share the limits of a document. A rule with another limit has no row.
func TestPlanRules_regions(t *testing.T) {
	const document = `{"rules":[
		{"endpoint":"/a","limits":{"*":{"requests":30,"window":"2s","algorithm":"fixed_window","regions":"shared"}}},
		{"endpoint":"/b","limits":{"global":{"name":"all","requests":300,"window":"2s","regions":"shared"}}},
		{"endpoint":"/c","limits":{"*":{"requests":30,"window":"2s"}}}]}`
	r, err := rules.Parse([]byte(document), rules.Options{Regions: algo.Regions{Of: 2}})
	if err != nil {
		t.Fatal(err)
	}
	p := unset(DynamoDB)
	p.Regions, p.Rate, p.Callers = 2, 200, 10
	plan, err := PlanRules(p, Answers{}, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range plan {
		names = append(names, s.Name)
		if got := simulated(t, s); got.Over != 0 || got.Allowed == 0 || got.Refused == 0 || got.RegionCalls == 0 {
			t.Errorf("%s: got %d above the limit, %d admitted, %d refused and %d calls between regions, want none above and some of the others", s.Name, got.Over, got.Allowed, got.Refused, got.RegionCalls)
		}
	}
	if got := strings.Join(names, "; "); !strings.HasPrefix(got, "/a, *: one region; /a, *: 80/15/5 %; /a, *: even; ") || len(names) != 10 || strings.Contains(got, "/c") {
		t.Errorf("got the rows %s, want five each of /a and /b", got)
	}
}

func TestPlanRegions_mistakes(t *testing.T) {
	for want, change := range map[string]func(*Parameters){
		"regions: got 1, want 2 to 10, or 0 for one region":                                               func(p *Parameters) { p.Regions = 1 },
		"regions: got the store elasticache, want dynamodb: no other store can move share":                func(p *Parameters) { p.Store = ElastiCache },
		"edge: got 1s, want 0: a distribution never refuses for limits that regions share":                func(p *Parameters) { p.Edge = time.Second },
		"distance: got 1s, want 0 to 300ms":                                                               func(p *Parameters) { p.Distance = time.Second },
		`names: got "none", want part of a name such as "1,000 a minute, fixed_window, 90 %: one region"`: func(*Parameters) {},
	} {
		p := Default(DynamoDB)
		p.Regions = 3
		if change(&p); p.Regions == 0 {
			t.Fatal(want)
		}
		if _, err := PlanRegions(p, regexp.MustCompile("none")); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
