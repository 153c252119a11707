package limiter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// Errors of a Store or a Limiter; compare with errors.Is.
var (
	// ErrInvalidCharge is a mistake of the calling code: a negative cost, a Limit that NewLimit did
	// not make, one limit of a subject charged twice, or more than MaxCharges on one subject.
	ErrInvalidCharge = errors.New("invalid charge")
	// ErrUnavailable is a store that did not answer, or failed. The charges were made once or not
	// at all.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBreakerOpen, with ErrUnavailable, is a call that was not made because the store failed
	// shortly before. Nothing was charged.
	ErrBreakerOpen = errors.New("circuit breaker open")
	// ErrThrottled, with ErrUnavailable, is a store that throttles all subjects: its table or the
	// whole account is throttled. That is an outage.
	ErrThrottled = errors.New("store throttled")
	// ErrItemThrottled, with ErrUnavailable, is a store that throttles the item of this subject.
	// Nothing was charged.
	ErrItemThrottled = errors.New("item throttled")
	// ErrRejected, with ErrUnavailable, is a store that works but rejects this subject, for example
	// because its item has grown too large.
	ErrRejected = errors.New("rejected by the store")
	// ErrContended is a charge that lost the race for its item at every attempt. Nothing was
	// charged.
	ErrContended = errors.New("store contended")
	// ErrFull is a store without room for another subject.
	ErrFull = errors.New("store full")
	// ErrFormat is stored state that this version of the code cannot read.
	ErrFormat = errors.New("unreadable state")
)

// Answered reports whether a Store call that ended with err shows that the store works: it
// succeeded, or it failed for a reason of this subject alone. Without an answer the store may be down
// for all subjects.
func Answered(err error) bool {
	return err == nil || slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// TimedOut reports whether a call that failed with err had no answer in time.
func TimedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

var answers = []error{ErrContended, ErrFull, ErrFormat, ErrItemThrottled, ErrRejected, errQuiet}

// mayHaveCharged reports whether a store that failed with err may have charged: the call, or the last
// of its attempts, had no answer.
func mayHaveCharged(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	return !Answered(err) && !errors.Is(err, ErrBreakerOpen) && !errors.Is(err, ErrThrottled)
}

// reasonOf returns the Reason of a store's failure.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, ErrBreakerOpen):
		return ReasonBreaker
	case errors.Is(err, ErrThrottled):
		return ReasonThrottled
	case busy(err):
		return ReasonBusy
	case errors.Is(err, ErrFull):
		return ReasonFull
	case TimedOut(err):
		return ReasonTimeout
	}
	return ReasonUnavailable
}

// errBusy marks the failure of a call as pressure on one subject. The request is denied whatever
// on_error is: a caller gains nothing by making its own item busy.
var errBusy = errors.New("subject busy")

// pressure returns err, the failure of a call, as pressure on its subject.
func pressure(err error) error { return fmt.Errorf("%w: %w", errBusy, err) }

// busy reports whether err is pressure on one subject: its item is throttled, every attempt lost
// the race for it (also if there was no time for another attempt), or pressure returned err.
func busy(err error) bool {
	return err != nil && (errors.Is(err, errBusy) || errors.Is(err, ErrContended) || errors.Is(err, ErrItemThrottled))
}

// errQuiet marks the failure of a call whose item is throttled because of a neighbour. The store
// has answered.
var errQuiet = errors.New("another item of the partition is hot")

// quiet returns err, a throttled call, as that of a quiet subject: on_error decides.
func quiet(err error) error {
	return fmt.Errorf("%w: %w: %w: %s", ErrUnavailable, ErrThrottled, errQuiet, err.Error())
}
