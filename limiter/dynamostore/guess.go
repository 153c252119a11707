package dynamostore

import (
	"sync/atomic"

	"github.com/weir-limits/weir/limiter"
)

// guesses predicts whether a bucket is busy if this environment has no current state of it. For each limit it
// predicts what was recently correct, like the branch predictor of a processor. The zero value predicts idle.
type guesses [256]atomic.Int32

// sure is the largest absolute value of a counter. After at most sure+1 contrary results, the prediction changes.
const sure = 4

func (g *guesses) of(id limiter.ID) *atomic.Int32 { return &g[id%limiter.ID(len(g))] }

func (g *guesses) busy(id limiter.ID) bool { return g.of(id).Load() > 0 }

// learn records whether the bucket of a limit was busy. If two calls of learn run at the same time, one
// result can be lost.
func (g *guesses) learn(id limiter.ID, busy bool) {
	count := g.of(id)
	if n := count.Load(); busy {
		count.Store(min(n+1, sure))
	} else {
		count.Store(max(n-1, -sure))
	}
}
