package regions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// RoundTrip is the time of a call of another region, without the time in its store.
const RoundTrip = 80 * time.Millisecond

// Regions are the regions of a local run. Join each of them before the first request. After that, Regions are safe for
// concurrent use.
type Regions struct {
	clock func() time.Time
	all   []*region

	mu        sync.Mutex
	transfers []Transfer        // the last ones
	subjects  []limiter.Subject // of these, for each one
}

type region struct {
	name, url string
	store     limiter.Store
	shares    limiter.Shares
	cut       atomic.Bool // no message passes between this region and others
}

// New returns n regions, which have the names region-1, region-2 and so on.
func New(n int, clock func() time.Time) *Regions {
	r := &Regions{clock: clock}
	for i := range n {
		r.all = append(r.all, &region{name: fmt.Sprintf("region-%d", i+1)})
	}
	return r
}

// Names returns the names of all regions, in their order.
func (r *Regions) Names() (names []string) {
	for _, one := range r.all {
		names = append(names, one.name)
	}
	return names
}

// Join sets the store of the region at a place.
func (r *Regions) Join(place int, store limiter.Store) error {
	shares, ok := limiter.SharesOf(store)
	if !ok {
		return errors.New("regions: got a store that cannot move share, want memory or dynamodb")
	}
	r.all[place].store, r.all[place].shares = store, shares
	return nil
}

// SetURL sets the URL of the first API of the region at a place.
func (r *Regions) SetURL(place int, url string) { r.all[place].url = url }

// Others returns the stores of the regions as the region at a place reaches them; nil for the region itself.
func (r *Regions) Others(place int) []limiter.Shares {
	others := make([]limiter.Shares, len(r.all))
	for i, to := range r.all {
		if i != place {
			others[i] = link{r, r.all[place], to}
		}
	}
	return others
}

// link is the store of a region as another region reaches it.
type link struct {
	all      *Regions
	from, to *region // from asks
}

// Debit implements limiter.Shares.
func (l link) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64, seen *algo.Result) (moved int64, err error) {
	began := time.Now()
	defer func() {
		t := Transfer{At: l.all.clock().UTC(), Region: l.from.name, From: l.to.name, Subject: subject.String(), Limit: limit.Name, Moved: moved, Milliseconds: time.Since(began).Milliseconds()}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			t.Problem = "no answer of " + l.to.name
		default:
			t.Problem = err.Error()
		}
		l.all.keep(t, subject)
	}()
	if err := l.travel(ctx); err != nil {
		return 0, err
	}
	if moved, err = l.to.shares.Debit(ctx, now, subject, limit, index, lack, seen); err != nil {
		return 0, err
	}
	if err := l.travel(ctx); err != nil { // the answer is lost, and so is the share
		return 0, err
	}
	return moved, nil
}

// Credit implements limiter.Shares. A region credits only its own store.
func (link) Credit(context.Context, algo.Instant, limiter.Subject, *limiter.Limit, int64, int64) (algo.Result, bool, error) {
	return algo.Result{}, false, fmt.Errorf("%w: a credit is only for the store of its own region", limiter.ErrNotSent)
}

// travel waits until a message has arrived. If the link is cut, it waits until ctx ends.
func (l link) travel(ctx context.Context) error {
	var arrived <-chan time.Time
	if !l.from.cut.Load() && !l.to.cut.Load() {
		t := time.NewTimer(RoundTrip / 2)
		defer t.Stop()
		arrived = t.C
	}
	select {
	case <-arrived:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %s: %w", limiter.ErrUnavailable, l.to.name, ctx.Err())
	}
}

// Cut cuts a region off from all others, or ends that. ok is false if there is no region with this name.
func (r *Regions) Cut(name string, cut bool) (ok bool) {
	for _, one := range r.all {
		if one.name == name {
			one.cut.Store(cut)
			return true
		}
	}
	return false
}
