package limiter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Options are the options of a Limiter. The zero value is ready for use.
type Options struct {
	// Timeout bounds the time that a decision waits for a remote store; 0 means the timeout of a Remote store, and
	// DefaultTimeout for any other store. It MUST be below MinWindow. A Remote store may extend it. A Local store has
	// no timeout.
	Timeout time.Duration
	// CacheTTL is how long an entry of the denial cache can deny without a store call. 0 means one second, and a
	// negative value disables the cache. After CacheTTL at the latest, this process notices a refund, a reset or a
	// changed limit of another process. In a flood, this process makes about one refused store call per CacheTTL.
	CacheTTL time.Duration
	// Subjects bounds the memory for subjects; 0 means DefaultSubjects. A subject takes about a kilobyte; with many
	// limits or a long log it counts as several. Apart from it, the process keeps up to 10,000 transfers between Regions.
	//
	// A sixth is for what this process remembers of callers in the denial cache, and for notices. It forgets first what
	// was unchanged for the longest time. The rest is for leases and counters, and for subjects that this process
	// counts by itself in an outage (OnErrorLocal). If the rest is full, further subjects are denied
	// (Decision.LocalFull). Leases, counters and lost settlements take at most half of the rest. A Local store needs
	// memory for notices only: it denies subjects for which it has no room.
	Subjects int
	// Regions are the stores of the regions that share limits (algo.Shared), in the order that is the same in every
	// region. The element of this region is nil. Each store SHOULD have a breaker and open connections. A request that
	// exceeds the share of this region then asks the others, for up to TransferTimeout, about once a second. Without
	// Regions, a limit that regions share admits the base share of this region. Shadow limits move no share.
	Regions []Shares
	// IntN returns a random number from 0 to n-1, which chooses shards, waits and times of syncs. It
	// MUST be safe for concurrent use. nil means rand.IntN of math/rand/v2. A generator with a known
	// seed makes decisions repeatable.
	IntN func(n int) int
	// Clock times the pauses between calls for a throttled item. nil means the clock of package time.
	Clock Clock
	// Notify writes a Notice, for limits with Limit.Notify. The decision or the settlement that causes the notice waits for
	// it. Notify MUST be safe for concurrent use. If it returns an error, the Limiter logs it. nil writes no notices.
	Notify func(ctx context.Context, n Notice) error
	// Logger logs failures of the store, at most one line a second for each reason. Each line has the
	// number of lines suppressed before it. nil means slog.Default().
	Logger *slog.Logger
}

// DefaultTimeout is the default of Options.Timeout for a store that is not Remote.
const DefaultTimeout = 900 * time.Millisecond

// DefaultSubjects is the default of Options.Subjects: 10,000 callers in the denial cache, and 50,000 in an outage. These
// 50,000 take about 17 MB if each has one limit (TestFallback_memory).
const DefaultSubjects = 60_000

// complete returns o with its defaults in place of zero values. An error wraps *algo.FieldError.
func (o Options) complete() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.CacheTTL = cmp.Or(o.CacheTTL, time.Second)
	o.Subjects = cmp.Or(o.Subjects, DefaultSubjects)
	if o.IntN == nil {
		o.IntN = rand.IntN
	}
	if o.Clock == nil {
		o.Clock = domain.SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	wrong := func(field string, got any, want string) (Options, error) {
		return o, fmt.Errorf("limiter: %w", &algo.FieldError{Field: "Options." + field, Got: got, Want: want})
	}
	switch n, own := len(o.Regions), nils(o.Regions); {
	case o.Timeout < 0 || o.Timeout >= MinWindow:
		return wrong("Timeout", o.Timeout, fmt.Sprintf("more than 0 and less than %s; 0 means %s", MinWindow, DefaultTimeout))
	case n > 0 && (n < 2 || n > algo.MaxRegions || own != 1):
		return wrong("Regions", fmt.Sprintf("%d stores, %d of them nil", n, own), fmt.Sprintf("2 to %d, with nil for this region",
			algo.MaxRegions))
	case o.Subjects < 0:
		return wrong("Subjects", o.Subjects, fmt.Sprintf("at least 1; 0 means %d", DefaultSubjects))
	}
	return o, nil
}

func nils(regions []Shares) (n int) {
	for _, r := range regions {
		if r == nil {
			n++
		}
	}
	return n
}

// placeOf returns the place of this region, whose store is nil. It is the zero value if there are no regions.
func placeOf(regions []Shares) *algo.Regions {
	return &algo.Regions{Of: len(regions), Place: max(0, slices.Index(regions, nil))}
}
