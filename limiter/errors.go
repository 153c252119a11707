package limiter

import (
	"context"
	"errors"
	"net"
	"slices"
)

// Errors of a Store or a Limiter; compare with errors.Is.
var (
	// ErrInvalidCharge is a charge that no state could decide: a negative cost, a
	// Limit that NewLimit did not make, one limit of a subject charged twice, or
	// more than MaxCharges on one subject. It is the caller's mistake.
	ErrInvalidCharge = errors.New("invalid charge")
	// ErrUnavailable is a store that did not answer, or answered with an error of
	// its own. The charges may or may not have been made; they are not made twice.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBreakerOpen is, beside ErrUnavailable, a store that was not asked because it has
	// failed just before. Nothing has been charged.
	ErrBreakerOpen = errors.New("circuit breaker open")
	// ErrThrottled is, beside ErrUnavailable, a store that takes no more for now, of any subject:
	// its table or the whole account is throttled. That is an outage.
	ErrThrottled = errors.New("store throttled")
	// ErrItemThrottled is, beside ErrUnavailable, a store that takes no more for now of what is
	// stored with this subject: its item is throttled. Nothing has been charged.
	ErrItemThrottled = errors.New("item throttled")
	// ErrRejected is, beside ErrUnavailable, a store that lives and cannot take what one subject
	// is charged, such as an item that has grown too large.
	ErrRejected = errors.New("rejected by the store")
	// ErrContended is a decision that lost the race for its item at every attempt. Nothing has
	// been charged.
	ErrContended = errors.New("store contended")
	// ErrFull is a store with no room for one more subject.
	ErrFull = errors.New("store full")
	// ErrFormat is stored state that this version of the code cannot read.
	ErrFormat = errors.New("unreadable state")
)

// Answered reports whether a call of a Store that ended with err has shown that the store
// lives: it was made, or the store could not or would not make it for this subject. Without an
// answer the store may be down for all.
func Answered(err error) bool {
	return err == nil || slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// TimedOut reports whether a call that failed with err was not answered in time.
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
