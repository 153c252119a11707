package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// Sync plays nodes that share a limit and bring their counts together only every so often
// (limiter.Spread.Sync): what they admit too much in one window of a second.
//
// Each node gets Offered requests a second, evenly; those of the second node come a little
// after those of the first, and so on. A node asks the store at its first request and then
// at its first after Interval: it reports what it has admitted, and learns what others have
// reported. Between two times it admits what it then knew to remain. So the first that asks
// sees room that others have used and not yet reported.
//
// With an Interval of 0 every request asks, and none is admitted too many. With one as long
// as the window no node hears of another: Nodes times Limit, if so many are offered. With
// the parameters of All, 3 nodes that offer 90 a second each, synchronized every 400 ms, admit
// 36 each until they first synchronize; the first to do so sees only its own 36 and admits
// 24 more: 132 of 60. (It would be 108 if all had reported before any of them read.)
type Sync struct {
	Limit    int64 // requests a second, of all nodes together
	Nodes    int64
	Interval int64 // ms
	Offered  int64 // requests a second, to each node
}

// SyncResult is what nodes admitted within one window.
type SyncResult struct {
	Limit int64 `json:"limit"`
	SyncCount
	PerNode []int `json:"per_node"`
	// Steps are how many had been admitted by each node, every 20 ms.
	Steps []SyncStep `json:"steps"`
	// Sweep is the same by other intervals.
	Sweep []SyncCount `json:"sweep"`
}

// SyncCount is how many were admitted with an interval, how many of them too many, and by
// how many calls of the store.
type SyncCount struct {
	Interval   int64 `json:"interval_ms"`
	Admitted   int   `json:"admitted"`
	Overshoot  int   `json:"overshoot"`
	StoreCalls int   `json:"store_calls"`
}

// SyncStep is how many each node has admitted until an instant.
type SyncStep struct {
	At      Milliseconds `json:"at_ms"`
	PerNode []int        `json:"per_node"`
}

const (
	syncWindow = time.Second
	syncStep   = 20 * time.Millisecond
)

// Name implements Scenario.
func (s *Sync) Name() string { return "sync" }

// Parameters implements Scenario.
func (s *Sync) Parameters() []Parameter {
	return []Parameter{
		{"limit", "Limit, requests a second", &s.Limit, 1, 200},
		{"nodes", "Nodes", &s.Nodes, 1, 10},
		{"interval_ms", "Sync interval, ms; 0 is none", &s.Interval, 0, 1000},
		{"offered", "Requests a second to each node", &s.Offered, 1, 300},
	}
}

// Play implements Scenario: its result is a SyncResult.
func (s *Sync) Play() (any, error) {
	if least := limiter.MinSync.Milliseconds(); s.Interval > 0 && s.Interval < least {
		return nil, fmt.Errorf("interval_ms: got %d, want 0, or %d to %d", s.Interval, least, syncWindow.Milliseconds())
	}
	result, err := s.window(s.Interval)
	if err != nil {
		return nil, err
	}
	for _, interval := range []int64{0, 10, 50, 100, 200, 400, 600, 800, 1000} {
		other, err := s.window(interval)
		if err != nil {
			return nil, err
		}
		result.Sweep = append(result.Sweep, other.SyncCount)
	}
	return result, nil
}

// shared is a store that counts as one on a network, which is what nodes would share.
type shared struct{ limiter.Store }

// window plays one window.
func (s *Sync) window(interval int64) (SyncResult, error) {
	limit, err := limiter.NewLimit(limiter.Limit{Name: "demo",
		Rate:   algo.Rate{Algorithm: algo.FixedWindow, Requests: s.Limit, Window: syncWindow},
		Spread: limiter.Spread{Sync: time.Duration(interval) * time.Millisecond}})
	if err != nil {
		return SyncResult{}, err
	}
	store, err := memstore.New(memstore.Options{Subjects: 1})
	if err != nil {
		return SyncResult{}, err
	}
	nodes := make([]*limiter.Limiter, s.Nodes)
	for i := range nodes {
		if nodes[i], err = limiter.New(shared{store}, limiter.Options{}); err != nil {
			return SyncResult{}, err
		}
	}
	charges := []limiter.Charge{{Subject: caller, Limit: limit, Cost: 1}}
	result, start := SyncResult{Limit: s.Limit, SyncCount: SyncCount{Interval: interval}, PerNode: make([]int, s.Nodes)}, first(syncWindow)
	for i := range s.Offered * s.Nodes { // the nodes take turns
		at := time.Duration(i) * syncWindow / time.Duration(s.Offered*s.Nodes)
		result.stepTo(at)
		decision, err := nodes[i%s.Nodes].Take(context.Background(), start.Add(at), charges)
		if err != nil {
			return SyncResult{}, err
		}
		result.StoreCalls += decision.StoreCalls
		if decision.Allowed {
			result.PerNode[i%s.Nodes]++
			result.Admitted++
		}
	}
	result.stepTo(syncWindow)
	result.Overshoot = max(0, result.Admitted-int(s.Limit))
	return result, nil
}

// stepTo notes the steps that are not after an instant.
func (r *SyncResult) stepTo(at time.Duration) {
	for next := time.Duration(len(r.Steps)) * syncStep; next <= at; next += syncStep {
		r.Steps = append(r.Steps, SyncStep{milliseconds(next), append([]int(nil), r.PerNode...)})
	}
}
