package limiter

import "context"

type staleKey struct{}

// mayBeStale returns a context for a look that may return a state of some milliseconds ago.
func mayBeStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// MayBeStale reports whether a Store may answer a Take whose charges all cost 0 with a state of some
// milliseconds ago. In DynamoDB, such a read costs half a unit. A Store may ignore MayBeStale.
func MayBeStale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }
