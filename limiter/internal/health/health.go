// Package health has what a process knows of a remote store as a whole: whether it answers, and how many requests are in
// progress.
package health

import (
	"fmt"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Health is the health of a remote store. The zero value is ready for use. It is safe for concurrent use.
type Health struct {
	Active  atomic.Int64 // requests that are being decided, and settlements
	Settled atomic.Int64 // settlements that have ended

	answers  atomic.Int64 // calls with an answer
	failures atomic.Int64 // calls without an answer since the last answer
	failing  atomic.Bool  // the store did not answer the last call, without regard to busy subjects
}

// Failing reports whether the store did not answer the last call. A timeout of a busy subject does not count.
func (h *Health) Failing() bool { return h.failing.Load() }

// Answers returns the number of calls that the store has answered. Pass it to Observe.
func (h *Health) Answers() int64 { return h.answers.Load() }

// Observe counts a call that ended with err. before is from Answers, at the beginning of the call. If the store has answered
// other calls since then, a timeout means that the subject is busy, and the result is marked so.
func (h *Health) Observe(before int64, err error) error {
	switch {
	case domain.Answered(err):
		h.failing.Store(false)
		h.answers.Add(1)
		h.failures.Store(0)
	case domain.TimedOut(err) && h.answers.Load() != before:
		return domain.AsBusy(err)
	default:
		h.failing.Store(true)
		h.failures.Add(1)
	}
	return err
}

// Late returns the error of a request whose deadline has passed before its call.
func (h *Health) Late(err error) error {
	return h.Crowded(fmt.Errorf("%w: %w", domain.ErrUnavailable, err))
}

// Crowded returns the failure of a call on a subject that has several requests at a time. A timeout
// then means that the subject is busy. If the store counts as down, the timeout means an outage.
func (h *Health) Crowded(err error) error {
	if domain.TimedOut(err) && h.failures.Load() < downAfter {
		return domain.AsBusy(err)
	}
	return err
}

// downAfter is the number of calls in a row without an answer after which the store counts as down.
const downAfter = 5
