package load_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/local/load"
)

// run runs a load with a fake clock.
func run(t *testing.T, o load.Options) (r load.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var m load.Meter
		load.Run(t.Context(), o, &m)
		r = m.Result(time.Now().Add(time.Hour)) // after the end of a run, the time has no effect
	})
	return r
}

// steady returns a Send that answers 200 after a fixed time.
func steady(took time.Duration) func(context.Context, int) (int, error) {
	return func(context.Context, int) (int, error) {
		time.Sleep(took)
		return 200, nil
	}
}

// An open loop starts requests at their planned times, however long the answers take.
func TestRun_rate(t *testing.T) {
	r := run(t, load.Options{Requests: 10_000, Duration: 10 * time.Second, Clients: 100, Rate: 50, Send: steady(time.Second)})
	if r.Requests != 500 || r.Allowed != 500 || r.NotSent != 0 || r.Took != 10*time.Second || r.Latencies[load.All].Max < 1000 || r.Latencies[load.All].Max > 1001 {
		t.Errorf("result: got %+v, want 500 allowed requests in 10 s", r)
	}
	r = run(t, load.Options{Requests: 120, Duration: 10 * time.Second, Clients: 100, Rate: 50, Send: steady(0)})
	if r.Requests != 120 || r.Seconds < 2.37 || r.Seconds > 2.39 {
		t.Errorf("limit on requests: got %+v, want 120 requests in 2.38 s", r)
	}
}

// Without a rate, each client sends its next request after the answer to the previous one.
func TestRun_closed(t *testing.T) {
	r := run(t, load.Options{Requests: 10_000, Duration: 10 * time.Second, Clients: 4, Send: steady(99 * time.Millisecond)})
	// Each of the four clients starts 102 requests, 99 ms apart. The last one starts at 9.999 s.
	if r.Requests != 4*102 || r.UnderWay != 0 || r.NotSent != 0 {
		t.Errorf("result: got %+v, want 408 requests", r)
	}
}

// One answer takes two seconds and delays all requests that are due in that time. The delay is part
// of their latencies.
func TestRun_coordinatedOmission(t *testing.T) {
	r := run(t, load.Options{Requests: 1000, Duration: 10 * time.Second, Clients: 1, Rate: 100, Send: func(_ context.Context, n int) (int, error) {
		if n == 100 {
			time.Sleep(2 * time.Second)
		}
		return 200, nil
	}})
	late := int64(0)
	for _, bar := range r.Histogram {
		if bar.UpTo > 1024 {
			late += bar.Count
		}
	}
	if l := r.Latencies[load.All]; r.Requests != 1000 || l.P50 != 0 || l.P90 < 990 || l.P90 > 1010 || l.P99 < 1890 || l.P99 > 1910 || late != 98 {
		t.Errorf("result: got %+v with %d requests slower than 1.024 s, want 1000 requests and 98 slow ones", r, late)
	}
}

// If all clients are busy until the end, a request that is due meanwhile counts as not sent.
func TestRun_notSent(t *testing.T) {
	r := run(t, load.Options{Requests: 1000, Duration: 10 * time.Second, Clients: 2, Rate: 10, Send: steady(time.Second)})
	if r.Requests != 20 || r.NotSent != 80 || r.Allowed != 20 {
		t.Errorf("result: got %+v, want 20 allowed requests and 80 not sent", r)
	}
}

