package limiter

import "context"

type staleKey struct{}

// mayBeStale returns a context for a Take of cost 0. It allows the store to return a state that is some
// milliseconds old.
func mayBeStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// MayBeStale reports whether a Store may use a state that is some milliseconds old. It is true only for a
// Take whose charges all cost 0. In DynamoDB, a read of such a state costs half a unit. A Store may
// ignore MayBeStale.
func MayBeStale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }
