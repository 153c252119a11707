package limiter

import "context"

type staleKey struct{}

// mayBeStale returns a context for a look that may return a state which is some milliseconds old.
func mayBeStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// MayBeStale reports whether a Store may answer a look, a Take whose charges all cost 0, with a state
// that is some milliseconds old. DynamoDB takes half a read unit for it. A Store may ignore it.
func MayBeStale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }
