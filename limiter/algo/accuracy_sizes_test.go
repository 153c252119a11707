package algo_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

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
