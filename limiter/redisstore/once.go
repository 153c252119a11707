package redisstore

import (
	"fmt"
	"strconv"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// A script returns one of these replies if the ID of a settlement does not allow it.
const (
	replyUsed    = -1
	replyCrowded = -2
)

// shortSize is the size of one ID in a key that holds IDs.
const shortSize = int64(len([8]byte{}))

// keys returns the keys of a settlement. key is the key of the subject. A settlement with an ID has a second key,
// which holds the IDs that expire in the same period. Both keys have the same hash tag, so a cluster keeps them on
// one node. A reset deletes only the first key.
func keys(key string, once limiter.Once) []string {
	if !once.Needed() {
		return []string{key}
	}
	return []string{key, key + strconv.FormatInt(once.Period(), 36)}
}

// appendOnce appends the arguments of an ID: the ID, the size of a full key, and the time to live of the
// key in ms. The key outlives the period for every correct clock.
func appendOnce(args []any, now algo.Instant, once limiter.Once) []any {
	if !once.Needed() {
		return args
	}
	id, end := once.Short(), algo.Instant(once.Period()+1)*algo.Instant(limiter.OncePeriod)
	return append(args, id[:], limiter.MaxOnce*shortSize, (max(0, end.Sub(now)) + algo.MaxSkew + expiryMargin).Milliseconds())
}

// refused returns the error of a reply that refuses the ID of a settlement; nil for other replies.
func refused(reply any, once limiter.Once) error {
	n, ok := reply.(int64)
	switch {
	case !ok || n >= 0:
		return nil
	case n == replyUsed && once.Needed():
		return limiter.ErrVoucherUsed
	case n == replyCrowded && once.Needed():
		return once.Crowded()
	}
	return fmt.Errorf("%w: reply (got %d, want at least 0)", limiter.ErrFormat, n)
}
