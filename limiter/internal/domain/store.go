package domain

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Store keeps the state of limits. Package storetest defines its behaviour as tests. An implementation
// MUST be safe for concurrent use. It MUST NOT decide by its own clock: the instant of a request is an
// argument. Expiry of stored data only frees space. A panic continues in the goroutine of the request or settlement,
// also if the Limiter made the call in another goroutine.
type Store interface {
	// Take makes all charges on the subject, or none, in one atomic step, and reports which. The Limiter has
	// checked the charges: there are at most MaxCharges, all on this subject, each on another limit.
	//
	// results has one element per charge. On entry it holds a hint: the state of that limit that the
	// caller last saw, or the zero value. A hint can be stale and MUST NOT change the answer. On
	// return without error, results holds the states after the charges, or the states that refused
	// them.
	//
	// A charge of cost 0 only reads: it MUST write nothing. If all charges cost 0, MayBeStale reports
	// whether a state that is some milliseconds old is enough.
	//
	// A store decides by the limit of the charge. If it holds state that was written under a higher
	// rules version, it decides by the parameters of that state; see [Held.Current].
	//
	// An error means that there is no decision. It wraps ErrContended, ErrFull, ErrFormat or
	// ErrUnavailable. If it wraps ErrUnavailable, it also wraps the cause, if the cause is ErrThrottled,
	// ErrItemThrottled, ErrRejected or ErrBreakerOpen. If ctx ends, the charges have been made at most
	// once.
	Take(ctx context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error)

	// Settle corrects charges that Take made, in one atomic step. results are the results of that Take. The
	// cost of each charge is the correction; 0 changes nothing:
	//
	//   - Without Force, Settle refunds the cost, which is at most the cost in the Take. elapsed is the
	//     time since the Take on the monotonic clock; Settle adds a margin for clock skew and for the
	//     time of its message. Settle follows algo.Machine.Refund, and drops quota that it cannot refund
	//     safely.
	//   - With Force, Settle charges the cost at the instant now, as Take does. It ignores results.
	//
	// If Settle returns an error, it has made the corrections at most once. With ErrContended, it has
	// made none, but it may have released the slots of the charges. This admits no more than the limit
	// allows, because the request has ended. A repeated Settle does not release these slots again.
	Settle(ctx context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration) (Settled,
		error)

	// Inspect returns every limit that the store holds for the subject, in the order of their IDs. For an
	// unknown subject, it returns none. It writes nothing.
	Inspect(ctx context.Context, subject Subject) ([]Entry, error)

	// Reset deletes the state of the subject, which then has its full quota. Share that moved between regions stays
	// where it is. A later refund of a charge from before the reset can refund a charge from after the reset.
	Reset(ctx context.Context, subject Subject) error
}

// Settled is the result of Store.Settle.
type Settled struct {
	Given  int               // number of refunds that returned something
	Excess [MaxCharges]int64 // for each charge with Force, the part that exceeded the max debt
}

// Refunds counts refunds. Given is the number of charges that were refunded, at least in part. Dropped
// is the number of charges that were not refunded, because a refund was not safe or the store failed.
type Refunds struct{ Given, Dropped int }

// Add adds other refunds.
func (r *Refunds) Add(other Refunds) {
	r.Given += other.Given
	r.Dropped += other.Dropped
}

// Entry is a limit that a store holds of a subject.
type Entry struct {
	ID ID
	Held
}

// Local is implemented by stores whose state is in this process. A Limiter does not cache their states.
type Local interface {
	Store
	// Evicted returns how many subjects lost counts since its last call, because the store is full.
	Evicted() int64
}

// Shares is implemented by stores that hold limits that regions share (algo.Shared). Each region has a store of its own.
// An unused part of the share of one region moves to another region by a Debit in the store of the one, and then a
// Credit in the store of the other.
//
// Both MUST return when ctx ends: the request waits for them, since it could not tell what a later answer moved.
type Shares interface {
	// Debit takes share of the window index from the limit, as algo.Shared.Debit does, for a region whose clock shows
	// now. The limit is that of the region of this store. A state with older parameters is converted (Held.Giving). moved
	// is what the other region may credit. It is 0 if nothing is free, or if the store holds the limit with newer
	// parameters.
	//
	// seen is a hint on entry: the state that this store returned last, or the zero value. A stale hint can change how much
	// more than lack moves. On return without error, seen is the state after the debit, or the state that gives nothing.
	//
	// An error means that the share may be lost until the window ends: nobody may credit it.
	Debit(ctx context.Context, now algo.Instant, subject Subject, limit *Limit, index, lack int64, seen *algo.Result) (moved int64, err error)

	// Credit adds what debits of the window index moved. It does this unless the store counts a later window, or holds
	// the limit with other parameters; credited reports whether it did. r is then the state after it.
	//
	// A second Credit would create quota. So a caller MUST NOT repeat Credit, and an implementation MUST send it once,
	// whatever happens to the message.
	Credit(ctx context.Context, now algo.Instant, subject Subject, limit *Limit, index, moved int64) (r algo.Result, credited bool, err error)
}

