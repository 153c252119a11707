package limiter

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Options of a Limiter. The zero value is ready for use.
type Options struct {
	// Timeout bounds the time that a decision waits for a shared store; 0 means DefaultTimeout.
	// It is below MinWindow. A store that is a Connector may extend it. A Local store has no
	// timeout.
	Timeout time.Duration
	// CacheTTL is how long an entry of the denial cache may deny without a store call; 0 means a
	// second, a negative value disables the cache. After this time at the latest, this process
	// notices a refund, a reset or a changed limit of another process. Where other processes
	// keep taking the quota that the cache expects, as in a flood, about one store call in CacheTTL
	// is denied.
	CacheTTL time.Duration
	// CacheSize is the number of subjects in the denial cache, and the most leases and counters
	// that this process holds; 0 means 10,000.
	CacheSize int
	// Cells is the store in this process for limits with Spread.Cells. Without it a charge on
	// such a limit is invalid.
	Cells Store
	// FallbackSize is the number of subjects that this process counts by itself in an outage, for
	// limits with OnErrorLocal. A subject with a long log counts as several. 0 means
	// DefaultFallback. Further subjects are denied (Decision.LocalFull). A Local store needs no
	// fallback: it denies subjects for which it has no room.
	FallbackSize int
	// IntN returns a random number from 0 to n-1: it chooses shards, waits and report times. It
	// is safe for concurrent use; nil means rand.IntN of math/rand/v2. A generator with a known
	// seed makes decisions repeatable.
	IntN func(n int) int
	// Clock times the pauses between calls for a throttled item; nil means that of package time.
	Clock Clock
	// Logger receives failures of the store, at most one line a second for each reason; nil
	// means slog.Default(). Each line has the number of suppressed ones.
	Logger *slog.Logger
}

// DefaultTimeout is how long a decision waits for a shared store, at most.
const DefaultTimeout = 900 * time.Millisecond

// DefaultFallback is how many subjects a process counts by itself in an outage. With one limit each
// they take about 10 MB (TestFallback_memory).
const DefaultFallback = 50_000

// complete returns o with its defaults in place of zero values. An error wraps
// *algo.FieldError.
func (o Options) complete() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.CacheTTL = cmp.Or(o.CacheTTL, time.Second)
	o.CacheSize = cmp.Or(o.CacheSize, 10_000)
	o.FallbackSize = cmp.Or(o.FallbackSize, DefaultFallback)
	if o.IntN == nil {
		o.IntN = rand.IntN
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
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
		{"CacheSize", o.CacheSize > 0, o.CacheSize, "at least 1; 0 means 10000"},
		{"FallbackSize", o.FallbackSize > 0, o.FallbackSize, fmt.Sprintf("at least 1; 0 means %d", DefaultFallback)},
	} {
		if !option.ok {
			return o, fmt.Errorf("limiter: %w", &algo.FieldError{Field: "Options." + option.name, Got: option.got, Want: option.want})
		}
	}
	return o, nil
}
