package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/local/operator"
)

// roundTrip is the time of a call of another region, without the time in its store.
const roundTrip = 80 * time.Millisecond

// link is the store of the region to, as the region from reaches it.
type link struct{ from, to *region }

// Debit implements limiter.Shares.
func (l link) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (moved int64, err error) {
	if err := l.travel(ctx); err != nil {
		return 0, err
	}
	moved, err = l.to.shares.Debit(ctx, now, subject, limit, index, lack, seen)
	if err != nil {
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
		t := time.NewTimer(roundTrip / 2)
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

func (r *regions) names() (names []string) {
	for _, one := range r.list {
		names = append(names, one.name)
	}
	return names
}

// cut cuts a region off from all others, or ends that. ok is false if there is no region with this name.
func (r *regions) cut(name string, cut bool) (ok bool) {
	i := slices.Index(r.names(), name)
	if i >= 0 {
		r.list[i].cut.Store(cut)
	}
	return i >= 0
}

// cutPath is the path of the switch.
const cutPath = operator.Path + "regions/cut"

// order cuts a region off, or connects it.
type order struct {
	Region string `json:"region"`
	Cut    bool   `json:"cut"`
}

// handle serves cutPath.
func (r *regions) handle(mux *http.ServeMux) {
	mux.HandleFunc("POST "+cutPath, func(w http.ResponseWriter, q *http.Request) {
		operator.Answer(w, q, func(_ context.Context, o order) (order, error) {
			if !r.cut(o.Region, o.Cut) {
				return o, operator.Mistake("region: got %.40q, want one of %s", o.Region, strings.Join(r.names(), ", "))
			}
			return o, nil
		})
	})
}
