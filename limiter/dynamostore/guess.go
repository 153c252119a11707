package dynamostore

import (
	"sync/atomic"

	"github.com/weir-limits/weir/limiter"
)

// guesses predicts whether a bucket is busy of which the environment remembers nothing
// that says so: because others serve the caller too, or because it was never seen. Like
// the branch predictor of a processor it guesses what has lately been right, for each
// limit. The zero value guesses idle.
type guesses [256]atomic.Int32

// sure is where a count stops: how many times more of the other kind turn a guess over.
const sure = 4

func (g *guesses) of(id limiter.ID) *atomic.Int32 { return &g[id%limiter.ID(len(g))] }

// busy returns the guess for a limit.
func (g *guesses) busy(id limiter.ID) bool { return g.of(id).Load() > 0 }

// learn takes in what a guess should have been. Two that learn at once may count as one.
func (g *guesses) learn(id limiter.ID, busy bool) {
	count := g.of(id)
	if n := count.Load(); busy {
		count.Store(min(n+1, sure))
	} else {
		count.Store(max(n-1, -sure))
	}
}
