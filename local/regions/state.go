package regions

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/operator"
)

// State is the state of all regions at an instant.
type State struct {
	At        time.Time  `json:"at"`
	Regions   []Region   `json:"regions"`
	Shares    []Share    `json:"shares"`
	Transfers []Transfer `json:"transfers"` // the last ones, newest first
}

// Region is one region.
type Region struct {
	Name string `json:"name"`
	URL  string `json:"url"` // of its first API
	Cut  bool   `json:"cut"` // cut off from all others
}

// Share is what one region has of a limit of a subject, in the present window.
type Share struct {
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

// Transfer is a question of a region for share of another one, and its answer.
type Transfer struct {
	At           time.Time `json:"at"`
	Region       string    `json:"region"` // which asked
	From         string    `json:"from"`   // which was asked
	Subject      string    `json:"subject"`
	Limit        string    `json:"limit"`
	Moved        int64     `json:"moved"` // 0 if nothing was free, or without an answer
	Milliseconds int64     `json:"milliseconds"`
	Problem      string    `json:"problem,omitempty"` // why there is no answer
}

// maxTransfers is the number of transfers that are kept, and maxSubjects the number of their subjects that State has.
const (
	maxTransfers = 100
	maxSubjects  = 10
)

func (r *Regions) keep(t Transfer, subject limiter.Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transfers, r.subjects = append(r.transfers, t), append(r.subjects, subject)
	if more := len(r.transfers) - maxTransfers; more > 0 {
		r.transfers, r.subjects = slices.Delete(r.transfers, 0, more), slices.Delete(r.subjects, 0, more)
	}
}

// last returns the last transfers and their last subjects, newest first.
func (r *Regions) last() (transfers []Transfer, subjects []limiter.Subject) {
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

// Path is the path of the state, and CutPath that of the switch.
const (
	Path    = operator.Path + "regions"
	CutPath = Path + "/cut"
)

type question struct {
	Subject string `json:"subject"` // empty: the subjects of the last transfers
}

type order struct {
	Region string `json:"region"`
	Cut    bool   `json:"cut"`
}

// Handler serves Path and CutPath, with the names of the limits in the rules of current. The caller must protect it; see
// operator.Handler.
func (r *Regions) Handler(current func() *rules.Rules, ipv6Bits int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, q *http.Request) {
		operator.Answer(w, q, func(ctx context.Context, q question) (State, error) {
			if q.Subject == "" {
				return r.state(ctx, current(), nil)
			}
			subject, err := operator.ParseSubject(q.Subject, ipv6Bits)
			if err != nil {
				return State{}, err
			}
			return r.state(ctx, current(), []limiter.Subject{subject})
		})
	})
	mux.HandleFunc("POST "+CutPath, func(w http.ResponseWriter, q *http.Request) {
		operator.Answer(w, q, func(ctx context.Context, o order) (State, error) {
			if !r.Cut(o.Region, o.Cut) {
				return State{}, operator.Mistake("region: got %.40q, want one of %s", o.Region, strings.Join(r.Names(), ", "))
			}
			return r.state(ctx, current(), nil)
		})
	})
	return mux
}

func (r *Regions) state(ctx context.Context, current *rules.Rules, subjects []limiter.Subject) (State, error) {
	now := r.clock()
	transfers, recent := r.last()
	if subjects == nil {
		subjects = recent
	}
	s := State{At: now.UTC(), Shares: []Share{}, Transfers: append([]Transfer{}, transfers...)}
	for _, one := range r.all {
		s.Regions = append(s.Regions, Region{one.name, one.url, one.cut.Load()})
	}
	listed := map[limiter.ID]rules.Listed{}
	for _, l := range current.Limits() {
		listed[l.Charge.Limit.ID] = l
	}
	for _, subject := range subjects {
		shares, err := r.shares(ctx, algo.InstantOf(now), subject, listed)
		if err != nil {
			return State{}, err
		}
		s.Shares = append(s.Shares, shares...)
	}
	return s, nil
}

// shares returns what each region has of the shared limits of a subject, in the order of limits and regions. A region
// whose store has no state of a limit has its base share.
func (r *Regions) shares(ctx context.Context, now algo.Instant, subject limiter.Subject, listed map[limiter.ID]rules.Listed) (list []Share, err error) {
	held := make([]map[limiter.ID]algo.Result, len(r.all))
	wholes := map[limiter.ID]int64{} // the requests of the limits that a region holds
	for i, one := range r.all {
		entries, err := one.store.Inspect(ctx, subject)
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
		for i, one := range r.all {
			s := Share{Region: one.name, Subject: subject.String(), Rule: strings.TrimSpace(l.Method + " " + l.Endpoint)}
			if l.Charge.Limit != nil {
				s.Limit = l.Charge.Limit.Name
			}
			s.Base = algo.Regions{Of: len(r.all), Place: i}.Base(whole)
			s.Remaining = s.Base
			if h, ok := held[i][id]; ok {
				w := h.Machine.(*algo.Shared)
				s.Moved, s.Used, s.Remaining = -w.At(h.State, now).Moved(), w.Used(h.State, now), w.Remaining(h.State, now)
			}
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b Share) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit)) })
	return list, nil
}
