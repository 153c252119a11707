package caller

import "time"

// How long is believed what a table has answered, and how long it is left alone after it
// has failed: by whoever has an answer from before, and by whoever has none.
const (
	recordFresh    = time.Minute
	absenceFresh   = 10 * time.Second // shorter: a new key may not be in every replica yet
	recordStale    = time.Hour        // as long as the table fails
	recordCooldown = 10 * time.Second
	recordRetry    = time.Second
)

// kept is what is known of one thing in a table. The zero value was never asked for.
type kept[V any] struct {
	value  V
	known  bool      // the table had it when it last answered
	read   time.Time // when the table last answered
	tried  time.Time // when it was last asked
	failed error     // of that attempt
}

// due reports whether the table is to be asked at now. Requests that come together do not
// come in the order of their clocks.
func (k kept[V]) due(now time.Time) bool {
	life := recordCooldown
	switch {
	case k.tried.IsZero():
		return true
	case k.failed == nil && k.known:
		life = recordFresh
	case k.failed == nil:
		life = absenceFresh
	case !k.usable(now):
		life = recordRetry
	}
	return now.Sub(k.tried).Abs() >= life
}

// usable reports whether the value may be used at now, if there is no newer one.
func (k kept[V]) usable(now time.Time) bool { return k.known && now.Sub(k.read) < recordStale }

// asked returns what is known after an attempt.
func (k kept[V]) asked(now time.Time, value V, known bool, err error) kept[V] {
	if err != nil {
		k.tried, k.failed = now, err
		return k
	}
	return kept[V]{value: value, known: known, read: now, tried: now}
}

// answer returns the value, or ok false if the table has none. The error is that of the
// table, if it is not known.
func (k kept[V]) answer(now time.Time) (value V, ok bool, err error) {
	if k.failed != nil && !k.usable(now) {
		return value, false, k.failed
	}
	return k.value, k.known, nil
}
