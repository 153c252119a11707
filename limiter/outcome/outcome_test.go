package outcome_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/outcome"
)

func TestOutcome_Class(t *testing.T) {
	allowed, failed := limiter.Decision{Allowed: true}, limiter.Decision{Failed: true}
	for _, c := range []struct {
		o    outcome.Outcome
		want outcome.Class
	}{
		{outcome.Outcome{}, outcome.Refused},
		{outcome.Outcome{Decision: allowed}, outcome.Allowed},
		{outcome.Outcome{Decision: failed}, outcome.Failed},
		{outcome.Outcome{Decision: allowed, Err: fmt.Errorf("token: %w", caller.ErrInvalidCredential)}, outcome.Unauthorized},
		{outcome.Outcome{Decision: allowed, Err: caller.ErrMissingCredential}, outcome.Unauthorized},
		{outcome.Outcome{Decision: allowed, Err: caller.ErrUnverified}, outcome.Failed},
		{outcome.Outcome{Err: errors.New("unreadable event")}, outcome.Failed},
	} {
		if got := c.o.Class(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.o, got, c.want)
		}
	}
}

func ExampleOutcome_Class() {
	o := outcome.Outcome{Caller: caller.Caller{User: "alice"}, Decision: limiter.Decision{Allowed: true}}
	fmt.Println(o.Class())
	o.Err = caller.ErrInvalidCredential
	fmt.Println(o.Class())
	// Output:
	// allowed
	// unauthorized
}
