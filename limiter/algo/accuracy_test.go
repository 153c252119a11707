package algo_test

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

var update = flag.Bool("update", false, "rewrite ACCURACY.md")

//go:embed testdata/accuracy.tmpl
var accuracyTemplate string

// ACCURACY.md contains the current numbers. The flag -update rewrites it.
func TestAccuracy(t *testing.T) {
	var rows []row
	for _, p := range patterns() {
		rows = append(rows, p.measure(t))
	}
	data := struct {
		Rows     []row
		Boundary map[string]int
		Limits   []sizeRow
		MaxExact int
	}{rows, map[string]int{}, sizeRows(t), algo.MaxExact}
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog} {
		data.Boundary[string(algorithm)] = boundaryAttack(t, algorithm)
	}
	var want bytes.Buffer
	if err := template.Must(template.New("accuracy").Parse(accuracyTemplate)).Execute(&want, data); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("ACCURACY.md", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("ACCURACY.md")
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("ACCURACY.md: old text from line %d on; update it with go test ./limiter/algo -run Accuracy -update", i+1)
		}
	}
}

// row has the results of one pattern of requests.
type row struct {
	Name                            string
	Requests                        int
	Admitted, ByLog                 int // requests that the sliding window admitted, and that a log would admit
	WronglyAdmitted, WronglyRefused int
	Worst                           int // most requests that the sliding window admitted within any minute
}

func (r row) Percent(n int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(r.Requests)) }

// pattern is an hour of arrivals at a limit of 100 a minute.
type pattern struct {
	name string
	// next returns the time until the next request and its caller. wait is the time until the window
	// admits the previous caller again.
	next func(r *rand.Rand, wait time.Duration) (after time.Duration, caller int)
}

func patterns() (list []pattern) {
	for _, percent := range []int64{95, 105, 200} {
		list = append(list, pattern{fmt.Sprintf("constant, %d %% of the limit", percent), func(*rand.Rand, time.Duration) (time.Duration, int) {
			return time.Minute / time.Duration(percent), 0
		}})
	}
	for _, percent := range []int64{95, 200} {
		list = append(list, pattern{fmt.Sprintf("random, %d %% of the limit", percent), func(r *rand.Rand, _ time.Duration) (time.Duration, int) {
			return time.Duration(r.Int64N(int64(2*time.Minute) / percent)), 0
		}})
	}
	left := 0
	list = append(list, pattern{"bursty: 60 in a second, every 20 to 40 s", func(r *rand.Rand, _ time.Duration) (time.Duration, int) {
		left--
		if left < 0 {
			left = 59
			return 20*time.Second + time.Duration(r.Int64N(int64(20*time.Second))), 0
		}
		return time.Second / 60, 0
	}})
	zipf, total := []int64{}, int64(0)
	for rank := range int64(1000) {
		total += 1_000_000 / (rank + 1)
		zipf = append(zipf, total)
	}
	list = append(list, pattern{"Zipf: 2,000 a minute of 1,000 callers", func(r *rand.Rand, _ time.Duration) (time.Duration, int) {
		drawn, caller := r.Int64N(total), 0
		for drawn >= zipf[caller] {
			caller++
		}
		return time.Duration(r.Int64N(int64(time.Minute) / 1000)), caller
	}})
	return append(list, pattern{"greedy: each request as soon as it is admitted", func(_ *rand.Rand, wait time.Duration) (time.Duration, int) {
		return wait, 0
	}})
}

// measure compares each answer of a sliding window with an exact log of the requests that the window
// admitted. An admission is wrong if the log is full. A refusal is wrong if the log has room.
func (p pattern) measure(t *testing.T) row {
	t.Helper()
	rate := algo.Rate{Requests: 100, Window: time.Minute}
	window := machine(t, rate)
	rate.Algorithm = algo.SlidingLog
	log := machine(t, rate)
	type caller struct {
		window, judge, log algo.State
		admitted           []algo.Instant
	}
	callers, now, last := map[int]*caller{}, start.Add(time.Minute-1), 0
	r, result := rand.New(rand.NewPCG(1, 2)), row{Name: p.name}
	for {
		wait := time.Duration(0)
		if c := callers[last]; c != nil {
			wait = window.RetryAfter(c.window, now, 1)
		}
		after, who := p.next(r, wait)
		now, last = now.Add(after), who
		if now >= start.Add(61*time.Minute) {
			break
		}
		c := callers[who]
		if c == nil {
			c = &caller{}
			callers[who] = c
		}
		result.Requests++
		var byWindow, byLog bool
		right := log.Remaining(c.judge, now) > 0
		c.window, byWindow = window.Take(c.window, now, 1)
		c.log, byLog = log.Take(c.log, now, 1)
		if byLog {
			result.ByLog++
		}
		switch {
		case byWindow:
			result.Admitted++
			c.admitted = append(c.admitted, now)
			c.judge = log.Force(c.judge, now, 1)
			if !right {
				result.WronglyAdmitted++
			}
		case right:
			result.WronglyRefused++
		}
	}
	for _, c := range callers {
		result.Worst = max(result.Worst, worst(c.admitted, time.Minute))
	}
	if off := result.Admitted - result.ByLog; 50*max(off, -off) > result.ByLog { // ACCURACY.md states at most 2 %
		t.Errorf("%s: got %d admissions by the window and %d by a log, want a difference of at most 2 %%", p.name, result.Admitted, result.ByLog)
	}
	return result
}

