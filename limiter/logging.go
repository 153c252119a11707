package limiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// logs limits how often a line of each kind is logged, because a store that is down fails every request.
type logs struct {
	*slog.Logger
	mu    sync.Mutex
	lines map[lineKind]*lastLine
}

type lineKind struct {
	message string
	reason  Reason
}

type lastLine struct {
	at         algo.Instant
	suppressed int64 // number of lines of this kind that were suppressed since the last logged line
}

// allow reports whether a line of this kind may be logged at the instant now. The last line must be at least as old as
// the interval every. suppressed is the number of lines of this kind that were suppressed since the last logged line.
func (l *logs) allow(now algo.Instant, kind lineKind, every time.Duration) (suppressed int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.lines[kind]
	switch {
	case last == nil:
		if l.lines == nil {
			l.lines = map[lineKind]*lastLine{}
		}
		l.lines[kind] = &lastLine{at: now}
		return 0, true
	case now.Sub(last.at).Abs() < every:
		last.suppressed++
		return 0, false
	}
	suppressed = last.suppressed
	*last = lastLine{at: now}
	return suppressed, true
}

// problem logs an error of a store, at most once a second for each message and reason.
func (l *logs) problem(ctx context.Context, now algo.Instant, level slog.Level, message string, err error) {
	kind := lineKind{message, domain.ReasonOf(err)}
	if suppressed, ok := l.allow(now, kind, time.Second); ok {
		l.LogAttrs(ctx, level, message, slog.String("reason", string(kind.reason)), slog.Int64("suppressed", suppressed), slog.Any("err", err))
	}
}

func (l *logs) failure(ctx context.Context, now algo.Instant, err error) {
	l.problem(ctx, now, slog.LevelError, "store failed", err)
}

// shadowRefused logs, at most once a second, that a shadow limit would have refused a request.
func (l *logs) shadowRefused(ctx context.Context, now algo.Instant, shadow *Limit) {
	const message = "shadow limit would have refused"
	if _, ok := l.allow(now, lineKind{message: message}, time.Second); ok {
		l.LogAttrs(ctx, slog.LevelInfo, message, slog.String("limit", shadow.Name))
	}
}

// supersededBy logs, at most once a minute, that newer rules in the store decided a charge on a limit. m is the
// machine of the newer rules.
func (l *logs) supersededBy(ctx context.Context, now algo.Instant, limit *Limit, m algo.Machine) {
	const message = "rules superseded: the store holds a limit of a higher version, or other numbers of this version; give changed rules a " +
		"higher version"
	if _, ok := l.allow(now, lineKind{message: message}, time.Minute); ok {
		l.LogAttrs(ctx, slog.LevelWarn, message,
			slog.String("limit", limit.Name), slog.Int64("version", limit.Version), slog.String("rules", limit.Fingerprint()),
			slog.String("decided_by", m.Fingerprint()))
	}
}
