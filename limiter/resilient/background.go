package resilient

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// background decides, with Options.Background, whether requests wait for a look at the store before one of them probes
// it.
type background struct {
	enabled bool
	opened  atomic.Pointer[time.Time] // when the breaker opened; nil while it is closed, and if not enabled
	looking atomic.Bool               // a look is in flight
	works   atomic.Bool               // a look since the breaker opened has shown that the store answers
}

func (b *background) change(to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		b.works.Store(false)
		if b.enabled {
			b.opened.Store(new(time.Now()))
		}
	case gobreaker.StateClosed:
		b.opened.Store(nil)
	case gobreaker.StateHalfOpen:
	}
}

// waits reports whether no request may probe the store yet, if the pause of the breaker is over. If no request comes for a
// second pause, the next one probes the store.
func (b *background) waits() bool {
	opened := b.opened.Load()
	return opened != nil && !b.works.Load() && (b.looking.Load() || time.Since(*opened) < 2*Pause)
}

// lookBeside looks at the limits of the charges in a goroutine, unless a look is in flight. The look ends at the
// deadline of ctx. It is not the probe: a store that answers reads can still fail every write.
func (b *Store) lookBeside(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge) {
	if !b.looking.CompareAndSwap(false, true) {
		return
	}
	timeout := cmp.Or(b.usual, limiter.DefaultTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // the request ends before the look
	looks := looksOf(charges)
	go func() {
		defer b.looking.Store(false)
		defer cancel()
		if err := b.lookOnce(ctx, now, subject, looks); limiter.Answered(err) {
			b.works.Store(true)
		} else if done, closed := b.circuit.Allow(); closed == nil {
			done(err)
		}
	}()
}

// lookOnce calls the store. If the store panics, it returns nil: the request that probes the store next then panics.
func (b *Store) lookOnce(ctx context.Context, now algo.Instant, subject limiter.Subject, looks []limiter.Charge) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	_, err = b.inner.Take(ctx, now, subject, looks, make([]algo.Result, len(looks)))
	b.observe(now, err)
	return err
}
