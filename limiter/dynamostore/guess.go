package dynamostore

import (
	"sync/atomic"

	"github.com/weir-limits/weir/limiter"
)

// guesses predicts whether a bucket is busy if this environment has no current state of it. Like the
// branch predictor of a processor, it guesses for each limit the state that was recently correct. The
// zero value guesses idle.
type guesses [256]atomic.Int32

// sure bounds a counter. A guess reverses after this number of opposite results.
const sure = 4

func (g *guesses) of(id limiter.ID) *atomic.Int32 { return &g[id%limiter.ID(len(g))] }

// busy returns the guess for a limit.
func (g *guesses) busy(id limiter.ID) bool { return g.of(id).Load() > 0 }

// learn records the correct answer for a guess. Of two concurrent calls, it is possible that only one
// counts.
func (g *guesses) learn(id limiter.ID, busy bool) {
	count := g.of(id)
	if n := count.Load(); busy {
		count.Store(min(n+1, sure))
	} else {
		count.Store(max(n-1, -sure))
	}
}
