package limiter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

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

// busyWait returns when the caller of a busy subject may try again. It is random, so that requests
// that were refused together do not come back together.
func (l *Limiter) busyWait() time.Duration { return time.Duration(1+l.intN(3)) * time.Second }

// silence is the number of calls in a row without an answer after which the store counts as down.
// Until then a timeout of a busy subject is pressure.
const silence = 5

// pulse records whether a shared store answers this process.
type pulse struct {
	answers  atomic.Int64 // calls that were answered
	failures atomic.Int64 // calls without an answer since the last answer
}

// judge records how a call ended; begun is the number of answers when it began. A timeout is
// pressure and no outage if the store answered other calls meanwhile.
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
// timeout is pressure until silence calls in a row had no answer.
func (l *Limiter) crowded(err error) error {
	if TimedOut(err) && l.pulse.failures.Load() < silence {
		return pressure(err)
	}
	return err
}
