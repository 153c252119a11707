package dynamostore_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// distant is the table of another region. Its answers take 80 ms. It loses some answers, and can be cut off.
type distant struct {
	dynamostore.API
	cut *atomic.Bool
}

func (d distant) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if d.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(80 * time.Millisecond)
	out, err := d.API.UpdateItem(context.WithoutCancel(ctx), in, o...)
	if rand.IntN(20) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return out, err
}

// Three regions with a table each, under random load. Answers between regions are lost, and one region is cut off for a
// while. All regions together never count more than one table would. WEIR_SOAK makes it ten minutes.
func TestStore_regions(t *testing.T) {
	connect(t) // skips the test without a server
	lasts := 6 * time.Second
	if os.Getenv("WEIR_SOAK") != "" {
		lasts = 10 * time.Minute
	}
	var admitted, moved, lost atomic.Int64
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			rate := algo.Rate{Algorithm: algorithm, Requests: 40, Window: 2 * time.Second}
			var stores [3]*dynamostore.Store
			var apart [3]limiter.Shares
			var cut [3]atomic.Bool
			for i := range stores {
				client, table := local(t)
				o := dynamostore.Options{Table: table, Namespace: "regions"}
				stores[i] = storetest.Must(dynamostore.NewBare(client, o))
				apart[i] = storetest.Must(resilient.New(storetest.Must(dynamostore.NewBare(distant{client, &cut[i]}, o)), resilient.Options{}))
			}
			who, end := caller(), time.Now().Add(lasts)
			var all sync.WaitGroup
			for i := range stores {
				others := append([]limiter.Shares(nil), apart[:]...)
				others[i] = nil
				l := storetest.Must(limiter.New(stores[i], limiter.Options{Regions: others}))
				rate.Regions = algo.Regions{Of: 3, Place: i}
				limit := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: rate, OnError: limiter.OnErrorDeny}))
				for range 3 {
					all.Go(func() {
						for time.Now().Before(end) {
							d, err := l.Take(t.Context(), time.Now(), []limiter.Charge{{Subject: who, Limit: limit, Cost: 1 + rand.Int64N(2)}})
							if err != nil {
								t.Error(err)
								return
							}
							moved.Add(d.Transfer.Moved)
							lost.Add(int64(d.Transfer.Lost))
							if d.Allowed {
								admitted.Add(d.Cost)
								judgeRegions(t, stores[:], who, limit)
							}
							cut[2].Store(time.Until(end) < lasts/2 && time.Until(end) > lasts/4)
							time.Sleep(time.Duration(rand.IntN(1+400*i)) * time.Millisecond)
						}
					})
				}
			}
			all.Wait()
		})
	}
	t.Logf("%d admitted, %d moved, %d messages lost", admitted.Load(), moved.Load(), lost.Load())
	if moved.Load() == 0 || lost.Load() == 0 {
		t.Error("got no share moved, or no message lost, want both")
	}
}

// judgeRegions compares the counts of all regions with one table.
func judgeRegions(t *testing.T, stores []*dynamostore.Store, who limiter.Subject, limit *limiter.Limit) {
	counts, newest := map[int64]int64{}, int64(0)
	for _, s := range stores {
		entries, err := s.Inspect(t.Context(), who)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			counts[e.State.Window] += e.State.Count
			counts[e.State.Window-1] += e.State.Previous
			newest = max(newest, e.State.Window)
		}
	}
	w := algo.WindowOf(limit.Machine())
	total := algo.State{Window: newest, Count: counts[newest], Previous: counts[newest-1]}
	if used := w.Used(total, algo.InstantOf(time.Now())); used > w.Requests || counts[newest-1] > w.Requests {
		t.Errorf("got %+v in all regions, which one table counts as %d, want at most %d", total, used, w.Requests)
	}
}
