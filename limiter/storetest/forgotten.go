package storetest

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// After a reset of a subject, the store ignores older cached states of the subject. This holds even if the clock of
// this process is behind the instant of such a state.
func testForgotten(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	// A window of a minute ends between behind and ahead.
	ahead, behind := start.Add(54500*time.Millisecond), start.Add(54*time.Second)
	_, remembered := p.take(t, ahead, one(l, 4), nil)
	p.reset(t)
	_, remembered = p.take(t, behind, one(l, 2), remembered)
	p.inspect(t)
	p.reset(t)
	p.take(t, behind, one(l, 0), remembered)
	p.take(t, behind.Add(-20*time.Second), one(l, 10), remembered)
	p.inspect(t)
}
