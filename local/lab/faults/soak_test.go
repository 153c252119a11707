package faults

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
)

var soak = flag.Duration("soak", 0, "duration of the load with faults on each store; 0: skip the test")

const (
	soakEnvironments = 10
	soakClients      = 64
	soakCallers      = 16
	soakPace         = 100 * time.Millisecond // time between the requests of a client
	soakFault        = time.Second            // duration of a fault
	soakPause        = 2 * time.Second        // the time between faults

	// These are the numbers of each limit in soakDocument.
	soakRequests = 40
	soakWindow   = 5 * time.Second
	soakShare    = soakRequests / 10
	soakLease    = 4
)

// soakPolicies are the endpoints of soakDocument: the values of on_error, and one with leases.
var soakPolicies = []string{"soak/allow", "soak/deny", "soak/local", "soak/lease"}

// soakFaults are faults in which the store loses no counts.
var soakFaults = networkFaults[:7]

// TestSoak sends requests to environments with each store while faults start and end. It compares all
// answers with the limits.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("make soak runs it")
	}
	for _, store := range stores[:2] {
		t.Run(store.name, func(t *testing.T) {
			w := &world{document: soakDocument}
			store.open(t, w)
			defer w.end(t)
			r := w.load(t)
			r.check(t)
			r.print(t)
		})
	}
}

// cell is one window of one limit of one caller.
type cell struct {
	caller, policy string
	end            int64 // end of the window, in Unix nanoseconds
}

// last returns the cell of the same limit and caller in the previous window.
func (c cell) last() cell {
	c.end -= int64(soakWindow)
	return c
}

// tally counts the outcomes of the requests of a cell.
type tally struct{ admitted, refused, degraded, degradedAdmitted int }

// record contains the outcomes of all requests.
type record struct {
	mu      sync.Mutex
	cells   map[cell]*tally
	errors  int
	took    []time.Duration // durations of decisions by the store
	without []time.Duration // durations of decisions without the store
	reasons map[limiter.Reason]int
	late    []time.Duration // how much too long each sleep was
}

