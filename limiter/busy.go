package limiter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errBusy marks the failure of a call as pressure on one subject. The request is refused, and
// on_error has no say: a caller who makes its own item busy must not pass for it.
var errBusy = errors.New("subject busy")

// pressure returns err, the failure of a call, as pressure on its subject.
func pressure(err error) error { return fmt.Errorf("%w: %w", errBusy, err) }

// busy reports whether err is pressure on one subject: its item is throttled, every attempt lost
// the race for it (also if there was no time for another attempt), or pressure returned err.
func busy(err error) bool {
	return err != nil && (errors.Is(err, errBusy) || errors.Is(err, ErrContended) || errors.Is(err, ErrItemThrottled))
}

// busyWait returns when the caller of a busy subject may try again. It is random, so that those
// who were refused together do not come back together.
func (l *Limiter) busyWait() time.Duration { return time.Duration(1+l.intN(3)) * time.Second }

// silence is after how many calls in a row without an answer the store does not live. Until then
// a timeout of a busy subject is pressure.
const silence = 5

// pulse is what a process knows of the life of a shared store.
type pulse struct {
	answers  atomic.Int64 // calls that were answered
	failures atomic.Int64 // those that were not since the last one that was
}

// judge notes how a call ended that began when there had been begun answers. If the store did not
// answer it in time but answered others meanwhile, that is pressure and no outage.
func (p *pulse) judge(begun int64, err error) error {
	if Answered(err) {
		p.answers.Add(1)
		p.failures.Store(0)
		return err
	}
	if TimedOut(err) && p.answers.Load() != begun {
		return pressure(err)
	}
	p.failures.Add(1)
	return err
}

// crowded returns the failure of a call on a subject with more than one request at a time. A
// timeout is pressure as long as the store is known to live.
func (l *Limiter) crowded(err error) error {
	if TimedOut(err) && l.pulse.failures.Load() < silence {
		return pressure(err)
	}
	return err
}
