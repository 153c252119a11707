package scenario

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// Milliseconds is a duration, or the time of an event since the start of a scenario.
type Milliseconds float64

func milliseconds(d time.Duration) Milliseconds { return Milliseconds(float64(d) / 1e6) }

// Result has the outcome of the same arrivals for one or more limits.
type Result struct {
	Runs []Run `json:"runs"`
}

// Run is the outcome of all arrivals for one limit.
type Run struct {
	Algorithm algo.Algorithm `json:"algorithm"`
	Admitted  int            `json:"admitted"`
	Refused   int            `json:"refused"`
	// AtOnce is the number of requests that were admitted at the first arrival time. Most is the
	// largest number that left within any one second. PerSecond has the number that left in each
	// second of the run.
	AtOnce    int       `json:"atOnce"`
	Most      int       `json:"mostInASecond"`
	PerSecond []int     `json:"perSecond"`
	Requests  []Request `json:"requests"`
}

// Request is one arrival and its decision.
type Request struct {
	At        Milliseconds `json:"atMs"`
	Allowed   bool         `json:"allowed"`
	Remaining int64        `json:"remaining"`
	// RetryAfter is how long a refused request should wait. Leaves is when an admitted request
	// leaves.
	RetryAfter Milliseconds `json:"retryAfterMs,omitempty"`
	Leaves     Milliseconds `json:"leavesMs"`
}

// Arrivals are Burst requests at time 0, then Offered requests per second at equal intervals, for
// Seconds seconds.
type Arrivals struct{ Burst, Offered, Seconds int64 }

func (a *Arrivals) parameters() []Parameter {
	return []Parameter{
		{"burst", "First burst, requests", &a.Burst, 0, 200},
		{"offered", "Then requests a second", &a.Offered, 0, 50},
		{"seconds", "For seconds", &a.Seconds, 1, 10},
	}
}

// instants returns the times of the arrivals since the start.
func (a *Arrivals) instants() (list []time.Duration) {
	for range a.Burst {
		list = append(list, 0)
	}
	for i := range a.Offered * a.Seconds {
		list = append(list, time.Duration(i+1)*time.Second/time.Duration(a.Offered))
	}
	return list
}

var subject = limiter.User("demo")

// first returns the time at which a scenario starts, which is also the start of a window.
func first(window time.Duration) time.Time {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return day.Add(window - time.Duration(day.UnixNano())%window)
}

// desk decides the requests of one caller for one limit with a memory store.
type desk struct {
	limiter *limiter.Limiter
	charges []limiter.Charge
	start   time.Time
}

func newDesk(l limiter.Limit) (*desk, error) {
	limit, err := limiter.NewLimit(l)
	if err != nil {
		return nil, err
	}
	store, err := memstore.New(memstore.Options{Subjects: 1})
	if err != nil {
		return nil, err
	}
	made, err := limiter.New(store, limiter.Options{})
	if err != nil {
		return nil, err
	}
	return &desk{made, []limiter.Charge{{Subject: subject, Limit: limit, Cost: 1}}, first(limit.Rate.Window)}, nil
}

// play decides arrivals, which must be sorted, for each limit.
func play(arrivals []time.Duration, rates ...algo.Rate) (r Result, err error) {
	r.Runs = make([]Run, len(rates))
	for i, rate := range rates {
		r.Runs[i], err = playOne(rate, arrivals)
		if err != nil {
			return Result{}, err
		}
	}
	return r, nil
}

func playOne(rate algo.Rate, arrivals []time.Duration) (Run, error) {
	d, err := newDesk(limiter.Limit{Name: "demo", Rate: rate})
	if err != nil {
		return Run{}, err
	}
	run := Run{Algorithm: rate.Algorithm, Requests: []Request{}}
	var left []time.Duration
	for _, at := range arrivals {
		decision, err := d.limiter.Take(context.Background(), d.start.Add(at), d.charges)
		if err != nil {
			return Run{}, err
		}
		request := Request{At: milliseconds(at), Allowed: decision.Allowed, Remaining: decision.Remaining,
			RetryAfter: milliseconds(decision.RetryAfter)}
		if decision.Allowed {
			run.Admitted++
			if at == arrivals[0] {
				run.AtOnce++
			}
			left = append(left, at+decision.Delay)
			request.Leaves = milliseconds(at + decision.Delay)
		} else {
			run.Refused++
		}
		run.Requests = append(run.Requests, request)
	}
	run.Most, run.PerSecond = most(left), perSecond(left)
	return run, nil
}

// most returns the largest number of instants within any one second. The instants must be sorted.
func most(instants []time.Duration) (n int) {
	from := 0
	for to, at := range instants {
		for at-instants[from] >= time.Second {
			from++
		}
		n = max(n, to-from+1)
	}
	return n
}

func perSecond(instants []time.Duration) []int {
	seconds := []int{}
	for _, at := range instants {
		for len(seconds) <= int(at/time.Second) {
			seconds = append(seconds, 0)
		}
		seconds[at/time.Second]++
	}
	return seconds
}
