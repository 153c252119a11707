package limiter

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// complete returns o with its defaults in place of zero values. An error wraps
// *algo.FieldError.
func (o Options) complete() (Options, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.FirstTimeout == 0 {
		o.FirstTimeout = o.Timeout
	}
	if o.Trust == 0 {
		o.Trust = time.Second
	}
	if o.Remember == 0 {
		o.Remember = 10_000
	}
	if o.IntN == nil {
		o.IntN = rand.IntN
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, option := range []struct {
		name string
		ok   bool
		got  any
		want string
	}{
		{"Timeout", o.Timeout > 0 && o.Timeout < MinWindow, o.Timeout, fmt.Sprintf("more than 0 and less than %s; 0 means %s", MinWindow, DefaultTimeout)},
		{"FirstTimeout", o.FirstTimeout >= o.Timeout && o.FirstTimeout < MinWindow, o.FirstTimeout, fmt.Sprintf("at least Timeout (%s) and less than %s; 0 means Timeout", o.Timeout, MinWindow)},
		{"Remember", o.Remember > 0, o.Remember, "at least 1; 0 means 10000"},
	} {
		if !option.ok {
			return o, fmt.Errorf("limiter: %w", &algo.FieldError{Field: "Options." + option.name, Got: option.got, Want: option.want})
		}
	}
	return o, nil
}