// The percentiles include requests without an answer at the end of a run, with their wait so far. In this
// test, three of four clients hang, so later requests have to wait.
func TestRun_unanswered(t *testing.T) {
	hang := func(ctx context.Context, n int) (int, error) {
		if n%4 == 0 {
			return 200, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	r := run(t, load.Options{Requests: 1000, Duration: 10 * time.Second, Clients: 100, Rate: 10, Send: hang})
	// 100 requests start, 0.1 s apart. 25 get an answer at once. The other 75 wait until the grace period ends
	// at 15 s, so their latencies are between 5 and 15 s.
	if l := r.Latencies[load.All]; r.UnderWay != 75 || r.Allowed != 25 || !near(l.P50, 8300) || !near(l.P90, 13_600) || !near(l.Max, 14900) || r.Latencies[load.Allowed].Max != 0 {
		t.Errorf("under way: got %+v, want 25 allowed and 75 under way, with a median of 8300 ms", r)
	}
	r = run(t, load.Options{Requests: 1000, Duration: 10 * time.Second, Clients: 3, Rate: 10, Send: hang})
	// One request gets an answer. The next three start at 0.1 to 0.3 s and hang. The other 96 wait for a free
	// client until 10 s.
	if l := r.Latencies[load.All]; r.UnderWay != 3 || r.NotSent != 96 || !near(l.P50, 4900) || !near(l.P90, 8900) || !near(l.Max, 14900) {
		t.Errorf("not sent: got %+v, want 3 under way and 96 not sent, with a median of 4900 ms", r)
	}
	synctest.Test(t, func(t *testing.T) { // an interrupt ends the run like the end of the duration
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second+time.Millisecond)
		defer cancel()
		var m load.Meter
		load.Run(ctx, load.Options{Requests: 1000, Duration: time.Hour, Clients: 3, Rate: 10, Send: hang}, &m)
		if r := m.Result(time.Now()); r.UnderWay != 3 || r.NotSent != 37 || !near(r.Latencies[load.All].Max, 3901) {
			t.Errorf("interrupted: got %+v, want 3 under way and 37 not sent, with a maximum of 3901 ms", r)
		}
	})
}

// near reports whether a latency is within 20 ms of the expected latency. The histogram has an accuracy
// of three digits.
func near(got, want float64) bool { return math.Abs(got-want) <= 20 }

// After the duration, a started request has five more seconds. An answer in that time counts, even if its
// latency is above the range of the histogram.
func TestRun_grace(t *testing.T) {
	for _, c := range []struct {
		takes   time.Duration
		obeys   bool // whether the request stops at the end of its context
		ended   time.Duration
		allowed int64
		longest float64
	}{
		{5900 * time.Millisecond, true, 5900 * time.Millisecond, 1, 5900},
		{time.Hour, true, 6 * time.Second, 0, 6000},
		{20 * time.Second, false, 20 * time.Second, 1, 20_000},
		{time.Hour, false, time.Hour, 1, 600_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			var m load.Meter
			load.Run(t.Context(), load.Options{Requests: 1, Duration: time.Second, Clients: 1, Rate: 1, Send: func(ctx context.Context, _ int) (int, error) {
				if !c.obeys {
					ctx = context.WithoutCancel(ctx)
				}
				select {
				case <-time.After(c.takes):
					return 200, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}}, &m)
			r := m.Result(time.Now())
			if l := r.Latencies[load.All]; time.Since(begun) != c.ended || r.Allowed != c.allowed || r.UnderWay != 1-c.allowed || math.Abs(l.Max-c.longest) > c.longest/1000 {
				t.Errorf("answer after %s, obeys %t: got %+v after %s, want %d allowed after %s, with a maximum of %v ms", c.takes, c.obeys, r, time.Since(begun), c.allowed, c.ended, c.longest)
			}
		})
	}
}

// The intervals between Poisson arrivals have the expected mean, and a standard deviation equal to
// the mean.
func TestRun_poisson(t *testing.T) {
	const rate = 100
	var at []float64
	r := run(t, load.Options{Requests: 1_000_000, Duration: 200 * time.Second, Clients: 1, Rate: rate, Poisson: true, Send: func(context.Context, int) (int, error) {
		at = append(at, float64(time.Now().UnixNano())/1e9)
		return 200, nil
	}})
	const want = 200 * rate
	if math.Abs(float64(r.Requests)-want) > 6*math.Sqrt(want) {
		t.Errorf("requests: got %d, want about %d", r.Requests, want)
	}
	sum, squares := 0.0, 0.0
	for i := range at[1:] {
		gap := at[i+1] - at[i]
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(at) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); deviation < mean*0.9 || deviation > mean*1.1 {
		t.Errorf("intervals: got mean %.5f s and deviation %.5f s, want them equal", mean, deviation)
	}
}

// Each request counts once, by its result.
func TestRun_outcomes(t *testing.T) {
	r := run(t, load.Options{Requests: 100, Duration: time.Minute, Clients: 10, Send: func(_ context.Context, n int) (int, error) {
		switch n % 5 {
		case 0:
			return 200, nil
		case 1, 2:
			return 429, nil
		case 3:
			return 503, nil
		}
		return 0, errors.New("no route")
	}})
	if r.Allowed != 20 || r.Refused != 40 || r.Other != 20 || r.Failed != 20 || r.Failure != "no route" || r.Statuses[200] != 20 || r.Statuses[429] != 40 || r.Statuses[503] != 20 || len(r.Statuses) != 3 || len(r.Latencies) != 3 {
		t.Errorf("result: got %+v, want 20 allowed, 40 refused, 20 other and 20 failed requests", r)
	}
}

// An interrupt ends a run at once and keeps the measurements. A request that has no answer at this time
// counts as under way: it is neither failed nor answered. A request that lasts longer than the run also
// counts as under way.
func TestRun_interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var sent atomic.Int64
		o := load.Options{Requests: 1000, Duration: time.Hour, Clients: 10, Rate: 10, Send: func(ctx context.Context, _ int) (int, error) {
			sent.Add(1)
			select {
			case <-time.After(450 * time.Millisecond):
				return 200, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		var m load.Meter
		begun := time.Now()
		load.Run(ctx, o, &m)
		if r := m.Result(time.Now()); time.Since(begun) != 1500*time.Millisecond || r.Requests != sent.Load() || r.Allowed != 11 || r.UnderWay != r.Requests-11 || r.Failed != 0 {
			t.Errorf("result: got %+v, want 11 of %d sent requests allowed and the others under way", r, sent.Load())
		}
	})
	r := run(t, load.Options{Requests: 1000, Duration: time.Second, Clients: 3, Send: func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}})
	if r.Requests != 3 || r.UnderWay != 3 || r.Took != time.Second {
		t.Errorf("result: got %+v, want 3 requests under way after 1 s", r)
	}
}

// An empty result has no latencies and no histogram.
func TestMeter_empty(t *testing.T) {
	var m load.Meter
	if r := m.Result(time.Now()); r.Requests != 0 || r.Took != 0 || len(r.Latencies) != 0 || len(r.Histogram) != 0 {
		t.Errorf("result: got %+v, want an empty one", r)
	}
}
