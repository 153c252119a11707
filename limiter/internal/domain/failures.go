package domain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/weir-limits/weir/limiter/algo"
)

// Errors of a Store or a Limiter; compare with errors.Is.
var (
	// ErrInvalidCharge means a mistake of the calling code: a negative cost, a Limit that does not come
	// from NewLimit, one limit of a subject charged twice, or more than MaxCharges on one subject.
	ErrInvalidCharge = errors.New("invalid charge")
	// ErrUnavailable means that the store failed or did not answer. The store has made the charges once
	// or not at all.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBreakerOpen means that no call was made, because the store failed shortly before. Nothing was
	// charged. The error also wraps ErrUnavailable.
	ErrBreakerOpen = errors.New("circuit breaker open")
	// ErrNotSent means that no message was sent, because no connection was open in time. The error also wraps
	// ErrUnavailable.
	ErrNotSent = errors.New("not sent")
	// ErrThrottled means that the store throttles the whole table or account. This is an outage. The error
	// also wraps ErrUnavailable.
	ErrThrottled = errors.New("store throttled")
	// ErrItemThrottled means that the store throttles the item of one subject. Nothing was charged. The
	// error also wraps ErrUnavailable.
	ErrItemThrottled = errors.New("item throttled")
	// ErrRejected means that the store works but rejects one subject, for example because its item has
	// grown too large. The error also wraps ErrUnavailable.
	ErrRejected = errors.New("rejected by the store")
	// ErrContended means that other requests changed the item before each attempt of a charge, until no attempts or
	// no time were left. Nothing was charged, unless the error also wraps context.DeadlineExceeded: then the last
	// attempt may have been charged.
	ErrContended = errors.New("store contended")
	// ErrFull means that the store has no room for another subject; a Redis server that is out of memory has none for any.
	ErrFull = errors.New("store full")
	// ErrFormat means that this version of the code cannot read the stored state.
	ErrFormat = errors.New("unreadable state")
)

// Answered reports whether a Store call that returned err shows that the store works. This is true if
// the call succeeded, or failed for a reason that concerns one subject. After any other error, the store
// can be down for all subjects.
func Answered(err error) bool {
	return err == nil || slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// TimedOut reports whether err means that a call had no answer in time.
func TimedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

var answers = []error{ErrContended, ErrFull, ErrFormat, ErrItemThrottled, ErrRejected, errNeighbour}

// MayHaveCharged reports whether a store that returned err may have made the charges, because its last attempt had no
// answer.
func MayHaveCharged(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	return !Answered(err) && !errors.Is(err, ErrBreakerOpen) && !errors.Is(err, ErrThrottled)
}

// ReasonOf returns the Reason of an error of a store.
func ReasonOf(err error) Reason {
	switch {
	case errors.Is(err, ErrBreakerOpen):
		return ReasonBreaker
	case errors.Is(err, ErrThrottled):
		return ReasonThrottled
	case Busy(err):
		return ReasonBusy
	case errors.Is(err, ErrFull):
		return ReasonFull
	case TimedOut(err):
		return ReasonTimeout
	}
	return ReasonUnavailable
}

// errBusy marks a failure that the requests of one subject cause. The request is denied, with every OnError.
// Otherwise a caller could pass its limit by overloading its own item.
var errBusy = errors.New("subject busy")

// AsBusy marks the failure err as caused by the requests of its subject.
func AsBusy(err error) error { return fmt.Errorf("%w: %w", errBusy, err) }

// Busy reports whether the requests of one subject cause err: the item is throttled, every attempt lost
// a race for the item, or AsBusy marked err.
func Busy(err error) bool {
	return err != nil && (errors.Is(err, errBusy) || errors.Is(err, ErrContended) || errors.Is(err, ErrItemThrottled))
}

// ErrPaused means that no call was made, because the item of the subject is busy.
var ErrPaused = fmt.Errorf("%w: %w: paused after throttled calls", ErrUnavailable, ErrItemThrottled)

// errNeighbour marks the failure of a call whose item is throttled because of another item in its
// partition. The store has answered.
var errNeighbour = errors.New("another item of the partition is hot")

// NeighbourError marks err, the failure of a throttled call, as caused by another item of the partition. OnError then
// decides.
func NeighbourError(err error) error {
	return fmt.Errorf("%w: %w: %w: %s", ErrUnavailable, ErrThrottled, errNeighbour, err.Error())
}

// MaxLocalProcesses is the largest Limit.LocalProcesses.
const MaxLocalProcesses = 100_000

// OnError decides a request in an outage, when the store of one of its limits fails. If the stores of
// several limits fail, the strictest OnError decides: deny, then local, then allow. If another limit
// refuses the request, the request is denied. Decision.Reason always reports the failure.
type OnError int

// The values of OnError, from the most lenient to the strictest.
const (
	// OnErrorAllow admits the request and charges nothing, so there is no limit in an outage.
	OnErrorAllow OnError = iota - 1
	// OnErrorLocal makes this process enforce the limit, or its part of it (Limit.LocalProcesses). The
	// process starts from the state that it last saw. This is the zero value.
	OnErrorLocal
	// OnErrorDeny denies the request with Decision.Failed. HTTP answers that with 503.
	OnErrorDeny
)

// String returns the word in the rules document: allow, local or deny.
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

// validate checks o for a limit with rate. processes is Limit.LocalProcesses.
func (o OnError) validate(rate algo.Rate, processes int) error {
	most := min(MaxLocalProcesses, maxParts(rate))
	if of := rate.Regions.Of; of > 0 { // as if each region had a share
		most = max(1, min(most, algo.Regions{Of: of, Place: rate.Regions.Place}.Base(rate.Requests)))
	}
	switch {
	case o < OnErrorAllow || o > OnErrorDeny:
		return &algo.FieldError{Field: "on_error", Got: o, Want: "allow, local or deny"}
	case o != OnErrorLocal && processes != 0:
		return &algo.FieldError{Field: "local_processes", Got: processes, Want: "none without on_error local"}
	case o == OnErrorLocal && (processes < 1 || int64(processes) > most):
		return &algo.FieldError{Field: "local_processes", Got: processes, Want: fmt.Sprintf("1 to %d here", most)}
	}
	return nil
}

// Reason is why a decision was made without the answer of every store.
type Reason string

// The reasons.
const (
	// ReasonNone: every store answered.
	ReasonNone Reason = ""
	// ReasonUnavailable: the store failed or could not be reached.
	ReasonUnavailable Reason = "store_unavailable"
	// ReasonTimeout: the store did not answer within Options.Timeout.
	ReasonTimeout Reason = "store_timeout"
	// ReasonBreaker: no call was made, because the store had failed shortly before.
	ReasonBreaker Reason = "store_breaker"
	// ReasonThrottled: the store throttles the calls of all subjects.
	ReasonThrottled Reason = "store_throttled"
	// ReasonBusy: requests of this subject come faster than the store can charge them. The request is
	// denied, with every OnError. No limit is reported.
	ReasonBusy Reason = "subject_busy"
	// ReasonFull: the store has no room for the subject.
	ReasonFull Reason = "store_full"
	// ReasonOutage: the store works, but this process denied the request, because it counted the subject by itself in
	// an earlier outage, and that count is used up.
	ReasonOutage Reason = "outage_count"
)
