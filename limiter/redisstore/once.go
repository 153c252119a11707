package redisstore

import (
	"fmt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// replyUsed is the reply of a script if a settlement with the same ID was made before.
const replyUsed = -1

// keys returns the keys of a settlement. key is the key of the subject. A settlement with an ID has a second key,
// which exists if the settlement was made. Both keys have the same hash tag, so a cluster keeps them on one node. A
// reset deletes only the first key.
func keys(key string, once limiter.Once) []string {
	if !once.Needed() {
		return []string{key}
	}
	return []string{key, key + once.ID.String()}
}

// appendOnce appends the time to live of the key of an ID in ms. The key outlives the ID for every correct clock.
func appendOnce(args []any, now algo.Instant, once limiter.Once) []any {
	if !once.Needed() {
		return args
	}
	return append(args, (once.Expires.Sub(now) + algo.MaxSkew + expiryMargin).Milliseconds())
}

// refused returns the error of a reply that refuses the ID of a settlement; nil for other replies.
func refused(reply any, once limiter.Once) error {
	n, ok := reply.(int64)
	switch {
	case !ok || n >= 0:
		return nil
	case n == replyUsed && once.Needed():
		return limiter.ErrVoucherUsed
	}
	return fmt.Errorf("%w: reply (got %d, want at least 0)", limiter.ErrFormat, n)
}