// sizeRow has what a caller gets of a sliding window of one size.
type sizeRow struct {
	Requests       int64
	Keeps          string
	Persistent     float64 // percent of the limit that a caller gets if it never stops asking
	Worst          int     // most requests in any window
	Bursty, Random float64 // percent of the requests that a sliding log admits
}

func (r sizeRow) Cells() string {
	return fmt.Sprintf("%d | %s | %.1f %% | %d | %.1f %% | %.1f %%", r.Requests, r.Keeps, r.Persistent, r.Worst, r.Bursty, r.Random)
}

func sizeRows(t *testing.T) (rows []sizeRow) {
	for _, n := range []int64{1, algo.MaxExact, algo.MaxExact + 1, 50, 100, 1000} {
		r := sizeRow{Requests: n, Keeps: "two counts", Bursty: againstLog(t, n, bursts), Random: againstLog(t, n, random)}
		if n <= algo.MaxExact {
			r.Keeps = "instants"
		}
		r.Persistent, r.Worst = persistent(t, n)
		rows = append(rows, r)
	}
	return rows
}

// A caller that repeats each refused request after its RetryAfter gets at least 95 % of the limit, at every size. With
// instants, it gets exactly the limit, and no window has more.
func TestAccuracy_everySize(t *testing.T) {
	for n := int64(1); n <= 1000; n++ {
		percent, most := persistent(t, n)
		if percent < 95 || percent > 100 {
			t.Errorf("%d requests: got %.2f %% of the limit, want 95 to 100", n, percent)
		}
		if n <= algo.MaxExact && (percent != 100 || int64(most) != n) {
			t.Errorf("%d requests: got %.2f %% of the limit, and %d in a window, want 100 and %d", n, percent, most, n)
		}
	}
}

// persistent returns the percentage of a limit that a caller gets if it repeats each refused request after its
// RetryAfter, and the highest number of requests in any window. The caller starts with the full quota at the end of a
// window. The percentage leaves out the first two windows.
func persistent(t *testing.T, requests int64) (percent float64, most int) {
	t.Helper()
	const window, windows = time.Minute, 12
	m := machine(t, algo.Rate{Requests: requests, Window: window})
	var s algo.State
	var admitted []algo.Instant
	counted := 0
	for now := start.Add(window - 1); now < start.Add((windows+1)*window); {
		next, ok := m.Take(s, now, 1)
		if !ok {
			wait := m.RetryAfter(s, now, 1)
			if requests <= algo.MaxExact && wait > window {
				t.Fatalf("%d requests: got retry after %s, want at most the window", requests, wait)
			}
			now = now.Add(wait)
			continue
		}
		s, admitted = next, append(admitted, now)
		if now >= start.Add(3*window) {
			counted++
		}
	}
	return 100 * float64(counted) / float64(requests*(windows-2)), worst(admitted, window)
}

// bursts returns the time to the next request of bursts of 60 % of the limit. A burst takes a sixtieth of the window;
// the next one follows after a third to two thirds of the window. i is the number of the request.
func bursts(r *rand.Rand, i, requests int64, window time.Duration) time.Duration {
	size := (requests*6 + 9) / 10
	if i%size == 0 {
		return window/3 + time.Duration(r.Int64N(int64(window/3)))
	}
	return window / 60 / time.Duration(size)
}

// random returns the time to the next request at 95 % of the limit.
func random(r *rand.Rand, _, requests int64, window time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(2*window) * 100 / 95 / requests))
}

// againstLog returns the requests that a sliding window admits, as a percentage of those that a sliding log admits.
func againstLog(t *testing.T, requests int64, next func(r *rand.Rand, i, requests int64, window time.Duration) time.Duration) float64 {
	t.Helper()
	window, exact := machine(t, algo.Rate{Requests: requests, Window: time.Minute}), &algo.Log{Length: time.Minute, Requests: requests}
	r, now := rand.New(rand.NewPCG(3, uint64(requests))), start
	var byWindow, byLog algo.State
	var admitted, wanted int
	for i := range max(2000, 20*requests) {
		now = now.Add(next(r, i, requests, time.Minute))
		var ok bool
		byWindow, ok = window.Take(byWindow, now, 1)
		if ok {
			admitted++
		}
		byLog, ok = exact.Take(byLog, now, 1)
		if ok {
			wanted++
		}
	}
	return 100 * float64(admitted) / float64(wanted)
}
