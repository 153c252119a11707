package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxMessages is how many messages are limited apart; further messages share one line a second.
const maxMessages = 100

// reasonKey is the attribute that separates records of one message: why the store failed. It has
// few values.
const reasonKey = "reason"

// NewRateLimitedHandler returns a slog.Handler that passes one record of each message per second to h,
// by the times of the records. So similar failures cannot flood the log. The attribute "suppressed"
// counts the records left out since the previous one. Keep client input out of messages; attributes
// may differ. The handler is safe for concurrent use if h is.
func NewRateLimitedHandler(h slog.Handler) slog.Handler {
	return rateLimited{h, &messages{turns: map[string]*turn{}}}
}

type rateLimited struct {
	slog.Handler
	messages *messages // shared by the handlers that WithAttrs and WithGroup make
}

// messages records what was passed on for each message.
type messages struct {
	mu    sync.Mutex
	turns map[string]*turn
}

type turn struct {
	last       time.Time // when a record was passed on
	suppressed int64     // since then
}

// Handle implements slog.Handler.
func (l rateLimited) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == reasonKey {
			message += " " + a.Value.String()
		}
		return true
	})
	suppressed, pass := l.messages.take(message, r.Time)
	if !pass {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int64("suppressed", suppressed))
	}
	return l.Handler.Handle(ctx, r)
}

// take reports whether a record of a message is passed on, and how many were suppressed before it.
func (m *messages) take(message string, at time.Time) (suppressed int64, pass bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.turns[message]; !known && len(m.turns) >= maxMessages {
		message = ""
	}
	t := m.turns[message]
	if t == nil {
		t = &turn{}
		m.turns[message] = t
	}
	if !t.last.IsZero() && at.Sub(t.last).Abs() < time.Second {
		t.suppressed++
		return 0, false
	}
	suppressed, *t = t.suppressed, turn{last: at}
	return suppressed, true
}

// WithAttrs implements slog.Handler.
func (l rateLimited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return rateLimited{l.Handler.WithAttrs(attrs), l.messages}
}

// WithGroup implements slog.Handler.
func (l rateLimited) WithGroup(name string) slog.Handler {
	return rateLimited{l.Handler.WithGroup(name), l.messages}
}
