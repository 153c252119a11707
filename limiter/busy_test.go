package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/storetest"
)

// If a subject is busy, its requests are denied with every OnError. The charges on other subjects of the
// request are refunded. If a limit of another subject refuses, the decision names that limit.
func TestLimiter_Take_busy(t *testing.T) {
	for name, err := range map[string]error{
		"lost races":   limiter.ErrContended,
		"no time left": fmt.Errorf("%w: no time for more: %w", limiter.ErrContended, context.DeadlineExceeded),
	} {
		for _, policy := range []limiter.OnError{limiter.OnErrorAllow, limiter.OnErrorDeny, limiter.OnErrorLocal} {
			t.Run(fmt.Sprintf("%s, %s", name, policy), func(t *testing.T) {
				r := newRemote()
				n := 0
				l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler), IntN: func(int) int { n++; return n % 3 }}))
				share := 0
				if policy == limiter.OnErrorLocal {
					share = 1
				}
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: perMinute(t, "a", 10).Rate, OnError: policy,
					LocalProcesses: share})}
				theirs := limiter.Charge{Subject: other, Cost: 1, Limit: perMinute(t, "theirs", 1)}
				r.fail = map[limiter.Subject]error{user: err}
				for _, wait := range []time.Duration{2 * time.Second, 3 * time.Second, time.Second} {
					if d := take(t, l, c); d.Allowed || d.Failed || d.Limit != nil || d.Reason != limiter.ReasonBusy || d.RetryAfter != wait {
						t.Errorf("got %+v, want a busy subject and a wait of %s", d, wait)
					}
				}
				if d := take(t, l, theirs, c); d.Allowed || d.Reason != limiter.ReasonBusy || d.Refunds.Given != 1 {
					t.Errorf("with another subject: got %+v, want a busy subject and one refund, for the other subject", d)
				}
				if d := take(t, l, theirs); !d.Allowed {
					t.Errorf("the other subject: got %+v, want an admission, because the charge was refunded", d)
				}
				if d := take(t, l, theirs, c); d.Allowed || d.Limit != theirs.Limit || d.Reason != limiter.ReasonNone {
					t.Errorf("refused by another subject too: got %+v, want a refusal by limit \"theirs\"", d)
				}
				if look := mustPeek(t, l, noon, c); look.Reason != limiter.ReasonBusy || look.Allowed {
					t.Errorf("Peek: got %+v, want a busy subject", look)
				}
			})
		}
	}
}

// A shadow limit whose subject is busy refuses no request.
func TestLimiter_Take_busy_shadow(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	tried := limit(t, limiter.Limit{Name: "a", Rate: perMinute(t, "a", 10).Rate, Shadow: true})
	for _, s := range tried.Subjects(user) {
		r.fail = map[limiter.Subject]error{s: limiter.ErrContended}
	}
	if d := take(t, l, limiter.Charge{Subject: user, Limit: tried, Cost: 1}); !d.Allowed || d.Reason != limiter.ReasonNone {
		t.Errorf("got %+v, want it allowed", d)
	}
}

// Answered returns false if DynamoDB throttles the whole table, and true if it throttles one item.
func TestAnswered_throttled(t *testing.T) {
	if limiter.Answered(fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrThrottled)) ||
		!limiter.Answered(errors.Join(limiter.ErrUnavailable, limiter.ErrItemThrottled)) {
		t.Error("Answered: got a wrong result, want true for a throttled item and false for a throttled table")
	}
}
