package scenario_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/local/console/scenario"
)

// play runs a scenario with the parameters in query; the others have the defaults of All.
func play[R any](t *testing.T, name, query string) R {
	t.Helper()
	s := find(t, name)
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	if err := scenario.Set(s, values); err != nil {
		t.Fatal(err)
	}
	result, err := s.Play()
	if err != nil {
		t.Fatal(err)
	}
	return result.(R)
}

func find(t *testing.T, name string) scenario.Scenario {
	t.Helper()
	for _, s := range scenario.All() {
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("scenario %s: got none, want one", name)
	return nil
}

// A token bucket admits its burst of 20 at once, and then 10 requests a second.
func TestBucket(t *testing.T) {
	r := play[scenario.BucketResult](t, "bucket", "")
	run := r.Runs[0]
	if run.AtOnce != 20 || run.Admitted != 60 || run.Refused != 30 {
		t.Errorf("requests: got %d at once, %d admitted and %d refused, want 20, 60 and 30", run.AtOnce, run.Admitted, run.Refused)
	}
	// The first second admits 29: the burst of 20, and 9 tokens that are refilled during that
	// second.
	if want := []int{29, 10, 10, 10, 1}; !slices.Equal(run.PerSecond, want) {
		t.Errorf("requests per second: got %v, want %v", run.PerSecond, want)
	}
	if wait := run.Requests[20].RetryAfter; run.Requests[20].Allowed || wait != 100 {
		t.Errorf("request 21: got %+v, want a wait of 100 ms", run.Requests[20])
	}
	if first, last := r.Levels[0], r.Levels[len(r.Levels)-1]; first.Tokens != 20 || last.At != 6000 || last.Tokens != 20 {
		t.Errorf("first level: got %+v, want 20 tokens; last of %d levels: got %+v, want 20 tokens at 6000 ms", first, len(r.Levels), last)
	}
	// Without requests, the bucket gains one token every 100 ms, up to its capacity of 20.
	for i, level := range play[scenario.BucketResult](t, "bucket", "offered=0&burst=20").Levels {
		if want := min(20, int64(i/2)); i > 0 && level.Tokens != want {
			t.Errorf("%v ms: got %d tokens, want %d", level.At, level.Tokens, want)
		}
	}
}

// Around the boundary of two fixed windows of 20, 40 requests are admitted within 150 ms.
func TestBoundary(t *testing.T) {
	for _, c := range []struct {
		query string
		span  scenario.Milliseconds
		want  []int // admitted by the fixed window, the sliding window and the log
	}{
		{"", 150, []int{40, 20, 20}},
		{"limit=100&percent=99", 10, []int{200, 100, 100}},
		{"limit=1&percent=1", 990, []int{2, 1, 1}},
	} {
		r := play[scenario.BoundaryResult](t, "boundary", c.query)
		var got []int
		for _, run := range r.Runs {
			got = append(got, run.Admitted)
			if run.Most != run.Admitted || run.Admitted+run.Refused != len(run.Requests) {
				t.Errorf("%s: got %d admitted, %d refused and at most %d within a second, want all %d requests decided and all admitted ones within "+
					"a second", run.Algorithm, run.Admitted, run.Refused, run.Most, len(run.Requests))
			}
		}
		if r.Span != c.span || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v within %v ms, want %v within %v", c.query, got, r.Span, c.want, c.span)
		}
	}
}

// With a sync interval of 0, three nodes together admit exactly the limit. With an interval as long
// as the window, each node admits the full limit.
func TestSync(t *testing.T) {
	for _, c := range []struct {
		query           string
		admitted, over  int
		perNode         []int
		least, mostCall int
	}{
		{"intervalMs=0", 60, 0, []int{20, 20, 20}, 60, 180},
		{"intervalMs=1000", 180, 120, []int{60, 60, 60}, 3, 3},
		{"intervalMs=400", 132, 72, []int{60, 36, 36}, 9, 9},
		{"intervalMs=400&offered=30", 78, 18, []int{30, 24, 24}, 9, 9},
		{"intervalMs=400&offered=20", 60, 0, []int{20, 20, 20}, 9, 9}, // the nodes together get 60 requests, exactly the limit
		{"intervalMs=1000&nodes=10&offered=300&limit=200", 2000, 1800, nil, 10, 10},
		{"intervalMs=1000&nodes=1", 60, 0, []int{60}, 1, 1},
	} {
		r := play[scenario.SyncResult](t, "sync", c.query)
		if r.Admitted != c.admitted || r.Overshoot != c.over || c.perNode != nil && !slices.Equal(r.PerNode, c.perNode) ||
			r.StoreCalls < c.least || r.StoreCalls > c.mostCall {
			t.Errorf("%s: got %d admitted, %d over the limit, %v per node and %d calls, want %+v", c.query, r.Admitted, r.Overshoot, r.PerNode,
				r.StoreCalls, c)
		}
		if last := r.Steps[len(r.Steps)-1]; len(r.Steps) != 51 || last.At != 1000 || !slices.Equal(last.PerNode, r.PerNode) {
			t.Errorf("%s: got %d steps, the last %+v, want 51 steps, the last at 1000 ms with %v", c.query, len(r.Steps), last, r.PerNode)
		}
		if sweep := r.Sweep; sweep[0].Overshoot != 0 || sweep[0].Interval != 0 || sweep[len(sweep)-1].Interval != 1000 {
			t.Errorf("%s: got the sweep %+v, want intervals from 0 to 1000 ms, and 0 requests over the limit for the interval 0", c.query, sweep)
		}
	}
}

