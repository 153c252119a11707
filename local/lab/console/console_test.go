package console_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/local/console/scenario"
)

// played returns the result of a scenario that starts from the defaults and then sets the
// parameters in query.
func played[R any](t *testing.T, name, query string) R {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	all := scenario.All()
	s := all[slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Name() == name })]
	if err := scenario.Set(s, values); err != nil {
		t.Fatal(err)
	}
	result, err := s.Play()
	if err != nil {
		t.Fatal(err)
	}
	return result.(R)
}

// shown is what the page shows of one demonstration.
type shown struct {
	Figures []string       // numbers above the chart
	Table   [][]string     // cells of the table body
	Status  string         // sentence below the chart
	Plotted [][][2]float64 // points of each series
	Error   string         // message below the form
}

// replay types parameters into the form of a demonstration, runs it, and returns the result that the
// page shows.
func (b *tab) replay(name, query string) shown {
	b.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		b.t.Fatal(err)
	}
	for field := range values {
		input := "#" + name + " [name=" + field + "]"
		b.do(chromedp.Focus(input), chromedp.Evaluate[chromedp.Void](`document.querySelector("`+input+`").select()`),
			chromedp.KeyEvent(values.Get(field)+kb.Enter))
	}
	section := `document.getElementById("` + name + `")`
	b.await(`[...new FormData(` + section + `.querySelector("form"))].every(([k, v]) => new URLSearchParams(` + section +
		`.dataset.played).get(k) === v) || ` + section + `.querySelector(".error").textContent`)
	return b.shows(name)
}

func (b *tab) shows(name string) shown {
	b.t.Helper()
	return evaluate[shown](b, `(() => {
		const section = document.getElementById("`+name+`");
		return {
			Figures: [...section.querySelectorAll(".view .figures dd")].map((e) => e.textContent),
			Table: [...section.querySelector("table.numbers").tBodies[0].rows].map((row) => [...row.cells].map((e) => e.textContent)),
			Status: section.querySelector(".status").textContent,
			Plotted: section.querySelector(".view .chart").plotted,
			Error: section.querySelector(".error").textContent,
		};
	})()`)
}

// last returns the last y of each series.
func (s shown) last() (values []float64) {
	for _, points := range s.Plotted {
		values = append(values, points[len(points)-1][1])
	}
	return values
}

// at returns y at x of a series that is drawn as steps: the y of the last point at or before x.
func (s shown) at(series int, x float64) (y float64) {
	for _, point := range s.Plotted[series] {
		if point[0] <= x {
			y = point[1]
		}
	}
	return y
}

