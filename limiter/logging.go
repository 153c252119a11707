package limiter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// throttle limits how often a line is logged. The zero value has logged nothing.
type throttle struct{ last atomic.Int64 }

// allow reports whether every has passed at now since it last returned true.
func (t *throttle) allow(now algo.Instant, every time.Duration) bool {
	last := t.last.Load()
	age := now.Sub(algo.Instant(last))
	return (age < 0 || age >= every) && t.last.CompareAndSwap(last, int64(now))
}

// failureLog allows one line a second for each kind of failure: a store that is down fails every
// request. The zero value has logged nothing.
type failureLog struct {
	mu    sync.Mutex
	kinds map[failureKind]*failureLine
}

type failureKind struct {
	message string
	reason  Reason
}

type failureLine struct {
	at         algo.Instant
	suppressed int64 // since then
}

// allow reports whether a line of kind may be logged at now, and how many were suppressed since the
// last one.
func (f *failureLog) allow(now algo.Instant, kind failureKind) (suppressed int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.kinds[kind]
	switch {
	case last == nil:
		if f.kinds == nil {
			f.kinds = map[failureKind]*failureLine{}
		}
		f.kinds[kind] = &failureLine{at: now}
		return 0, true
	case now.Sub(last.at) < time.Second && last.at.Sub(now) < time.Second:
		last.suppressed++
		return 0, false
	}
	suppressed = last.suppressed
	*last = failureLine{at: now}
	return suppressed, true
}

// logs is the log of a Limiter.
type logs struct {
	*slog.Logger
	failures             failureLog
	superseded, shadowed throttle
}

// problem logs an error of a store, at most once a second for each message and reason.
func (l *logs) problem(ctx context.Context, now algo.Instant, level slog.Level, message string, err error) {
	kind := failureKind{message, reasonOf(err)}
	if suppressed, ok := l.failures.allow(now, kind); ok {
		l.LogAttrs(ctx, level, message, slog.String("reason", string(kind.reason)), slog.Int64("suppressed", suppressed), slog.Any("err", err))
	}
}

// failure logs the failure of a store.
func (l *logs) failure(ctx context.Context, now algo.Instant, err error) {
	l.problem(ctx, now, slog.LevelError, "store failed", err)
}

// refused logs, at most once a second, that a shadow limit would have refused.
func (l *logs) refused(ctx context.Context, now algo.Instant, shadow *Limit) {
	if l.shadowed.allow(now, time.Second) {
		l.LogAttrs(ctx, slog.LevelInfo, "shadow limit would have refused", slog.String("limit", shadow.Name))
	}
}

// decidedBy logs, at most once a minute, that newer rules of the store decided a charge on limit.
func (l *logs) decidedBy(ctx context.Context, now algo.Instant, limit *Limit, m algo.Machine) {
	if !l.superseded.allow(now, time.Minute) {
		return
	}
	l.LogAttrs(ctx, slog.LevelWarn, "rules superseded: the store holds a limit of a higher version, or other numbers of this version; give changed rules a higher version",
		slog.String("limit", limit.Name), slog.Int64("version", limit.Version), slog.String("rules", limit.fingerprint), slog.String("decided_by", m.Fingerprint()))
}