// Every algorithm gets the same arrivals. The token bucket admits 20 at once and then 10 a second.
// The leaky bucket releases one every 100 ms.
func TestAlgorithms(t *testing.T) {
	r := play[scenario.AlgorithmsResult](t, "algorithms", "")
	runs := map[algo.Algorithm]scenario.Run{}
	for _, run := range r.Runs {
		runs[run.Algorithm] = run
		if run.AtOnce != 20 || run.Admitted+run.Refused != 120 {
			t.Errorf("%s: got %d at once, %d admitted and %d refused, want 20 at once and 120 in total", run.Algorithm, run.AtOnce, run.Admitted,
				run.Refused)
		}
	}
	if len(runs) != 5 || r.Window != 2000 {
		t.Fatalf("result: got %d algorithms and windows of %v ms, want 5 and 2000 ms", len(runs), r.Window)
	}
	if token, leaky := runs[algo.TokenBucket], runs[algo.LeakyBucket]; token.Admitted != 80 || leaky.Admitted != 80 || token.Most != 29 {
		t.Errorf("admitted: got token bucket %d, leaky bucket %d and at most %d a second, want 80, 80 and 29", token.Admitted, leaky.Admitted,
			token.Most)
	}
	for i, at := range departures(runs[algo.LeakyBucket]) {
		if want := scenario.Milliseconds(100 * i); at != want {
			t.Errorf("departure %d: got %v ms, want %v", i, at, want)
		}
	}
	// In a fixed window, the first requests use up the limit. The sliding log admits at most 20
	// requests in any two seconds.
	if got, want := runs[algo.FixedWindow].PerSecond, []int{20, 0, 15, 5, 15, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("fixed window: got %v, want %v", got, want)
	}
	left := departures(runs[algo.SlidingLog])
	for i := range left[20:] {
		if left[i+20]-left[i] < 2000-1e-6 { // 1e-6 allows for rounding of floats
			t.Errorf("log: departures %d and %d: got a distance of %v ms, want at least 2000", i, i+20, left[i+20]-left[i])
		}
	}
}

func departures(r scenario.Run) (list []scenario.Milliseconds) {
	for _, request := range r.Requests {
		if request.Allowed {
			list = append(list, request.Leaves)
		}
	}
	return list
}

// A limit that counts tokens charges a reserve for each question. After the answer it corrects the
// charge to the real number of tokens.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		query                                     string
		admitted, refused                         int
		reserved, refunded, charged, excess, debt int64
	}{
		{"", 13, 27, 1300, 440, 1000, 0, 422},
		{"short=100&long=100", 19, 21, 1900, 0, 0, 0, 0},
		{"offered=1&short=0&long=0", 20, 0, 2000, 2000, 0, 0, 0},
		{"long=2500", 13, 27, 1300, 440, 4800, 1900, 1377},
	} {
		r := play[scenario.TokensResult](t, "tokens", c.query)
		if r.Admitted != c.admitted || r.Refused != c.refused || len(r.RefusedAt) != c.refused || r.Reserved != c.reserved ||
			r.Refunded != c.refunded || r.Charged != c.charged || r.Excess != c.excess || r.MostDebt != c.debt {
			t.Errorf("%q: got %d admitted, %d refused and tokens %d, %d, %d, %d, %d; want %+v", c.query, r.Admitted, r.Refused, r.Reserved,
				r.Refunded, r.Charged, r.Excess, r.MostDebt, c)
		}
		if first, last := r.Steps[0], r.Steps[len(r.Steps)-1]; first != (scenario.TokensStep{}) || last.At != 32_000 || last.Used != 0 ||
			last.Reserved != 0 {
			t.Errorf("%q: got steps from %+v to %+v, want an idle limit at both ends", c.query, first, last)
		}
	}
	// The first answer takes two seconds. Until then, each question counts as its reserve of 100
	// tokens.
	steps := play[scenario.TokensResult](t, "tokens", "").Steps
	for at, want := range map[int]scenario.TokensStep{
		19: {At: 1900, Used: 400, Reserved: 400}, 20: {At: 2000, Used: 360, Reserved: 300}, 40: {At: 4000, Used: 1140, Reserved: 300, Debt: 140},
	} {
		if steps[at] != want {
			t.Errorf("step %d: got %+v, want %+v", at, steps[at], want)
		}
	}
}

