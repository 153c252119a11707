package scenario

import (
	"fmt"
	"time"
)

// Sync plays nodes that share a limit, each counting alone and synchronizing its count at an interval. It shows how many
// requests they admit over the limit in one window of a second. Weir's sync_ms instead divides the limit by demand.
//
// Each node gets Offered requests a second, at equal intervals, and the nodes take turns. A node
// calls the store at its first request, and then at its first request after each Interval. The call
// reports the node's admitted requests and returns the total of all reports. Until its next call,
// the node admits up to the remaining quota. Meanwhile, the node does not know what the other nodes
// admit.
//
// With an Interval of 0, every request calls the store, and no admitted request is over the limit.
// With an Interval as long as the window, the nodes admit up to Nodes times Limit.
//
// With the parameters of All, 3 nodes get 90 requests a second each and synchronize every 400 ms.
// Each node admits 36 requests before its second call. At its second call, the first node reads a
// total of 36, which is only its own report, and admits 24 more. All nodes together admit 132, with
// a limit of 60. (If every node reported before any node read, they would admit 108.)
type Sync struct {
	Limit    int64 // requests per second that all nodes together may admit
	Nodes    int64
	Interval int64 // sync interval in milliseconds
	Offered  int64 // requests per second that arrive at each node
}

// SyncResult is the outcome of one window with the chosen sync interval, and a comparison with
// other intervals.
type SyncResult struct {
	Limit int64 `json:"limit"`
	SyncCount
	PerNode []int `json:"perNode"`
	// Steps has the number of requests that each node has admitted, every 20 ms of the window.
	Steps []SyncStep `json:"steps"`
	// Sweep has the totals of the same window for sync intervals from 0 to 1000 ms.
	Sweep []SyncCount `json:"sweep"`
}

// SyncCount has the totals for one sync interval: admitted requests, admitted requests over the
// limit, and store calls.
type SyncCount struct {
	Interval   int64 `json:"intervalMs"`
	Admitted   int   `json:"admitted"`
	Overshoot  int   `json:"overshoot"`
	StoreCalls int   `json:"storeCalls"`
}

// SyncStep has the number of requests that each node has admitted up to a time.
type SyncStep struct {
	At      Milliseconds `json:"atMs"`
	PerNode []int        `json:"perNode"`
}

const (
	syncWindow    = time.Second
	syncStep      = 20 * time.Millisecond
	leastInterval = 10 // milliseconds
)

// Name implements Scenario.
func (s *Sync) Name() string { return "sync" }

// Parameters implements Scenario.
func (s *Sync) Parameters() []Parameter {
	return []Parameter{
		{"limit", "Limit, requests a second", &s.Limit, 1, 200},
		{"nodes", "Nodes", &s.Nodes, 1, 10},
		{"intervalMs", "Sync interval, ms; 0: every request", &s.Interval, 0, 1000},
		{"offered", "Requests a second to each node", &s.Offered, 1, 300},
	}
}

// Play implements Scenario. Its result is a SyncResult.
func (s *Sync) Play() (any, error) {
	if s.Interval > 0 && s.Interval < leastInterval {
		return nil, fmt.Errorf("intervalMs: got %d, want 0, or %d to %d", s.Interval, leastInterval, syncWindow.Milliseconds())
	}
	result := s.window(s.Interval)
	for _, interval := range []int64{0, 10, 50, 100, 200, 400, 600, 800, 1000} {
		result.Sweep = append(result.Sweep, s.window(interval).SyncCount)
	}
	return result, nil
}

// node is a process that counts alone and reports at an interval.
type node struct {
	synced            time.Duration
	known             bool
	total, unreported int64 // what the node knows of the window, and what of it the store does not know
}

// take decides a request at a time of the window. It reports whether it called the store, whose total is in stored.
func (n *node) take(at, interval time.Duration, limit int64, stored *int64) (allowed, called bool) {
	called = !n.known || at-n.synced >= interval && (interval > 0 || n.total < limit)
	if called {
		*stored += n.unreported
		n.total, n.unreported, n.synced, n.known = *stored, 0, at, true
	}
	allowed = n.total < limit
	if allowed {
		n.total++
		n.unreported++
	}
	if interval == 0 { // each request is a charge of the store
		*stored, n.unreported = n.total, 0
	}
	return allowed, called
}

// window plays one window of a limit with a sync interval in milliseconds.
func (s *Sync) window(interval int64) SyncResult {
	nodes, stored := make([]node, s.Nodes), int64(0)
	result := SyncResult{Limit: s.Limit, SyncCount: SyncCount{Interval: interval}, PerNode: make([]int, s.Nodes)}
	for i := range s.Offered * s.Nodes { // the nodes get requests in turn
		at := time.Duration(i) * syncWindow / time.Duration(s.Offered*s.Nodes)
		result.stepTo(at)
		allowed, called := nodes[i%s.Nodes].take(at, time.Duration(interval)*time.Millisecond, s.Limit, &stored)
		if called {
			result.StoreCalls++
		}
		if allowed {
			result.PerNode[i%s.Nodes]++
			result.Admitted++
		}
	}
	result.stepTo(syncWindow)
	result.Overshoot = max(0, result.Admitted-int(s.Limit))
	return result
}

func (r *SyncResult) stepTo(at time.Duration) {
	for next := time.Duration(len(r.Steps)) * syncStep; next <= at; next += syncStep {
		r.Steps = append(r.Steps, SyncStep{milliseconds(next), append([]int(nil), r.PerNode...)})
	}
}
