package storetest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// newOnce returns a new ID that expires a minute after the given instant.
func newOnce(at algo.Instant) limiter.Once {
	return limiter.Once{ID: limiter.NewVoucherID(), Expires: at.Add(time.Minute)}
}

// portable returns results as a Voucher has them: without the entries of logs.
func portable(results []algo.Result) (list []algo.Result) {
	for _, r := range results {
		r.State.Entries = ""
		list = append(list, r)
	}
	return list
}

// testOnce settles a charge with an ID several times, at different costs. Only the first settlement
// counts, even if a repetition comes at once, late, or after a settlement with another ID.
func testOnce(t *testing.T, s Suite, rate algo.Rate) {
	for _, actual := range [][]int64{{0, 6}, {4, 1}, {9, 2}, {9, 6}, {25, 1 << 30}} {
		for _, apart := range []time.Duration{0, 10 * time.Second} {
			p := newPair(t, s)
			charges := []limiter.Charge{{Limit: Limit(t, "a", rate), Cost: 6}, {Limit: Limit(t, "b", rate), Cost: 6}}
			_, results := p.take(t, start, charges, nil)
			once, other := newOnce(start), newOnce(start)
			corrected, of := corrections(charges, portable(results), actual)
			if err := p.settleOnce(t, start.Add(apart), corrected, of, apart, once); err != nil {
				t.Fatalf("first settlement: got %v, want none", err)
			}
			p.inspect(t)
			for _, costs := range [][]int64{actual, {0, 0}, {12, 0}} {
				corrected, of := corrections(charges, portable(results), costs)
				if err := p.settleOnce(t, start.Add(apart), corrected, of, apart, once); !errors.Is(err, limiter.ErrVoucherUsed) {
					t.Fatalf("settled again: got %v, want %v", err, limiter.ErrVoucherUsed)
				}
				p.inspect(t)
			}
			more := []limiter.Charge{{Limit: charges[0].Limit, Cost: 1, Force: true}}
			for _, want := range []error{nil, limiter.ErrVoucherUsed} {
				if err := p.settleOnce(t, start.Add(apart), more, results[:1], apart, other); !errors.Is(err, want) {
					t.Fatalf("settlement with another ID: got %v, want %v", err, want)
				}
			}
			if err := p.settleOnce(t, start.Add(50*time.Second), corrected, of, apart, once); !errors.Is(err, limiter.ErrVoucherUsed) {
				t.Fatalf("settled again, late: got %v, want %v", err, limiter.ErrVoucherUsed)
			}
			p.inspect(t)
		}
	}
}

// testOnceReset resets a subject and charges it again. A settlement from before the reset is not applied to
// the new charge.
func testOnceReset(t *testing.T, s Suite, rate algo.Rate) {
	p, charges := newPair(t, s), one(Limit(t, "a", rate), 6)
	_, results := p.take(t, start, charges, nil)
	refund, of := corrections(charges, portable(results), []int64{2})
	once := newOnce(start)
	for i := range 3 {
		if err := p.settleOnce(t, start, refund, of, 0, once); (err == nil) != (i == 0) {
			t.Fatalf("settlement after %d resets: got %v", i, err)
		}
		p.inspect(t)
		p.reset(t)
		p.inspect(t)
		p.take(t, start, charges, nil)
		if err := p.settleOnce(t, start, []limiter.Charge{{Limit: charges[0].Limit, Cost: 1, Force: true}}, of, 0, newOnce(start)); err != nil {
			t.Fatalf("settlement after a reset, with a new ID: got %v, want none", err)
		}
	}
}

// testOnceUnsafe makes settlements whose refunds are not safe. They change nothing, so a store need not keep their
// ID.
func testOnceUnsafe(t *testing.T, s Suite) {
	for _, rate := range rates {
		p, charges := newPair(t, s), one(Limit(t, "a", rate), 6)
		_, results := p.take(t, start, charges, nil)
		p.reset(t)
		once := newOnce(start)
		for range 2 {
			if err := p.settleOnce(t, start, charges, portable(results), 0, once); err != nil && !errors.Is(err, limiter.ErrVoucherUsed) {
				t.Fatalf("%s: refund of an unknown subject: got %v, want none or %v", nameOf(rate), err, limiter.ErrVoucherUsed)
			}
			if entries := p.inspect(t); len(entries) > 0 {
				t.Fatalf("%s: got %+v after a refund of an unknown subject, want no limits", nameOf(rate), entries)
			}
		}
	}
}

// testOnceForgotten settles requests for ten minutes, so that a store forgets expired IDs. Then all
// settlements arrive again, late: none is applied, not even after a reset and a new charge.
func testOnceForgotten(t *testing.T, s Suite) {
	p, l := newPair(t, s), Limit(t, "a", algo.Rate{Algorithm: algo.FixedWindow, Requests: 1000, Window: 24 * time.Hour})
	charges := one(l, 2)
	_, results := p.take(t, start, charges, nil)
	refund, of := corrections(charges, portable(results), []int64{1})
	type sent struct {
		at   algo.Instant
		once limiter.Once
	}
	var all []sent
	for i := range 60 {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		p.take(t, at, charges, nil)
		all = append(all, sent{at, newOnce(at)})
		if err := p.settleOnce(t, at, refund, of, 0, all[i].once); err != nil {
			t.Fatalf("settlement %d: got %v, want none", i, err)
		}
	}
	for range 2 {
		for i, m := range all {
			if err := p.settleOnce(t, m.at, refund, of, 0, m.once); err == nil {
				t.Errorf("settlement %d arrived again: got no error, want %v or %v", i, limiter.ErrVoucherUsed, limiter.ErrVoucherExpired)
			}
		}
		p.inspect(t)
		p.reset(t)
		p.take(t, start, charges, nil)
	}
}

