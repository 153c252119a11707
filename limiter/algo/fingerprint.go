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
	if period, anchor, _ := strings.Cut(kind, "-"); slices.Contains(Periods(), Period(period)) {
		return parsePeriod(s, Calendar{Period: Period(period), Anchor: anchor, Zone: capacity}, length)
	}
	d, err := time.ParseDuration(length)
	if err != nil {
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	}
	n, err := strconv.ParseInt(capacity, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	}
	return build(kind, d, n)
}

// parsePeriod returns the machine of a calendar. s is the complete fingerprint, for the error.
func parsePeriod(s string, c Calendar, requests string) (Machine, error) {
	n, err := strconv.ParseInt(requests, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	}
	m, err := New(Rate{Algorithm: FixedWindow, Requests: n, Calendar: c})
	switch {
	case err != nil:
		return nil, fmt.Errorf("fingerprint %q: %w", s, err)
	case m.Fingerprint() != s:
		return nil, fmt.Errorf("fingerprint %q: incomplete, want %s", s, m.Fingerprint())
	}
	return m, nil
}

// build returns the machine of stored parameters, after validating them.
func build(kind string, length time.Duration, capacity int64) (Machine, error) {
	most := int64(MaxRequests)
	if kind == kindSliding || kind == kindFixed {
		most = MaxAmount
	}
	if length <= 0 || length > MaxWindow || capacity < 1 || capacity > most {
		return nil, fmt.Errorf("fingerprint %s/%s/%d: out of bounds (want a duration of at most %s and a capacity of 1 to %d)", kind, length,
			capacity, MaxWindow, most)
	}
	switch kind {
	case kindBucket:
		if capacity > int64(MaxWindow/length) {
			return nil, fmt.Errorf("fingerprint %s/%s/%d: the bucket needs more than 100 days to fill", kind, length, capacity)
		}
		return &Bucket{Interval: length, Depth: length * time.Duration(capacity), Burst: capacity}, nil
	case kindSliding, kindFixed:
		return &Window{Length: length, Requests: capacity, Sliding: kind == kindSliding}, nil
	case kindLog:
		if capacity > MaxLog {
			return nil, fmt.Errorf("fingerprint %s/%s/%d: out of bounds (want a capacity of at most %d)", kind, length, capacity, MaxLog)
		}
		return &Log{length, capacity}, nil
	case kindSlots:
		if capacity > MaxSlots {
			return nil, fmt.Errorf("fingerprint %s/%s/%d: out of bounds (want a capacity of at most %d)", kind, length, capacity, MaxSlots)
		}
		return &Slots{length, capacity}, nil
	}
	return nil, fmt.Errorf("fingerprint %s/%s/%d: unknown kind (want %s, %s, %s, %s or %s)", kind, length, capacity, kindBucket, kindSliding,
		kindFixed, kindLog, kindSlots)
}

// These are the kinds of machines. A fingerprint begins with the kind of its machine.
const (
	kindBucket  = "bucket"
	kindSliding = "sliding"
	kindFixed   = "fixed"
	kindLog     = "log"
	kindSlots   = "slots"
)
