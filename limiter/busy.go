package limiter

import (
	"errors"
	"fmt"
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