// Transfer counts what the transfers of share for one request did.
type Transfer struct {
	Calls int   // calls of the stores of other regions
	Moved int64 // share that this region got
	Lost  int   // messages without an answer; what they moved is lost until the window ends
	// Failed is the number of other regions that could not be asked, or did not answer.
	Failed int
}

// TransferTimeout bounds the time that a decision waits for share of other regions. DebitTimeout is the part of it that the
// other regions have for their answers. The rest is for the credit in the store of this region.
const (
	TransferTimeout = 400 * time.Millisecond
	DebitTimeout    = 300 * time.Millisecond
)

// SharesOf returns s as Shares, if s can move share. A store that wraps another one has a method Unwrap, and can move
// share only if the other one can.
func SharesOf(s Store) (shares Shares, ok bool) {
	shares, ok = s.(Shares)
	if w, wraps := s.(interface{ Unwrap() Store }); ok && wraps {
		_, ok = SharesOf(w.Unwrap())
	}
	return shares, ok
}

// Remote is implemented by stores outside this process, such as those of package resilient. Its methods MUST be
// safe for concurrent use.
type Remote interface {
	// Timeout returns the Options.Timeout of a Limiter that sets none. 0 means DefaultTimeout.
	Timeout() time.Duration

	// ConnectTimeout returns how long a decision or a settlement at the instant now may wait for the store. It
	// returns 0 if no connection has to be opened. If it is longer than Options.Timeout, it replaces the
	// timeout. It MUST be below MinWindow.
	ConnectTimeout(now algo.Instant) time.Duration
}

// Held is the state of one limit of a subject in a store. The zero value means that the limit was never
// charged.
type Held struct {
	algo.Result
	Version int64     // the version of the rules that set the parameters of Machine
	Skew    algo.Skew // see algo.Clamp; usually the zero value
}

// Current returns the state by which a store decides a charge on the limit at the instant now. If write is true,
// the store MUST write that state, even if it refuses the charge. A charge of cost 0 never writes. All stores
// use Current, so that they agree on changed limits and wrong clocks:
//
//   - A limit that was never charged has its full quota.
//   - A state with the parameters of limit is not converted.
//   - A state with other parameters of a lower version is converted, once.
//   - A state with other parameters, of the same or a higher version, keeps its parameters, and these parameters
//     decide. If two versions converted a state back and forth, this would create quota.
//   - Under the same version, a state is converted to a list of regions with the same or a higher number, never to a lower
//     one: each conversion loses share that moved.
//   - A state that is further ahead of now than honest clocks allow is clamped, or its Skew is recorded (algo.Clamp).
//   - Whatever parameters decide, no charge exceeds the threshold of limit (Rate.Of). A threshold converts nothing.
func (h Held) Current(limit *Limit, now algo.Instant) (current Held, write bool) {
	own := limit.machine
	if h.Machine == nil {
		return Held{Result: algo.Result{Machine: own}, Version: limit.Version}, false
	}
	changed := h.Machine.Ahead(h.State, now) && h.clamp(now)
	if h.Machine == own || h.Machine.Fingerprint() == limit.fingerprint {
		h.Machine = own
		return h, changed
	}
	if h.Version > limit.Version || h.Version == limit.Version && !algo.NewList(h.Machine, own) {
		h.Machine = algo.Within(h.Machine, own)
		return h, changed
	}
	next := Held{Result: algo.Result{Machine: own, State: algo.Convert(h.Machine, own, h.State, now), Clamped: h.Clamped},
		Version: limit.Version}
	if own.Ahead(next.State, now) { // without a Skew now, the next request would have to write it
		next.clamp(now)
	}
	return next, true
}

// Giving returns the state from which a store takes a debit on the limit (Shares.Debit). Like Current, it converts a state
// that older rules or another list of regions left: otherwise a region without requests of its own would give no share
// until the store deletes that state. ok is false if newer rules decide, or if a clock is wrong.
func (h Held) Giving(limit *Limit, now algo.Instant) (giving Held, ok bool) {
	switch {
	case h.Machine == nil:
		return Held{Result: algo.Result{Machine: limit.machine}, Version: limit.Version}, true
	case h.Machine == limit.machine || h.Machine.Fingerprint() == limit.fingerprint:
		h.Machine = limit.machine
		return h, true
	case h.Machine.Ahead(h.State, now):
		return h, false
	}
	giving, _ = h.Current(limit, now)
	return giving, giving.Machine == limit.machine && giving.Skew == algo.Skew{}
}

// clamp clamps a state that is too far ahead of now, or records its Skew. changed reports whether one of them
// changed.
func (h *Held) clamp(now algo.Instant) (changed bool) {
	s, k := algo.Clamp(h.Machine, h.State, h.Skew, now)
	changed = s != h.State || k != h.Skew
	h.Clamped = h.Clamped || s != h.State
	h.State, h.Skew = s, k
	return changed
}

type staleKey struct{}

// AllowStale returns a context for a Take of cost 0. It allows the store to return a state that is some
// milliseconds old.
func AllowStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// MayBeStale reports whether a Store may use a state that is some milliseconds old. It is true only for a
// Take whose charges all cost 0. In DynamoDB, a read of such a state costs half a unit. A Store may
// ignore MayBeStale.
func MayBeStale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }
