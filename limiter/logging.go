package limiter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// lineInterval limits how often a line is logged. The zero value permits a line at once.
type lineInterval struct{ last atomic.Int64 }

// allow reports whether a line may be logged at the instant now. The last line must be at least as old as the
// interval every.
func (t *lineInterval) allow(now algo.Instant, every time.Duration) bool {
	last := t.last.Load()
	age := now.Sub(algo.Instant(last))
	return (age < 0 || age >= every) && t.last.CompareAndSwap(last, int64(now))
}

// failureLog permits one line a second for each kind of failure, because a store that is down fails
// every request. The zero value is ready for use.
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
	suppressed int64 // number of lines of this kind that were suppressed since the last logged line
}

// allow reports whether a line of this kind may be logged at the instant now. suppressed is the number of lines
// of this kind that were suppressed since the last logged line.
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

type logs struct {
	*slog.Logger
	failures             failureLog
	superseded, shadowed lineInterval
}

// problem logs an error of a store, at most once a second for each message and reason.
func (l *logs) problem(ctx context.Context, now algo.Instant, level slog.Level, message string, err error) {
	kind := failureKind{message, reasonOf(err)}
	if suppressed, ok := l.failures.allow(now, kind); ok {
		l.LogAttrs(ctx, level, message, slog.String("reason", string(kind.reason)), slog.Int64("suppressed", suppressed), slog.Any("err", err))
	}
}

func (l *logs) failure(ctx context.Context, now algo.Instant, err error) {
	l.problem(ctx, now, slog.LevelError, "store failed", err)
}

// shadowRefused logs, at most once a second, that a shadow limit would have refused a request.
func (l *logs) shadowRefused(ctx context.Context, now algo.Instant, shadow *Limit) {
	if l.shadowed.allow(now, time.Second) {
		l.LogAttrs(ctx, slog.LevelInfo, "shadow limit would have refused", slog.String("limit", shadow.Name))
	}
}

// supersededBy logs, at most once a minute, that newer rules in the store decided a charge on a limit. m is the
// machine of the newer rules.
func (l *logs) supersededBy(ctx context.Context, now algo.Instant, limit *Limit, m algo.Machine) {
	if !l.superseded.allow(now, time.Minute) {
		return
	}
	l.LogAttrs(ctx, slog.LevelWarn, "rules superseded: the store holds a limit of a higher version, or other numbers of this version; give changed rules a higher version",
		slog.String("limit", limit.Name), slog.Int64("version", limit.Version), slog.String("rules", limit.fingerprint), slog.String("decided_by", m.Fingerprint()))
}
