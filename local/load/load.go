package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Options configure a load. All but Rate and Poisson are required.
type Options struct {
	Requests int           // maximum number of requests
	Duration time.Duration // time in which requests start
	Clients  int           // maximum number of requests under way at once
	Rate     float64       // requests started per second; 0 means a closed loop
	Poisson  bool          // with a Rate: exponentially distributed intervals
	// Send sends the nth request, from 0, and reads its answer. Several goroutines call it at once.
	Send func(ctx context.Context, n int) (status int, err error)
}

// Grace is the additional time after Duration in which started requests can end.
const Grace = 5 * time.Second

// arrival is a request with its planned start time.
type arrival struct {
	n  int
	at time.Time // zero in a closed loop
}

// Run sends the requests and records each of them in m. It returns when all requests have ended, or
// soon after ctx ends.
func Run(ctx context.Context, o Options, m *Meter) {
	begun := time.Now()
	m.start(begun, begun.Add(o.Duration))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(o.Duration+Grace, cancel).Stop()
	arrivals := make(chan arrival)
	var clients sync.WaitGroup
	for range o.Clients {
		clients.Go(func() {
			for a := range arrivals {
				o.client(ctx, a, m)
			}
		})
	}
	o.arrive(ctx, arrivals, m)
	close(arrivals)
	clients.Wait()
	m.stop(time.Now())
}

func (o Options) client(ctx context.Context, a arrival, m *Meter) {
	if a.at.IsZero() {
		a.at = time.Now()
	}
	m.begin()
	status, err := o.Send(ctx, a.n)
	m.end(status, err, time.Since(a.at), ctx.Err() != nil)
}

// arrive sends each request to arrivals at its start time, until o.Duration or o.Requests is reached.
func (o Options) arrive(ctx context.Context, arrivals chan<- arrival, m *Meter) {
	begun := time.Now()
	end := time.NewTimer(o.Duration)
	defer end.Stop()
	due := time.Duration(0) // since the start
	for n := 0; n < o.Requests && due < o.Duration; n++ {
		a := arrival{n: n}
		if o.Rate > 0 {
			a.at = begun.Add(due)
			if !sleep(ctx, time.Until(a.at)) {
				return
			}
		}
		select {
		case arrivals <- a:
		case <-ctx.Done():
			o.miss(n, due, time.Since(begun), m)
			return
		case <-end.C:
			o.miss(n, due, o.Duration, m)
			return
		}
		due = o.next(n, due)
	}
	if due >= o.Duration {
		sleep(ctx, time.Until(begun.Add(o.Duration)))
	}
}

// miss records requests as not sent: request n, which was due at the time due, and those due after it until end.
func (o Options) miss(n int, due, end time.Duration, m *Meter) {
	for ; o.Rate > 0 && n < o.Requests && due < end; n++ {
		m.miss(end - due)
		due = o.next(n, due)
	}
}

// next returns the start time of the request after request n, as time since the start of the run. due is
// the start time of request n. In a closed loop, next returns 0.
func (o Options) next(n int, due time.Duration) time.Duration {
	switch {
	case o.Rate == 0:
		return 0
	case o.Poisson:
		return due + time.Duration(rand.ExpFloat64()/o.Rate*float64(time.Second))
	}
	return time.Duration(float64(n+1) / o.Rate * float64(time.Second))
}

// sleep waits for d or until ctx ends. It reports whether it waited for d.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
