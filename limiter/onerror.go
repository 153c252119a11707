package limiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/weir-limits/weir/limiter/algo"
)

// OnError is what becomes of a request if the store fails that counts one of its limits.
// Of several limits whose store fails the strictest decides: deny before local before
// allow. A refusal that is known comes before all of them, and Decision.Reason says in any
// case that the store failed.
type OnError int

// From the most lenient to the strictest.
const (
	// OnErrorAllow lets the request through, and charges nothing. The zero value.
	OnErrorAllow OnError = iota
	// OnErrorLocal lets this process decide, by its share of the limit: Limit.LocalShare. What
	// costs more than the share ever allows (MaxLocalCost) is denied as by OnErrorDeny.
	OnErrorLocal
	// OnErrorDeny denies the request: Decision.Failed, which HTTP answers with 503.
	OnErrorDeny
)

// String returns the word of the rules document: allow, local or deny.
func (o OnError) String() string {
	switch o {
	case OnErrorAllow:
		return "allow"
	case OnErrorLocal:
		return "local"
	case OnErrorDeny:
		return "deny"
	}
	return "OnError(" + strconv.Itoa(int(o)) + ")"
}

// share checks what l says of a failing store, and returns the part of it that one process
// enforces then; nil if none does.
func (o OnError) share(l Limit) (*Limit, error) {
	most := min(MaxCells, smallest(l.Rate))
	switch {
	case o < OnErrorAllow || o > OnErrorDeny:
		return nil, &algo.FieldError{Field: "on_error", Got: o, Want: "allow, local or deny"}
	case o != OnErrorLocal && l.LocalShare != 0:
		return nil, &algo.FieldError{Field: "local_share", Got: l.LocalShare, Want: "none without on_error local"}
	case o != OnErrorLocal:
		return nil, nil //nolint:nilnil // no share is no error
	case l.LocalShare < 1 || int64(l.LocalShare) > most:
		return nil, &algo.FieldError{Field: "local_share", Got: l.LocalShare, Want: fmt.Sprintf("1 to %d here", most)}
	}
	l.OnError, l.LocalShare, l.Spread, l.Rate = OnErrorAllow, 0, Spread{}, share(l.Rate, 0, int64(l.LocalShare), false)
	return NewLimit(l)
}

// MaxLocalCost returns the largest cost that is allowed while the store fails: MaxCost, or
// what the share of one process with OnErrorLocal holds.
func (l *Limit) MaxLocalCost() int64 {
	if l.fallback == nil {
		return l.MaxCost()
	}
	return l.fallback.machine.Capacity()
}

// degrade decides what stores have failed to, if nothing refuses. It reports whether the
// request is now refused.
func (l *Limiter) degrade(ctx context.Context, r *request) (refused bool) {
	strictest := OnErrorAllow
	for i := range r.parts {
		if p := &r.parts[i]; p.err != nil && !p.shadow() {
			for j := range p.items {
				strictest = max(strictest, p.items[j].limit.OnError)
			}
		}
	}
	switch strictest {
	case OnErrorAllow:
	case OnErrorDeny:
		r.failed = true
	case OnErrorLocal:
		l.fallBack(ctx, r)
	}
	return r.failed || r.refused()
}

// fallBack charges the shares of this process, one subject after the other until one
// refuses. What the fallback has no room for is denied, or there would be no bound.
func (l *Limiter) fallBack(ctx context.Context, r *request) {
	for i := range r.parts { // and not those that are appended
		failed := &r.parts[i]
		if failed.err == nil || failed.shadow() {
			continue
		}
		p := failed.fallback(l.fallback, r.look)
		if len(p.items) == 0 {
			continue
		}
		// A Local store that is full has none. A cost that no share ever allows is one of the outage,
		// and not of the limit: the request may pass when the store is back.
		if l.fallback == nil || p.tooLarge() {
			r.failed = true
			return
		}
		l.takeOnce(ctx, r, &p)
		r.parts = append(r.parts, p)
		if r.failed = p.err != nil; r.failed || p.refused {
			return
		}
	}
}

// tooLarge reports whether a charge costs more than its limit, a share, ever allows.
func (p *part) tooLarge() bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return !it.Spend && it.want > it.Limit.machine.Capacity() })
}

// fallback returns what p has of limits with OnErrorLocal, as the share of this process.
func (p *part) fallback(store Store, look bool) part {
	local := part{store: store}
	for i := range p.items {
		it := &p.items[i]
		if it.limit.OnError != OnErrorLocal {
			continue
		}
		charge := Charge{Subject: it.Subject, Limit: it.limit.fallback, Cost: it.want, Spend: it.Spend}
		if look {
			charge.Cost = 0
		}
		local.items = append(local.items, item{Charge: charge, limit: it.limit, want: it.want})
		local.charges = append(local.charges, charge)
	}
	local.results = make([]Result, len(local.charges))
	return local
}
