package limiter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// OnError is what becomes of a request in an outage: the store fails that counts one of its
// limits. Of several limits whose store fails the strictest decides: deny before local before
// allow. A refusal that is known comes before all of them, and Decision.Reason says in any
// case that the store failed.
type OnError int

// From the most lenient to the strictest.
const (
	// OnErrorAllow lets the request through, and charges nothing: in an outage there is no limit.
	OnErrorAllow OnError = iota - 1
	// OnErrorLocal lets this process enforce the limit by itself, or its part of the limit:
	// Limit.LocalProcesses. It starts from what it remembers of the store. The zero value.
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

// share checks what l says of an outage, and returns the part of it that one of several
// processes enforces then; nil if each enforces all of it.
func (o OnError) share(l Limit) (*Limit, error) {
	most := min(MaxCells, smallest(l.Rate))
	switch {
	case o < OnErrorAllow || o > OnErrorDeny:
		return nil, &algo.FieldError{Field: "on_error", Got: o, Want: "allow, local or deny"}
	case o != OnErrorLocal && l.LocalProcesses != 0:
		return nil, &algo.FieldError{Field: "local_processes", Got: l.LocalProcesses, Want: "none without on_error local"}
	case o != OnErrorLocal:
		return nil, nil //nolint:nilnil // no share is no error
	case l.LocalProcesses < 1 || int64(l.LocalProcesses) > most:
		return nil, &algo.FieldError{Field: "local_processes", Got: l.LocalProcesses, Want: fmt.Sprintf("1 to %d here", most)}
	case l.LocalProcesses == 1:
		return nil, nil //nolint:nilnil // the whole is no share
	}
	l.isShare, l.Spread, l.Rate = true, Spread{}, share(l.Rate, 0, int64(l.LocalProcesses), false)
	l.OnError, l.LocalProcesses = OnErrorAllow, 0
	return NewLimit(l)
}

// MaxLocalCost returns the largest cost that is allowed in an outage: MaxCost, or what the
// part of one process holds where LocalProcesses divide the limit.
func (l *Limit) MaxLocalCost() int64 {
	if l.share == nil {
		return l.MaxCost()
	}
	return l.share.machine.Capacity()
}

// degrade decides what stores have failed to, if nothing refuses. It reports whether the
// request is now refused.
func (l *Limiter) degrade(r *request) (refused bool) {
	strictest := OnErrorAllow
	for i := range r.parts {
		if p := &r.parts[i]; p.err != nil && !busy(p.err) && !p.shadow() {
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
		l.fallBack(r)
	}
	return r.failed || r.refused()
}

// fallBack charges this process, one subject after the other until one refuses. What it has no
// room for is denied, or there would be no bound.
func (l *Limiter) fallBack(r *request) {
	for i := range r.parts { // and not those that are appended
		failed := &r.parts[i]
		if failed.err == nil || busy(failed.err) || failed.shadow() {
			continue
		}
		// A store in this process that is full: all of the limit here would be more than its cell.
		if !l.shares() || failed.items[0].cells && failed.items[0].limit.OnError == OnErrorLocal {
			r.failed, r.full = true, true
			return
		}
		p := failed.byItself(l, r)
		if len(p.items) == 0 {
			continue
		}
		// A cost that no part ever allows is one of the outage, and not of the limit: the request
		// may pass when the store is back.
		if p.tooLarge() {
			r.failed = true
			return
		}
		l.takeAlone(r, &p)
		r.parts = append(r.parts, p)
		if p.err != nil {
			r.failed, r.full = true, errors.Is(p.err, ErrFull)
		}
		if r.failed || p.refused {
			return
		}
	}
}

// takeAlone charges this process for p, which counts at least what it knows of the store.
func (l *Limiter) takeAlone(r *request, p *part) {
	p.taken, p.err = l.fallback.take(r.now, p.charges[0].Subject, p.charges, p.results, func() { l.recall(r.now, p) })
	p.refused = !p.taken && p.err == nil
	if r.look && p.err == nil {
		p.taken, p.refused = false, p.refuser(r.now) != nil
	}
}

// recall fills the results of p with what this process knows of each limit, or of its share.
func (l *Limiter) recall(now algo.Instant, p *part) {
	for i := range p.items {
		it := &p.items[i]
		known := l.known(now, it)
		if it.Limit.isShare {
			known = algo.Part(it.limit.machine, it.Limit.machine, int64(it.limit.LocalProcesses), known, now)
		}
		p.results[i] = Result{Machine: it.Limit.machine, State: known}
	}
}

// tooLarge reports whether a charge costs more than the part of this process ever allows.
func (p *part) tooLarge() bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.Limit.isShare && !it.Force && it.want > it.Limit.machine.Capacity() })
}

// byItself returns what p has of limits with OnErrorLocal, as this process counts it in an outage:
// by its part of each limit, and by the limit.
func (p *part) byItself(l *Limiter, r *request) part {
	q := part{store: l.fallback}
	for i := range p.items {
		it := &p.items[i]
		if it.limit.OnError != OnErrorLocal {
			continue
		}
		cost := it.want
		if r.look {
			cost = 0
		}
		if share := it.limit.share; share != nil {
			q.add(it, share, cost)
		}
		q.add(it, it.limit, cost)
	}
	return q
}