// load sends requests until the end of the test. It starts and ends faults.
func (w *world) load(t *testing.T) *record {
	t.Helper()
	r := &record{cells: map[cell]*tally{}, reasons: map[limiter.Reason]int{}}
	environments := []*environment{w.environment}
	for range soakEnvironments - 1 {
		environments = append(environments, newEnvironment(t, soakDocument, w.variables...))
	}
	for _, e := range environments { // the first decision of an environment may take longer
		e.ask(onlooker, policies[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.sleep(ctx) })
	for i := range soakClients {
		wg.Go(func() {
			caller := fmt.Sprintf("198.51.100.%d", i%soakCallers)
			pace := time.NewTicker(soakPace)
			defer pace.Stop()
			for n := i; ctx.Err() == nil; n++ {
				r.ask(environments[n%len(environments)], caller, soakPolicies[n/len(environments)%len(soakPolicies)])
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		f := &soakFaults[i%len(soakFaults)]
		if !within(ctx, soakPause) {
			break
		}
		f.begin(t, w)
		within(ctx, soakFault)
		f.end(t, w)
	}
	wg.Wait()
	for _, e := range environments[1:] {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
	return r
}

// within waits for d or until ctx ends. It returns false if ctx ended.
func within(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sleep sleeps for a fixed time and records by how much the sleep was too long.
func (r *record) sleep(ctx context.Context) {
	for {
		begun := time.Now()
		if !within(ctx, time.Millisecond) {
			return
		}
		r.late = append(r.late, time.Since(begun)-time.Millisecond)
	}
}

// ask sends one request and records its instant.
func (r *record) ask(e *environment, caller, policy string) {
	charge, now := e.charge(caller, policy), time.Now()
	d, err := e.app.Limiter.Take(context.Background(), now, []limiter.Charge{charge})
	took := time.Since(now)
	answer := httplimit.NewAnswer(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || d.Failed != (policy == "soak/deny" && d.Reason != limiter.ReasonNone && answer.Problem != nil && answer.Problem.Status == http.StatusServiceUnavailable) {
		r.errors++ // in an outage, only the policy on_error deny may answer 503
		return
	}
	window := cell{caller, policy, now.Truncate(soakWindow).Add(soakWindow).UnixNano()}
	// The store has possibly charged the next window. ResetAfter shows the end of the charged window.
	if d.Reason == limiter.ReasonNone {
		window.end = now.Add(d.ResetAfter).UnixNano()
	}
	c := r.cells[window]
	if c == nil {
		c = &tally{}
		r.cells[window] = c
	}
	r.reasons[d.Reason]++
	switch {
	case d.Reason != limiter.ReasonNone:
		r.without = append(r.without, took)
		if c.degraded++; d.Allowed {
			c.degradedAdmitted++
		}
	case d.Allowed:
		r.took = append(r.took, took)
		c.admitted++
	default:
		r.took = append(r.took, took)
		c.refused++
	}
}

// check reports wrong answers. The store must admit at most the limit. Without the store, the
// environments must admit at most the sum of their shares. The environments must not refuse a request
// below the limit.
func (r *record) check(t *testing.T) {
	t.Helper()
	if r.errors > 0 {
		t.Errorf("wrong statuses: got %d, want 0; only on_error deny returns 5xx", r.errors)
	}
	for cell, c := range r.cells {
		if c.admitted > soakRequests {
			t.Errorf("%v: requests that the store admitted: got %d, want at most %d", cell, c.admitted, soakRequests)
		}
		switch {
		case cell.policy == "soak/deny" && c.degradedAdmitted > 0:
			t.Errorf("%v: requests admitted without the store: got %d, want 0", cell, c.degradedAdmitted)
		case (cell.policy == "soak/allow" || cell.policy == "soak/lease") && c.degradedAdmitted != c.degraded:
			t.Errorf("%v: requests admitted without the store: got %d of %d, want all", cell, c.degradedAdmitted, c.degraded)
		case cell.policy == "soak/local" && c.degradedAdmitted > soakEnvironments*soakShare:
			t.Errorf("%v: requests that the shares admitted: got %d, want at most %d", cell, c.degradedAdmitted, soakEnvironments*soakShare)
		}
		// The store can count more requests than callers see admitted. It counts a request that got no answer. It
		// counts a slow request in the next window. It counts a retried request twice.
		lost := c.degraded
		if last := r.cells[cell.last()]; last != nil {
			lost += last.degraded
		}
		// The store counts a whole lease. At the end of the window, environments can have unused quota of their
		// leases.
		if cell.policy == "soak/lease" {
			lost += soakEnvironments * soakLease
		}
		if c.refused > 0 && c.admitted+2*lost < soakRequests {
			t.Errorf("%v: requests refused below the limit: got %d, want 0; %d of %d were admitted, %d had no answer", cell, c.refused, c.admitted, soakRequests, lost)
		}
	}
}

// print logs the figures of the run.
func (r *record) print(t *testing.T) {
	t.Helper()
	admitted, refused, over := 0, 0, 0
	for _, c := range r.cells {
		admitted, refused = admitted+c.admitted+c.degradedAdmitted, refused+c.refused+c.degraded-c.degradedAdmitted
		over = max(over, c.admitted+c.degradedAdmitted-soakRequests)
	}
	t.Logf("%d requests: %d admitted, %d refused, %d errors; maximum above the limit of a caller and window: %d", len(r.took)+len(r.without), admitted, refused, r.errors, max(0, over))
	t.Logf("reasons: %v", r.reasons)
	for name, took := range map[string][]time.Duration{"decisions by the store": r.took, "decisions without the store": r.without, "sleeps that were too long": r.late} {
		if len(took) > 0 {
			slices.Sort(took)
			t.Logf("latency of %d %s: p50 %s, p99 %s, worst %s", len(took), name, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		}
	}
}
