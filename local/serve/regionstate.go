package serve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/operator"
)

// roundTrip is the time of a call of another region, without the time in its store.
const roundTrip = 80 * time.Millisecond

// regions are the regions of this process.
type regions struct {
	clock func() time.Time
	list  []*region

	mu        sync.Mutex
	transfers []regionTransfer  // the last ones
	subjects  []limiter.Subject // of these, for each one
}

func (r *regions) names() (names []string) {
	for _, one := range r.list {
		names = append(names, one.name)
	}
	return names
}

// link is the store of the region to, as the region from reaches it.
type link struct{ from, to *region }

// Debit implements limiter.Shares.
func (l link) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (moved int64, err error) {
	began := time.Now()
	defer func() {
		t := regionTransfer{At: l.from.all.clock().UTC(), Region: l.from.name, From: l.to.name, Subject: subject.String(), Limit: limit.Name,
			Moved: moved, Milliseconds: time.Since(began).Milliseconds()}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			t.Problem = "no answer of " + l.to.name
		default:
			t.Problem = err.Error()
		}
		l.from.all.keep(t, subject)
	}()
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

// cut cuts a region off from all others, or ends that. ok is false if there is no region with this name.
func (r *regions) cut(name string, cut bool) (ok bool) {
	i := slices.Index(r.names(), name)
	if i >= 0 {
		r.list[i].cut.Store(cut)
	}
	return i >= 0
}

// regionsState is the state of all regions at an instant.
type regionsState struct {
	At        time.Time        `json:"at"`
	Regions   []regionState    `json:"regions"`
	Shares    []regionShare    `json:"shares"`
	Transfers []regionTransfer `json:"transfers"` // the last ones, newest first
}

// regionState is one region.
type regionState struct {
	Name string `json:"name"`
	URL  string `json:"url"` // of its first API
	Cut  bool   `json:"cut"` // cut off from all others
}

// regionShare is what one region has of a limit of a subject, in the present window.
type regionShare struct {
	Region  string `json:"region"`
	Subject string `json:"subject"`
	Limit   string `json:"limit"`
	Rule    string `json:"rule"`
	// Base is the base share of the region, and Moved what it got from other regions, or gave if it is negative.
	Base  int64 `json:"base"`
	Moved int64 `json:"moved"`
	// Used is what the region admitted, and Remaining what it can admit without the others.
	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
}

// regionTransfer is a question of a region for share of another one, and its answer.
type regionTransfer struct {
	At           time.Time `json:"at"`
	Region       string    `json:"region"` // which asked
	From         string    `json:"from"`   // which was asked
	Subject      string    `json:"subject"`
	Limit        string    `json:"limit"`
	Moved        int64     `json:"moved"` // 0 if nothing was free, or without an answer
	Milliseconds int64     `json:"milliseconds"`
	Problem      string    `json:"problem,omitempty"` // why there is no answer
}

// maxTransfers is the number of transfers that are kept, and maxSubjects the number of their subjects that regionsState has.
const (
	maxTransfers = 100
	maxSubjects  = 10
)

func (r *regions) keep(t regionTransfer, subject limiter.Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transfers, r.subjects = append(r.transfers, t), append(r.subjects, subject)
	if more := len(r.transfers) - maxTransfers; more > 0 {
		r.transfers, r.subjects = slices.Delete(r.transfers, 0, more), slices.Delete(r.subjects, 0, more)
	}
}

// last returns the last transfers and their last subjects, newest first.
func (r *regions) last() (transfers []regionTransfer, subjects []limiter.Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	transfers = slices.Clone(r.transfers)
	slices.Reverse(transfers)
	for _, s := range slices.Backward(r.subjects) {
		if len(subjects) < maxSubjects && !slices.Contains(subjects, s) {
			subjects = append(subjects, s)
		}
	}
	return transfers, subjects
}

// regionsPath is the path of the state, and cutPath that of the switch.
const (
	regionsPath = operator.Path + "regions"
	cutPath     = regionsPath + "/cut"
)

