package resilient

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The defaults of Options.
const (
	DefaultFailures         = 5
	DefaultPause            = 500 * time.Millisecond
	DefaultReconnectTimeout = 250 * time.Millisecond
	DefaultFirstTimeout     = 900 * time.Millisecond
)

// Options are the options of New. The zero value is ready for use.
type Options struct {
	// Failures is the number of failures in a row that open the breaker; 0 means DefaultFailures.
	Failures int
	// Pause is the time from the opening of the breaker until a call probes the store; 0 means
	// DefaultPause.
	Pause time.Duration
	// ReconnectTimeout bounds a decision that may have to open a connection. It applies if it is longer than
	// limiter.Options.Timeout. It MUST be below limiter.MinWindow. 0 means DefaultReconnectTimeout.
	ReconnectTimeout time.Duration
	// FirstTimeout replaces ReconnectTimeout for the first decision, and for decisions that begin before
	// the first decision returns. It MUST be at least ReconnectTimeout. 0 means DefaultFirstTimeout.
	FirstTimeout time.Duration
}

// New wraps store. The package comment describes what the wrapped store does. The wrapped store is safe
// for concurrent use. New returns a Local store unchanged, because it has no connections. Inspect and
// Reset, which operators call, bypass the breaker. The error names the option that is out of range.
func New(store limiter.Store, o Options) (limiter.Store, error) {
	if store == nil {
		return nil, errors.New("resilient: store: got nil, want a Store")
	}
	o.Failures, o.Pause = cmp.Or(o.Failures, DefaultFailures), cmp.Or(o.Pause, DefaultPause)
	o.ReconnectTimeout, o.FirstTimeout = cmp.Or(o.ReconnectTimeout, DefaultReconnectTimeout), cmp.Or(o.FirstTimeout, DefaultFirstTimeout)
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("resilient: %w", err)
	}
	if _, ok := store.(limiter.Local); ok {
		return store, nil
	}
	return newBreaker(redialing{store, o.ReconnectTimeout}, o), nil
}

func (o Options) validate() error {
	switch {
	case o.Failures < 0:
		return &algo.FieldError{Field: "Options.Failures", Got: o.Failures, Want: fmt.Sprintf("at least 1; 0 means %d", DefaultFailures)}
	case o.Pause < 0:
		return &algo.FieldError{Field: "Options.Pause", Got: o.Pause, Want: fmt.Sprintf("more than 0; 0 means %s", DefaultPause)}
	case o.ReconnectTimeout < 0 || o.ReconnectTimeout >= limiter.MinWindow:
		return &algo.FieldError{Field: "Options.ReconnectTimeout", Got: o.ReconnectTimeout, Want: fmt.Sprintf("more than 0 and less than %s; 0 means %s", limiter.MinWindow, DefaultReconnectTimeout)}
	case o.FirstTimeout < o.ReconnectTimeout || o.FirstTimeout >= limiter.MinWindow:
		return &algo.FieldError{Field: "Options.FirstTimeout", Got: o.FirstTimeout, Want: fmt.Sprintf("at least ReconnectTimeout (%s) and less than %s; 0 means %s", o.ReconnectTimeout, limiter.MinWindow, DefaultFirstTimeout)}
	}
	return nil
}
