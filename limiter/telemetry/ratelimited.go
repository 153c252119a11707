package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxMessages is the number of messages that are limited separately. All further messages share one
// line a second.
const maxMessages = 100

// reasonKey is the attribute with the reason of a store failure. For each message, the handler limits the
// lines of each reason separately. There are only a few reasons.
const reasonKey = "reason"

// NewRateLimitedHandler returns a slog.Handler that passes one record a second of each message to h. It
// measures the second by the times of the records. Repeated failures therefore cannot flood the log. The
// attribute "suppressed" has the number of suppressed records since the previous record of the message.
// Put client input into attributes and never into the message. The handler is safe for concurrent use if
// h is.
func NewRateLimitedHandler(h slog.Handler) slog.Handler {
	return rateLimited{h, &messages{turns: map[string]*turn{}}}
}

type rateLimited struct {
	slog.Handler
	messages *messages // shared by the handlers that WithAttrs and WithGroup return
}

// messages records, for each message, the last record that was passed on.
type messages struct {
	mu    sync.Mutex
	turns map[string]*turn
}

type turn struct {
	last       time.Time // when the last record was passed on
	suppressed int64     // number of suppressed records since last
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

// take reports whether a log record with this message is passed on. suppressed is the number of suppressed
// records before it.
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