// With a part for free callers, every paid request is admitted at a limit that the free ones use up without it. Free callers
// never use more than their part.
func TestCeiling(t *testing.T) {
	for query, want := range map[string][8]int{ // free and paid: admitted and refused with the part, then without it
		"":                       {120, 180, 60, 0, 185, 115, 14, 46},
		"percent=100":            {185, 115, 14, 46, 185, 115, 14, 46},
		"limit=10&percent=10":    {1, 299, 38, 22, 38, 262, 1, 59},
		"free=0&paid=100":        {0, 0, 199, 101, 0, 0, 199, 101},
		"limit=10&free=5&paid=4": {15, 0, 12, 0, 15, 0, 12, 0},
	} {
		r := play[scenario.CeilingResult](t, "ceiling", query)
		var got [8]int
		for i, run := range []scenario.CeilingRun{r.With, r.Without} {
			copy(got[4*i:], []int{run.Admitted["free"], run.Refused["free"], run.Admitted["paid"], run.Refused["paid"]})
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
	r := play[scenario.CeilingResult](t, "ceiling", "paid=0")
	for _, level := range r.With.Used {
		if level.Tokens > r.Part || r.Part != 30 {
			t.Errorf("%v ms: got %d tokens used by free callers, want at most 30", level.At, level.Tokens)
		}
	}
}

// Every parameter has bounds, and a value outside them is an error of one line. With all parameters
// at their bounds, the result is still small enough for the page.
func TestSet(t *testing.T) {
	for _, c := range []struct{ name, query, want string }{
		{"boundary", "limit=0", `limit: got "0", want 1 to 200`},
		{"boundary", "limit=201", `limit: got "201", want 1 to 200`},
		{"boundary", "limit=20&limit=30", `limit: got "20 and 30", want 1 to 200`},
		{"boundary", "limit=", `limit: got "", want 1 to 200`},
		{"boundary", "limit=1e2", `limit: got "1e2", want 1 to 200`},
		{"boundary", "limit=99999999999999999999", `limit: got "99999999999999999999", want 1 to 200`},
		{"boundary", "nodes=1", `"nodes": unknown parameter (want limit, percent)`},
		{"sync", "intervalMs=5", "intervalMs: got 5, want 0, or 10 to 1000"},
		{"sync", "intervalMs=1001", `intervalMs: got "1001", want 0 to 1000`},
		{"tokens", "limit=50", "reserve: got 100, want at most the limit 50"},
		{"algorithms", "capacity=9", "capacity: got 9, want at least the rate 10, so that a window (capacity/rate) lasts a second or longer"},
	} {
		s := find(t, c.name)
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		err = scenario.Set(s, values)
		if err == nil {
			_, err = s.Play()
		}
		if fmt.Sprint(err) != c.want {
			t.Errorf("%s?%s: got error %v, want %s", c.name, c.query, err, c.want)
		}
	}
	for _, s := range scenario.All() {
		for _, most := range []bool{false, true} {
			for _, p := range s.Parameters() {
				if *p.Value < p.Least || *p.Value > p.Most {
					t.Errorf("%s: %s: got %d, want %d to %d", s.Name(), p.Name, *p.Value, p.Least, p.Most)
				}
				*p.Value = p.Least
				if most {
					*p.Value = p.Most
				}
			}
			result, err := s.Play()
			document, failed := json.Marshal(result)
			if err != nil || failed != nil || len(document) > 1<<20 {
				t.Errorf("%s at its bounds: got errors %v and %v and %d bytes, want no error and at most 1048576 bytes", s.Name(), err, failed,
					len(document))
			}
		}
	}
}
