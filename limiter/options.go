package limiter

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// complete returns o with its defaults in place of zero values. An error wraps
// *algo.FieldError.
func (o Options) complete() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Trust = cmp.Or(o.Trust, time.Second)
	o.Remember = cmp.Or(o.Remember, 10_000)
	o.Fallback = cmp.Or(o.Fallback, DefaultFallback)
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
		{"Remember", o.Remember > 0, o.Remember, "at least 1; 0 means 10000"},
		{"Fallback", o.Fallback > 0, o.Fallback, fmt.Sprintf("at least 1; 0 means %d", DefaultFallback)},
	} {
		if !option.ok {
			return o, fmt.Errorf("limiter: %w", &algo.FieldError{Field: "Options." + option.name, Got: option.got, Want: option.want})
		}
	}
	return o, nil
}