// add adds a charge on limit, which stands for that of an item.
func (p *part) add(it *item, limit *Limit, cost int64) {
	charge := Charge{Subject: it.Subject, Limit: limit, Cost: cost, Force: it.Force}
	p.items = append(p.items, item{Charge: charge, limit: it.limit, want: it.want, spare: max(0, cost-it.want)})
	p.charges, p.results = append(p.charges, charge), append(p.results, Result{})
}

// known returns the state of an item that this environment knows, of any age, as its limit counts
// it at now: what it saw last, or what its counter has counted.
func (l *Limiter) known(now algo.Instant, it *item) algo.State {
	s := l.denials.last(now, it)
	if it.limit.Spread.Sync > 0 {
		if r := l.accounts.counted(it.Subject, it.limit.ID); r.Machine != nil {
			s = algo.Merge(it.limit.machine, s, local.Convert(r.Machine, it.limit.machine, r.State, now))
		}
	}
	return s
}

// outlive keeps what the counter of it has counted, which the store may never have got: until it
// no longer counts, what the counter admits is charged to this process too.
func (l *Limiter) outlive(now algo.Instant, it *item) {
	if it.limit.Shadow || it.limit.OnError != OnErrorLocal || it.limit.reports != nil { // a share goes on by itself
		return
	}
	l.fallback.Raise(now, it.Subject.name, it.limit.key(), func() (s algo.State, ok bool) {
		r := l.accounts.counted(it.Subject, it.limit.ID)
		if r.Machine == nil {
			return s, false
		}
		return local.Convert(r.Machine, it.limit.machine, r.State, now), true
	})
}

// counted returns what the counter of a limit has counted; no Machine if there is none.
func (s *accounts) counted(subject Subject, id ID) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.table[accountKey{subject, id}]; a != nil {
		return a.counter.Result
	}
	return Result{}
}

// refusedLocally reports whether what this process counted in an outage, and still counts,
// refuses the request: then the store is not asked. Leases take no more than that leaves room
// for. While the store fails it is asked all the same, to see whether it is back.
func (l *Limiter) refusedLocally(r *request) bool {
	if !l.shares() || !l.fallback.Holds(r.now) {
		return false
	}
	for i := range r.parts {
		p := &r.parts[i]
		if !p.mirrored() || p.err != nil {
			continue
		}
		q := p.mirror(l.fallback)
		if len(q.items) == 0 || !l.fallback.look(r.now, &q) {
			continue
		}
		switch {
		case q.refuser(r.now) == nil:
			p.fit(&q, r.now)
		case !l.failing.Load():
			q.refused = true
			r.parts = append(r.parts, q)
			return true
		}
	}
	return false
}

// mirrored reports whether what the store is charged for p is charged to this process too.
func (p *part) mirrored() bool { return p.remote && !p.shadow() }

// mirror returns the charges of p on limits with OnErrorLocal as those of this process.
func (p *part) mirror(store fallback) part {
	q := part{store: store}
	for i := range p.items {
		if it := &p.items[i]; it.limit.OnError == OnErrorLocal {
			q.add(it, it.limit, p.charges[i].Cost)
		}
	}
	return q
}

// fit makes leases of p no larger than what q, its mirror, has room for.
func (p *part) fit(q *part, now algo.Instant) {
	for i := range p.items {
		it := &p.items[i]
		j := slices.IndexFunc(q.items, func(other item) bool { return other.limit == it.limit })
		if it.lease == nil || j < 0 || q.results[j].Machine == nil {
			continue
		}
		room := q.results[j].Machine.Remaining(q.results[j].State, now)
		p.charges[i].Cost = min(p.charges[i].Cost, max(it.want, room))
	}
}

// chargeLocally charges this process what stores have admitted, where it holds charges of its
// own that still count, and reports whether that refuses the request.
func (l *Limiter) chargeLocally(r *request) (refused bool) {
	if !l.shares() || r.look || !l.fallback.Holds(r.now) {
		return false
	}
	for i := range r.parts { // and not those that are appended
		p := &r.parts[i]
		if !p.mirrored() || !p.taken {
			continue
		}
		q := p.mirror(l.fallback)
		if len(q.items) == 0 {
			continue
		}
		if !l.mirror(r, &q) {
			r.parts[i].lost = true // with its leases, which would serve more than this process has room for
			return true
		}
		if !p.items[0].sharded && l.active.Load() == 1 {
			l.fallback.drop(&q, p.mirrorOf(&q))
		}
	}
	for i := range r.kept {
		if it := r.kept[i].item; it.limit.Spread.Sync > 0 && !it.limit.Shadow && it.limit.OnError == OnErrorLocal {
			q := part{store: l.fallback}
			if q.add(it, it.limit, it.want); !l.mirror(r, &q) {
				return true
			}
		}
	}
	return false
}

// mirror charges q, the mirror of what a store has admitted, and reports whether that is
// admitted here too.
func (l *Limiter) mirror(r *request, q *part) bool {
	q.taken = l.fallback.mirror(r.now, q)
	q.refused = !q.taken
	r.parts = append(r.parts, *q)
	return q.taken
}

// mirrorOf returns the results of p that belong to the charges of q.
func (p *part) mirrorOf(q *part) []Result {
	results := make([]Result, 0, len(q.items))
	for i := range p.items {
		if p.items[i].limit.OnError == OnErrorLocal {
			results = append(results, p.results[i])
		}
	}
	return results
}
