package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// noticed collects the notices of several Limiters.
type noticed struct {
	mu   sync.Mutex
	list []limiter.Notice
}

func (n *noticed) write(_ context.Context, one limiter.Notice) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, one)
	return nil
}

// take removes the collected notices and returns them as texts: the percentage and the usage.
func (n *noticed) take() (short []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.list {
		short = append(short, fmt.Sprintf("%d%% at %d", one.Percent, one.Used))
	}
	n.list = nil
	return short
}

// quota has several Limiters, as in several processes, and a limit with Notify.
type quota struct {
	noticed
	store    limiter.Store
	limiters []*limiter.Limiter
	charge   limiter.Charge
	now      time.Time
}

// newQuota returns a quota of 10 requests that writes notices at 80 and 100 percent.
func newQuota(open opener, rate algo.Rate) *quota {
	l := Must(limiter.NewLimit(limiter.Limit{Name: "quota", Rate: rate, Version: 1, Notify: limiter.Percentages{80, 100}}))
	q := &quota{charge: limiter.Charge{Subject: subject(), Limit: l, Cost: 1}, now: start.Time(), store: open()}
	for range 3 {
		q.limiters = append(q.limiters, Must(limiter.New(q.store, limiter.Options{Notify: q.write})))
	}
	return q
}

// request makes a request of the given cost in process i.
func (q *quota) request(t *testing.T, i int, cost int64) (limiter.Decision, *limiter.Receipt) {
	t.Helper()
	c := q.charge
	c.Cost = cost
	d, receipt, err := q.limiters[i].TakeRefundable(ctx, q.now, []limiter.Charge{c})
	if err != nil || d.Reason != limiter.ReasonNone {
		t.Fatalf("request: got reason %q and error %v, want a decision of the store", d.Reason, err)
	}
	return d, receipt
}

// want fails the test unless exactly these notices were written since the last call.
func (q *quota) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := q.take(); !slices.Equal(got, want) {
		t.Fatalf("%s: got notices %q, want %q", when, got, want)
	}
}

var noticeRates = []algo.Rate{
	{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour},
	{Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Hour},
	{Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Hour, Counts: true},
	{Algorithm: algo.FixedWindow, Requests: 10, Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin", Anchor: "31"}},
}

// testNotices checks that processes that share a store write each notice once in a period.
func testNotices(t *testing.T, open opener, rate algo.Rate) {
	t.Run("Sequential", func(t *testing.T) { testNoticesSequential(t, newQuota(open, rate)) })
	t.Run("Repeated", func(t *testing.T) { testNoticesRepeated(t, newQuota(open, rate)) })
	t.Run("Corrected", func(t *testing.T) { testNoticesCorrected(t, newQuota(open, rate)) })
	t.Run("Settled", func(t *testing.T) { testNoticesSettled(t, newQuota(open, rate)) })
	rate.Requests = 60
	t.Run("Concurrent", func(t *testing.T) { testNoticesConcurrent(t, newQuota(open, rate)) })
}

// Each percentage causes one notice in each period. One request can reach several percentages.
func testNoticesSequential(t *testing.T, q *quota) {
	for period := range 2 {
		for i := range 12 {
			d, _ := q.request(t, i%3, 1)
			if d.Allowed != (i < 10) {
				t.Fatalf("request %d: got allowed %t, want %t", i+1, d.Allowed, i < 10)
			}
			q.now = q.now.Add(time.Millisecond)
		}
		q.want(t, fmt.Sprintf("period %d", period), "80% at 8", "100% at 10")
		q.now = q.now.Add(3 * q.charge.Limit.WindowAt(q.now))
	}
	q.request(t, 0, 10)
	q.want(t, "one request", "80% at 10", "100% at 10")
}

// If the process that crosses a percentage does not write the notice, another process writes it after the
// grace time, with the same ID. A notice with a flag in the store is not repeated.
func testNoticesRepeated(t *testing.T, q *quota) {
	var lost limiter.Notice
	failing := func(_ context.Context, n limiter.Notice) error {
		lost = n
		return errors.New("the process ended")
	}
	crashing := Must(limiter.New(q.store, limiter.Options{Notify: failing}))
	c := q.charge
	c.Cost = 8
	if _, err := crashing.Take(ctx, q.now, []limiter.Charge{c}); err != nil || lost.Percent != 80 {
		t.Fatalf("got notice %+v and error %v, want the notice of 80%%", lost, err)
	}
	for _, step := range []struct {
		process int
		after   time.Duration
		want    []string
	}{
		{0, 0, nil}, {0, 9 * time.Second, nil}, {1, 0, nil}, {0, time.Second, []string{"80% at 8"}},
		{0, time.Minute, nil}, {1, 0, nil}, {2, 0, nil}, {2, time.Minute, nil},
	} {
		q.now = q.now.Add(step.after)
		q.request(t, step.process, 0)
		if len(step.want) > 0 {
			if got, want := q.list[0].ID("x"), lost.ID("x"); got != want {
				t.Fatalf("repeated notice: got ID %s, want %s", got, want)
			}
		}
		q.want(t, fmt.Sprintf("process %d after %s", step.process, step.after), step.want...)
	}
}

// If the usage falls below a percentage and reaches it again, there is no second notice in the period.
func testNoticesCorrected(t *testing.T, q *quota) {
	q.request(t, 0, 7)
	_, receipt := q.request(t, 0, 2)
	q.want(t, "first crossing", "80% at 9")
	receipt.Refund(ctx, q.now)
	q.request(t, 1, 2) // in a process that does not know that the notice was written
	q.request(t, 2, 1)
	q.want(t, "second crossing", "100% at 10")
}

// A settlement that crosses a percentage writes the notice. A settlement into a debt writes none, because
// the largest percentage is 100.
func testNoticesSettled(t *testing.T, q *quota) {
	q.request(t, 0, 4)
	_, receipt := q.request(t, 1, 1)
	q.want(t, "before the settlement")
	receipt.Settle(ctx, q.now, func(limiter.Charge) int64 { return 2 })
	q.want(t, "settlement below the percentages")
	_, receipt = q.request(t, 1, 1)
	receipt.Settle(ctx, q.now, func(limiter.Charge) int64 { return 3 })
	q.want(t, "settlement at 9", "80% at 9")
	_, receipt = q.request(t, 2, 1)
	q.want(t, "request at 10", "100% at 10")
	receipt.Settle(ctx, q.now, func(limiter.Charge) int64 { return 7 })
	q.want(t, "settlement into a debt")
}

// Of concurrent requests in several processes, exactly one writes the notice of a percentage.
func testNoticesConcurrent(t *testing.T, q *quota) {
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for busy := true; busy; { // requests that lost all races for the item have charged nothing
				d, err := q.limiters[i%3].Take(ctx, q.now, []limiter.Charge{q.charge})
				if busy = d.Reason == limiter.ReasonBusy; err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := q.take()
	slices.Sort(got)
	if want := []string{"100% at 60", "80% at 48"}; !slices.Equal(got, want) {
		t.Fatalf("64 concurrent requests: got %q, want %q", got, want)
	}
}
