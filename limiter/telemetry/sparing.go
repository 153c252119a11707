package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sparingMessages is how many messages are told apart; further ones share a turn.
const sparingMessages = 100

// Sparing returns a slog.Handler that hands on to h one record of a message a second, by the
// records' own times, and with it, as "suppressed", how many there were since the one before:
// requests that fail alike, whoever sends them, make no more lines than that. Keep what a
// client sends out of messages; attributes may differ. It is safe for concurrent use if h is.
func Sparing(h slog.Handler) slog.Handler {
	return sparing{h, &told{turns: map[string]*turn{}}}
}

type sparing struct {
	slog.Handler
	told *told
}

// told is what all handlers that come of one have told.
type told struct {
	mu    sync.Mutex
	turns map[string]*turn // by message
}

// reasonKey is the attribute by which messages of one text are told apart: why the store failed.
const reasonKey = "reason"

type turn struct {
	last       time.Time
	suppressed int64
}

// Handle implements slog.Handler.
func (s sparing) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == reasonKey { // of few values
			message += " " + a.Value.String()
		}
		return true
	})
	suppressed, tell := s.told.tell(message, r.Time)
	if !tell {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int64("suppressed", suppressed))
	}
	return s.Handler.Handle(ctx, r)
}

// tell reports whether it is a message's turn, and how many had none since the last.
func (t *told) tell(message string, at time.Time) (suppressed int64, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.turns[message]; !known && len(t.turns) >= sparingMessages {
		message = ""
	}
	m := t.turns[message]
	if m == nil {
		m = &turn{}
		t.turns[message] = m
	}
	if !m.last.IsZero() && at.Sub(m.last).Abs() < time.Second {
		m.suppressed++
		return 0, false
	}
	suppressed, *m = m.suppressed, turn{last: at}
	return suppressed, true
}

// WithAttrs implements slog.Handler.
func (s sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{s.Handler.WithAttrs(attrs), s.told}
}

// WithGroup implements slog.Handler.
func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.told}
}
