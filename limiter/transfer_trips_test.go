package limiter_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// farTable is a table of another region. A message arrives after half of the round trip.
type farTable struct {
	*memtable.Table
	trip  time.Duration
	calls *atomic.Int64
}

func (f farTable) half(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.trip / 2):
		return nil
	}
}

func call[T any](ctx context.Context, f farTable, serve func(context.Context) (*T, error)) (*T, error) {
	f.calls.Add(1)
	if err := f.half(ctx); err != nil {
		return nil, err
	}
	out, err := serve(context.WithoutCancel(ctx))
	if e := f.half(ctx); e != nil {
		return nil, e
	}
	return out, err
}

func (f farTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return call(ctx, f, func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return f.Table.UpdateItem(ctx, in, o...)
	})
}

func (f farTable) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return call(ctx, f, func(ctx context.Context) (*dynamodb.GetItemOutput, error) { return f.Table.GetItem(ctx, in, o...) })
}

// Three regions on DynamoDB: one is at 90 % of the limit, and the others get few requests or none. A debit needs one round trip
// if the process has asked before, so it loses nothing and gets nearly the whole limit, also where a round trip takes 240 ms.
func TestLimiter_Take_regionsTrips(t *testing.T) {
	for _, trip := range []time.Duration{80 * time.Millisecond, 120 * time.Millisecond, 240 * time.Millisecond} {
		for _, idle := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				f, calls := farFederation(t, trip)
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				asked, admitted, sum := 0, 0, limiter.Transfer{}
				take := func(i int) {
					d := f.take(t, i, time.Now(), 1)
					sum.Lost += d.Transfer.Lost
					sum.Calls += d.Transfer.Calls
					if asked++; d.Allowed {
						admitted++
					}
				}
				for k := range 5 * 900 {
					time.Sleep(time.Minute / 900)
					if take(0); !idle && k%60 == 0 {
						take(1)
						take(2)
					}
				}
				part := 100 * float64(admitted) / float64(asked)
				t.Logf("round trip %s, others without requests %t: %.1f %% admitted, %d of %d debits lost, %d calls", trip, idle, part, sum.Lost, sum.Calls, calls.Load())
				if part < 98 || trip <= 120*time.Millisecond && part < 99.9 || sum.Lost > 0 {
					t.Errorf("round trip %s, others without requests %t: got %.1f %% admitted and %d debits lost, want nearly all, and none lost", trip, idle, part, sum.Lost)
				}
			})
		}
	}
}

// farFederation returns three regions with tables that are a round trip apart, and the number of calls between them.
func farFederation(t *testing.T, trip time.Duration) (*federation, *atomic.Int64) {
	t.Helper()
	f, calls, tables := &federation{}, new(atomic.Int64), []*memtable.Table{{}, {}, {}}
	open := func(api dynamostore.API) *resilient.Store {
		return storetest.Must(resilient.New(storetest.Must(dynamostore.NewBare(api, dynamostore.Options{Table: "t", Namespace: "n"})), resilient.Options{}))
	}
	for i := range tables {
		rate := algo.Rate{Algorithm: algo.FixedWindow, Requests: 1000, Window: time.Minute, Regions: algo.Regions{Of: 3, Place: i}}
		f.limits = append(f.limits, limit(t, limiter.Limit{Name: "a", Rate: rate}))
		others := make([]limiter.Shares, 3)
		for j := range tables {
			if j != i {
				others[j] = open(farTable{tables[j], trip, calls})
			}
		}
		f.limiters = append(f.limiters, storetest.Must(limiter.New(open(tables[i]), limiter.Options{Regions: others, Logger: slog.New(slog.DiscardHandler)})))
	}
	return f, calls
}
