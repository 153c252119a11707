package telemetry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

func TestOutcome_Class(t *testing.T) {
	allowed, failed := limiter.Decision{Allowed: true}, limiter.Decision{Failed: true}
	for _, c := range []struct {
		o    telemetry.Outcome
		want telemetry.Class
	}{
		{telemetry.Outcome{}, telemetry.ClassRefused},
		{telemetry.Outcome{Decision: allowed}, telemetry.ClassAllowed},
		{telemetry.Outcome{Decision: failed}, telemetry.ClassFailed},
		{telemetry.Outcome{Decision: allowed, Err: fmt.Errorf("token: %w", caller.ErrInvalidCredential)}, telemetry.ClassUnauthorized},
		{telemetry.Outcome{Decision: allowed, Err: caller.ErrMissingCredential}, telemetry.ClassUnauthorized},
		{telemetry.Outcome{Decision: allowed, Err: caller.ErrUnverified}, telemetry.ClassFailed},
		{telemetry.Outcome{Err: errors.New("unreadable event")}, telemetry.ClassFailed},
	} {
		if got := c.o.Class(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.o, got, c.want)
		}
	}
}
