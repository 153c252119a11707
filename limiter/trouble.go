package limiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// troubles is when each kind of trouble was told last: a store that is down fails every
// request, and the log is to hold a line a second of it. The zero value has told nothing.
type troubles struct {
	mu    sync.Mutex
	known map[trouble]*told
}

type trouble struct {
	message string
	reason  Reason
}

type told struct {
	at      algo.Instant
	omitted int64 // since then
}

// tell logs an error of a store, unless it has told of its kind within the last second.
func (l *Limiter) tell(ctx context.Context, now algo.Instant, level slog.Level, message string, err error) {
	kind := trouble{message, reasonOf(err)}
	if omitted, again := l.troubles.again(now, kind); again {
		l.logger.LogAttrs(ctx, level, message, slog.String("reason", string(kind.reason)), slog.Int64("omitted", omitted), slog.Any("err", err))
	}
}

// again reports whether a kind is to be told at now, and how many of it were not since the
// last time.
func (t *troubles) again(now algo.Instant, kind trouble) (omitted int64, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.known[kind]
	switch {
	case last == nil:
		if t.known == nil {
			t.known = map[trouble]*told{}
		}
		t.known[kind] = &told{at: now}
		return 0, true
	case now.Sub(last.at) < time.Second && last.at.Sub(now) < time.Second:
		last.omitted++
		return 0, false
	}
	omitted = last.omitted
	*last = told{at: now}
	return omitted, true
}
