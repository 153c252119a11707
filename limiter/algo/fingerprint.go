package algo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parse returns the machine whose Fingerprint is s. A store uses Parse to decide by the parameters that
// it stores with a state.
func Parse(s string) (Machine, error) {
	kind, rest, _ := strings.Cut(s, "/")
	if region, ok := strings.CutPrefix(kind, kindShared); ok {
		return parseShared(region, rest)
	}
	length, capacity, _ := strings.Cut(rest, "/")
	var r Rate
	var err error
	if period, anchor, _ := strings.Cut(kind, "-"); slices.Contains(Periods(), Period(period)) {
		r = Rate{Algorithm: FixedWindow, Calendar: Calendar{Period: Period(period), Anchor: anchor, Zone: capacity}}
		capacity = length
	} else {
		r, err = rateOf(kind, length)
	}
	if err == nil {
		r.Requests, err = strconv.ParseInt(capacity, 10, 64)
	}
	if kind == kindBucket {
		r.Requests, r.Burst = 1, r.Requests
	}
	if err != nil {
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	}
	m, err := New(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	case m.Fingerprint() != s:
		return nil, fmt.Errorf("fingerprint %q: incomplete, want %s", s, m.Fingerprint())
	}
	return m, nil
}

// rateOf returns the rate of a fingerprint without a calendar, but not its requests.
func rateOf(kind, length string) (r Rate, err error) {
	r = Rate{Algorithm: kinds[kind], Counts: true}
	if r.Algorithm == "" {
		return r, fmt.Errorf("unknown kind (got %q, want %s, %s, %s, %s or %s)", kind, kindBucket, kindSliding, kindFixed, kindLog, kindSlots)
	}
	r.Window, err = time.ParseDuration(length)
	return r, err
}

// These are the kinds of machines. A fingerprint begins with the kind of its machine.
const (
	kindBucket  = "bucket"
	kindSliding = "sliding"
	kindFixed   = "fixed"
	kindLog     = "log"
	kindSlots   = "slots"
)

// kinds has the algorithm of a rate with a machine of each kind.
var kinds = map[string]Algorithm{kindBucket: TokenBucket, kindSliding: SlidingWindow, kindFixed: FixedWindow, kindLog: SlidingLog,
	kindSlots: Concurrent}
