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

// run makes a load with a clock that is not real.
func run(t *testing.T, o load.Options) (r load.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var m load.Meter
		load.Run(t.Context(), o, &m)
		r = m.Result(time.Now().Add(time.Hour)) // which changes nothing any more
	})
	return r
}

// steady answers 200 after a time.
func steady(took time.Duration) func(context.Context, int) (int, error) {
	return func(context.Context, int) (int, error) {
		time.Sleep(took)
		return 200, nil
	}
}

// An open loop begins requests at their instants, however long the answers take.
func TestRun_rate(t *testing.T) {
	r := run(t, load.Options{Requests: 10_000, Duration: 10 * time.Second, Clients: 100, Rate: 50, Send: steady(time.Second)})
	if r.Requests != 500 || r.Allowed != 500 || r.NotSent != 0 || r.Took != 10*time.Second || r.Latencies[load.All].Max < 1000 || r.Latencies[load.All].Max > 1001 {
		t.Errorf("%+v", r)
	}
	r = run(t, load.Options{Requests: 120, Duration: 10 * time.Second, Clients: 100, Rate: 50, Send: steady(0)})
	if r.Requests != 120 || r.Seconds < 2.37 || r.Seconds > 2.39 {
		t.Errorf("bounded by the requests: %+v", r)
	}
}

// Without a rate the clients send as fast as they get answers.
func TestRun_closed(t *testing.T) {
	r := run(t, load.Options{Requests: 10_000, Duration: 10 * time.Second, Clients: 4, Send: steady(99 * time.Millisecond)})
	if r.Requests != 4*102 || r.UnderWay != 0 || r.NotSent != 0 { // the last are begun at 9.999 s
		t.Errorf("%+v", r)
	}
}

// One answer that takes two seconds holds up all that were due meanwhile, and the figures say so:
// latencies count from when a request was due.
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
		t.Errorf("%+v, %d took more than 1.024 s", r, late)
	}
}

// What is due while all clients are busy until the end is not sent, and said.
func TestRun_notSent(t *testing.T) {
	r := run(t, load.Options{Requests: 1000, Duration: 10 * time.Second, Clients: 2, Rate: 10, Send: steady(time.Second)})
	if r.Requests != 20 || r.NotSent != 80 || r.Allowed != 20 {
		t.Errorf("%+v", r)
	}
}

// Poisson arrivals have their mean rate, and distances whose deviation is their mean.
func TestRun_poisson(t *testing.T) {
	const rate = 100
	var at []float64
	r := run(t, load.Options{Requests: 1_000_000, Duration: 200 * time.Second, Clients: 1, Rate: rate, Poisson: true, Send: func(context.Context, int) (int, error) {
		at = append(at, float64(time.Now().UnixNano())/1e9)
		return 200, nil
	}})
	const want = 200 * rate
	if math.Abs(float64(r.Requests)-want) > 6*math.Sqrt(want) {
		t.Errorf("%d requests, want about %d", r.Requests, want)
	}
	sum, squares := 0.0, 0.0
	for i := range at[1:] {
		gap := at[i+1] - at[i]
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(at) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); deviation < mean*0.9 || deviation > mean*1.1 {
		t.Errorf("distances of %.5f s deviate by %.5f s", mean, deviation)
	}
}

// Each request is counted once, by how it ended.
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
		t.Errorf("%+v", r)
	}
}

// A run that is interrupted ends at once, and has what was measured; what an answer is awaited
// for is neither failed nor answered. So is what outlives the end of a run.
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
			t.Errorf("%+v, sent %d", r, sent.Load())
		}
	})
	r := run(t, load.Options{Requests: 1000, Duration: time.Second, Clients: 3, Send: func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}})
	if r.Requests != 3 || r.UnderWay != 3 || r.Took != time.Second {
		t.Errorf("%+v", r)
	}
}

// Where there is nothing, nothing is said of it.
func TestMeter_empty(t *testing.T) {
	var m load.Meter
	if r := m.Result(time.Now()); r.Requests != 0 || r.Took != 0 || len(r.Latencies) != 0 || len(r.Histogram) != 0 {
		t.Errorf("%+v", r)
	}
}