// testOnceMinute settles a thousand requests of one subject in a minute. Every settlement counts exactly once.
func testOnceMinute(t *testing.T, s Suite) {
	p, l := newPair(t, s), Limit(t, "a", algo.Rate{Algorithm: algo.FixedWindow, Requests: 10_000, Window: 24 * time.Hour})
	const settlements = 1000
	charges := one(l, settlements)
	_, results := p.take(t, start, charges, nil)
	more := []limiter.Charge{{Limit: l, Cost: 3, Force: true}}
	for i := range settlements {
		correction, at := more, start.Add(time.Duration(i)*time.Minute/settlements)
		if i%4 == 0 {
			correction = one(l, 1)
		}
		once := newOnce(at.Add(15 * time.Minute))
		for _, want := range []error{nil, limiter.ErrVoucherUsed} {
			if err := p.settleOnce(t, at, correction, results, 0, once); !errors.Is(err, want) {
				t.Fatalf("settlement %d of a minute: got %v, want %v", i+1, err, want)
			}
			if i%100 > 0 {
				break
			}
		}
	}
	want := int64(settlements + 3*settlements*3/4 - settlements/4)
	if entries := p.inspect(t); entries[0].State.Count != want {
		t.Errorf("got a count of %d, want %d", entries[0].State.Count, want)
	}
}

// testOnceExpired settles with an ID at its expiry, and one nanosecond before. An expired ID changes nothing.
func testOnceExpired(t *testing.T, s Suite) {
	p, l := newPair(t, s), Limit(t, "a", algo.Rate{Requests: 1000, Window: time.Hour})
	_, results := p.take(t, start, one(l, 1), nil)
	more := []limiter.Charge{{Limit: l, Cost: 1, Force: true}}
	for _, c := range []struct {
		late time.Duration
		want error
	}{{-1, nil}, {0, limiter.ErrVoucherExpired}, {algo.MaxSkew, limiter.ErrVoucherExpired}} {
		if err := p.settleOnce(t, start.Add(c.late), more, results, 0, limiter.Once{ID: limiter.NewVoucherID(), Expires: start}); !errors.Is(err, c.want) {
			t.Errorf("settlement %s after the expiry: got %v, want %v", c.late, err, c.want)
		}
		p.inspect(t)
	}
}

// testConcurrentOnce settles one charge 64 times and other charges twice, all at the same time. Each charge is
// settled exactly once.
func testConcurrentOnce(t *testing.T, s Suite, rate algo.Rate) {
	const charged, senders, others = 3, 64, 8
	rate.Requests, rate.Burst = 100, 0
	store, who, limit := s.Open(t), subject(), Limit(t, "a", rate)
	type settlement struct {
		charges []limiter.Charge
		results []algo.Result
		once    limiter.Once
		applied atomic.Int64
	}
	all := make([]settlement, 1+others)
	for i := range all {
		results := make([]algo.Result, 1)
		charges := []limiter.Charge{{Subject: who, Limit: limit, Cost: charged}}
		if taken, err := store.Take(ctx, start, who, charges, results); err != nil || !taken {
			t.Fatal(taken, err)
		}
		actual := []int64{5, 2}[i%2] // windows and logs refund exactly; a bucket that was used refunds nothing below its margin
		if _, bucket := results[0].Machine.(*algo.Bucket); bucket {
			actual = 5
		}
		all[i].once = newOnce(start)
		all[i].charges, all[i].results = corrections(charges, portable(results), []int64{actual})
	}
	together(t, senders+2*others, func(i int) {
		of := &all[0]
		if i >= senders {
			of = &all[1+(i-senders)/2]
		}
		for {
			_, err := store.Settle(ctx, start, who, of.charges, of.results, 0, of.once)
			switch {
			case errors.Is(err, limiter.ErrVoucherBegun): // the other message makes the settlement
			case errors.Is(err, limiter.ErrContended):
				continue
			case err == nil:
				of.applied.Add(1)
			case !errors.Is(err, limiter.ErrVoucherUsed):
				t.Errorf("sender %d: got %v, want none or %v", i, err, limiter.ErrVoucherUsed)
			}
			return
		}
	})
	want := int64(0)
	for i := range all {
		if n := all[i].applied.Load(); n != 1 {
			t.Errorf("charge %d: got %d settlements, want 1", i, n)
		}
		if want += charged - all[i].charges[0].Cost; all[i].charges[0].Force {
			want += 2 * all[i].charges[0].Cost
		}
	}
	if r := read(t, store, start, who, limit)[0]; r.Machine.Used(r.State, start) != want {
		t.Errorf("got a count of %d, want %d", r.Machine.Used(r.State, start), want)
	}
}