func texts(numbers ...int) (list []string) {
	for _, n := range numbers {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// Each demonstration shows the numbers that the algorithms compute, with default and with changed
// parameters, in figures, sentence, table and chart.
func TestConsole_demos(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, demosPage, 1280, 900)
	t.Run("bucket", func(t *testing.T) {
		for _, query := range []string{"", "capacity=5&rate=2&burst=7&offered=3&seconds=2"} {
			want, got := played[scenario.BucketResult](t, "bucket", query), b.replay("bucket", query)
			run := want.Runs[0]
			if !slices.Equal(got.Figures, texts(run.AtOnce, run.Admitted, run.Refused, run.Most)) || len(got.Table) != len(run.PerSecond) {
				t.Errorf("%q: got figures %+v, want the figures of %+v", query, got.Figures, run)
			}
			if query == "" && got.Status != "20 admitted at once, 60 in all, 30 refused; the first refused request may retry after 100 ms." {
				t.Errorf("status: got %q, want the sentence of the defaults", got.Status)
			}
			for i, level := range want.Levels {
				if p := got.Plotted[0][i]; p[0] != float64(level.At)/1000 || p[1] != float64(level.Tokens) {
					t.Fatalf("%q: point %d of the level: got %v, want %+v", query, i, p, level)
				}
			}
		}
	})
	t.Run("boundary", func(t *testing.T) {
		for _, c := range []struct {
			query string
			want  []string
		}{{"", []string{"40", "20", "20"}}, {"limit=100&percent=99", []string{"200", "100", "100"}}} {
			query, want := c.query, c.want
			got := b.replay("boundary", query)
			result := played[scenario.BoundaryResult](t, "boundary", query)
			if !slices.Equal(got.Figures, want) || want[0] != strconv.Itoa(result.Runs[0].Admitted) || !strings.HasPrefix(got.Status,
				fmt.Sprintf("Within %v ms a fixed window admits %s,", result.Span, want[0])) {
				t.Errorf("%q: got figures %v and status %q, want %v and a span of %v ms", query, got.Figures, got.Status, want, result.Span)
			}
			for i, y := range got.last() {
				if strconv.Itoa(int(y)) != want[i] || got.at(i, 0.999) != float64(result.Runs[0].Admitted/2) {
					t.Errorf("%q: series %d: got %v, want %v", query, i, got.at(i, 0.999), y)
				}
			}
		}
	})
	t.Run("sync", func(t *testing.T) {
		for _, c := range []struct {
			query string
			want  []string
		}{
			{"", []string{"132", "72", "9", "60 36 36"}},
			{"intervalMs=0", []string{"60", "0"}},
			{"intervalMs=1000", []string{"180", "120", "3", "60 60 60"}},
			{"intervalMs=1000&nodes=5&limit=10", []string{"50", "40", "5", "10 10 10 10 10"}},
		} {
			query, want := c.query, c.want
			got := b.replay("sync", query)
			result := played[scenario.SyncResult](t, "sync", query)
			if !slices.Equal(got.Figures[:len(want)], want) || got.last()[0] != float64(result.Admitted) || len(got.Table[0]) != len(result.PerNode)+
				1 {
				t.Errorf("%q: got %v, want %v", query, got.Figures, want)
			}
			sweep := evaluate[[][]string](b, `[...document.getElementById("sweep").tBodies[0].rows].map((row) => [...row.cells].map((e) => `+
				`e.textContent))`)
			for i, c := range result.Sweep {
				if want := append([]string{fmt.Sprintf("%d ms", c.Interval)}, texts(c.Admitted, c.Overshoot, c.StoreCalls)...); !slices.Equal(sweep[i],
					want) {
					t.Errorf("%q: sweep: got %v, want %v", query, sweep[i], want)
				}
			}
		}
		b.expect("400 (Bad Request)")
		if got := b.replay("sync", "intervalMs=5"); got.Error != "intervalMs: got 5, want 0, or 10 to 1000" {
			t.Errorf("interval of 5 ms: got error %q, want the allowed range 0, or 10 to 1000", got.Error)
		}
	})
	t.Run("algorithms", func(t *testing.T) {
		for _, query := range []string{"", "capacity=10&rate=10&burst=40&offered=30&seconds=3"} {
			want, got := played[scenario.AlgorithmsResult](t, "algorithms", query), b.replay("algorithms", query)
			for i, run := range want.Runs {
				want := texts(run.AtOnce, run.Admitted, run.Refused, run.Most)
				var column []string
				for _, row := range got.Table[:len(want)] {
					column = append(column, row[i+1])
				}
				if got.Figures[i] != want[1] || !slices.Equal(column, want) || got.last()[i] != float64(run.Admitted) {
					t.Errorf("%q %s: got %s, %v, %v, want %v", query, run.Algorithm, got.Figures[i], column, got.last()[i], want)
				}
				// Every algorithm admits the full capacity at once. A leaky bucket then releases
				// one request after another, so only one leaves at once.
				if y := got.at(i, 0); (run.Algorithm == algo.LeakyBucket) != (y == 1) || run.Algorithm != algo.LeakyBucket && y != float64(run.AtOnce) {
					t.Errorf("%q %s: got first value %v, want 1 for the leaky bucket and %d otherwise", query, run.Algorithm, y, run.AtOnce)
				}
			}
		}
	})
}

// The page shows reserved and settled tokens, and the caller's debt.
func TestConsole_tokens(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, demosPage, 1280, 900)
	for _, query := range []string{"", "limit=2000&reserve=50&short=10&long=6000&answerMs=500&offered=4"} {
		want, got := played[scenario.TokensResult](t, "tokens", query), b.replay("tokens", query)
		if figures := texts(want.Admitted, want.Refused, int(want.Refunded), int(want.Charged), int(want.MostDebt)); !slices.Equal(got.Figures,
			figures) {
			t.Errorf("%q: got figures %v, want %v", query, got.Figures, figures)
		}
		for i, step := range want.Steps {
			if x := float64(step.At) / 1000; got.at(0, x) != float64(step.Used) || got.at(1, x) != float64(step.Reserved) ||
				got.at(2, x) != float64(step.Debt) {
				t.Fatalf("%q: step %d: got %v used, %v reserved and a debt of %v, want %+v", query, i, got.at(0, x), got.at(1, x), got.at(2, x), step)
			}
		}
		if query == "" && got.Status != "13 questions reserved 1300 tokens and used 1860: 440 refunded, 1000 charged above the reserves. The "+
			"largest debt was 422." {
			t.Errorf("status: got %q, want the sentence of the defaults", got.Status)
		}
		if said := strings.Contains(got.Status, "exceeded the largest debt"); said != (want.Excess > 0) {
			t.Errorf("%q: got status %q, want the excess of %d", query, got.Status, want.Excess)
		}
	}
}

// The page shows, by tier, what one limit admits with a part for free callers and without it.
func TestConsole_ceiling(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, demosPage, 1280, 900)
	for _, query := range []string{"", "limit=10&percent=50&free=30&paid=5"} {
		want, got := played[scenario.CeilingResult](t, "ceiling", query), b.replay("ceiling", query)
		numbers := func(tier string) []string {
			return texts(want.With.Admitted[tier], want.With.Refused[tier], want.Without.Admitted[tier], want.Without.Refused[tier])
		}
		if !slices.Equal(got.Figures, numbers("paid")) || !slices.Equal(got.Table[0][1:], numbers("free")) ||
			!slices.Equal(got.Table[1][1:], numbers("paid")) || got.last()[2] != float64(want.Part) || got.last()[3] != float64(want.Limit) {
			t.Errorf("%q: got figures %v and table %v, want %v and %v", query, got.Figures, got.Table, numbers("paid"), numbers("free"))
		}
		for i, level := range want.With.Used {
			if x := float64(level.At) / 1000; got.at(0, x) != float64(level.Tokens) || got.at(1, x) != float64(want.Without.Used[i].Tokens) {
				t.Fatalf("%q: at %v s: got %v and %v used, want %d and %d", query, x, got.at(0, x), got.at(1, x), level.Tokens,
					want.Without.Used[i].Tokens)
			}
		}
		if query == "" && got.Status != "60 paid requests admitted and 0 refused; without a part, 14 and 46." {
			t.Errorf("status: got %q, want the sentence of the defaults", got.Status)
		}
	}
}
