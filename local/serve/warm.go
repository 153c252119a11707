package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These constants bound the warm-up: the number of concurrent callers, the number of calls by each
// caller, and the timeout. The warm-up has two reasons: the first calls of a new server take up to a
// second, and each concurrent call needs a connection.
const (
	warmCallers = 32
	warmCalls   = 8
	warmMost    = 10 * time.Second
)

func (s *Server) warm(ctx context.Context) error { return warm(ctx, s.opened) }

// warm charges invented callers and then deletes their state. After the warm-up, the first burst of
// requests has a fast server and open connections. If the server is still slow, warm returns no error.
func warm(ctx context.Context, store limiter.Store) error {
	if _, ok := store.(limiter.Local); ok {
		return nil
	}
	limit, err := limiter.NewLimit(limiter.Limit{Name: "warm-up", Rate: algo.Rate{Requests: warmCalls, Window: time.Minute}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, warmMost)
	defer cancel()
	var callers sync.WaitGroup
	for i := range warmCallers {
		callers.Go(func() {
			charges := []limiter.Charge{{Subject: limiter.Custom("warm-up", fmt.Sprint(i)), Limit: limit, Cost: 1}}
			for range warmCalls {
				_, _ = store.Take(ctx, algo.InstantOf(time.Now()), charges[0].Subject, charges, make([]algo.Result, 1))
			}
			_ = store.Reset(ctx, charges[0].Subject)
		})
	}
	callers.Wait()
	return nil
}