// handle serves regionsPath and cutPath, with the names of the limits in the rules of current.
func (r *regions) handle(mux *http.ServeMux, current func() *rules.Rules, ipv6Bits int) {
	type question struct {
		Subject string `json:"subject"` // empty: the subjects of the last transfers
	}
	mux.HandleFunc("POST "+regionsPath, func(w http.ResponseWriter, q *http.Request) {
		operator.Answer(w, q, func(ctx context.Context, q question) (regionsState, error) {
			if q.Subject == "" {
				return r.state(ctx, current(), nil)
			}
			subject, err := operator.ParseSubject(q.Subject, ipv6Bits)
			if err != nil {
				return regionsState{}, err
			}
			return r.state(ctx, current(), []limiter.Subject{subject})
		})
	})
	type order struct {
		Region string `json:"region"`
		Cut    bool   `json:"cut"`
	}
	mux.HandleFunc("POST "+cutPath, func(w http.ResponseWriter, q *http.Request) {
		operator.Answer(w, q, func(ctx context.Context, o order) (regionsState, error) {
			if !r.cut(o.Region, o.Cut) {
				return regionsState{}, operator.Mistake("region: got %.40q, want one of %s", o.Region, strings.Join(r.names(), ", "))
			}
			return r.state(ctx, current(), nil)
		})
	})
}

func (r *regions) state(ctx context.Context, current *rules.Rules, subjects []limiter.Subject) (regionsState, error) {
	now := r.clock()
	transfers, recent := r.last()
	if subjects == nil {
		subjects = recent
	}
	s := regionsState{At: now.UTC(), Shares: []regionShare{}, Transfers: append([]regionTransfer{}, transfers...)}
	for _, one := range r.list {
		s.Regions = append(s.Regions, regionState{one.name, one.url, one.cut.Load()})
	}
	listed := map[limiter.ID]rules.Listed{}
	for _, l := range current.Limits() {
		listed[l.Charge.Limit.ID] = l
	}
	for _, subject := range subjects {
		shares, err := r.shares(ctx, algo.InstantOf(now), subject, listed)
		if err != nil {
			return regionsState{}, err
		}
		s.Shares = append(s.Shares, shares...)
	}
	return s, nil
}

// shares returns what each region has of the shared limits of a subject, in the order of limits and regions. A region
// whose store has no state of a limit has its base share.
func (r *regions) shares(ctx context.Context, now algo.Instant, subject limiter.Subject,
	listed map[limiter.ID]rules.Listed) (list []regionShare, err error) {
	held := make([]map[limiter.ID]algo.Result, len(r.list))
	wholes := map[limiter.ID]int64{} // the requests of the limits that a region holds
	for i, one := range r.list {
		entries, err := one.opened.Inspect(ctx, subject)
		if err != nil {
			return nil, err
		}
		held[i] = map[limiter.ID]algo.Result{}
		for _, e := range entries {
			if w, shared := e.Machine.(*algo.Shared); shared {
				held[i][e.ID], wholes[e.ID] = e.Result, w.Whole.Requests
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wholes)) {
		l, whole := listed[id], wholes[id] // l is the zero value if the rules no longer have the limit
		for i, one := range r.list {
			s := regionShare{Region: one.name, Subject: subject.String(), Rule: strings.TrimSpace(l.Method + " " + l.Endpoint)}
			if l.Charge.Limit != nil {
				s.Limit = l.Charge.Limit.Name
			}
			s.Base = algo.Regions{Of: len(r.list), Place: i}.Base(whole)
			s.Remaining = s.Base
			if h, ok := held[i][id]; ok {
				w := h.Machine.(*algo.Shared)
				s.Moved, s.Used, s.Remaining = -w.At(h.State, now).Moved(), w.Used(h.State, now), w.Remaining(h.State, now)
			}
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b regionShare) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit)) })
	return list, nil
}
