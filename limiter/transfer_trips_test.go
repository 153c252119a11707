package limiter_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
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

// farTable is a table of another region, behind HTTP connections. To open one takes two round trips, with TLS 1.3, and a call
// takes one.
type farTable struct {
	*memtable.Table
	trip   time.Duration
	client *http.Client
	served sync.Map // what the table does for a call, by the header Call
	calls  atomic.Int64
	dials  atomic.Int64
}

func newFarTable(t *testing.T, table *memtable.Table, trip time.Duration) *farTable {
	t.Helper()
	f := &farTable{Table: table, trip: trip}
	f.client = &http.Client{Transport: &http.Transport{DialContext: f.dial, IdleConnTimeout: resilient.RegionConnectionLife,
		MaxIdleConnsPerHost: 10}}
	t.Cleanup(f.client.CloseIdleConnections)
	return f
}

func (f *farTable) dial(context.Context, string, string) (net.Conn, error) {
	f.dials.Add(1)
	time.Sleep(2 * f.trip)
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		for r := bufio.NewReader(far); ; {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			time.Sleep(f.trip / 2)
			serve, _ := f.served.LoadAndDelete(q.Header.Get("Call"))
			serve.(func())()
			time.Sleep(f.trip / 2)
			if _, err := io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	return near, nil
}

// call makes a call of the table over a connection.
func call[T any](ctx context.Context, f *farTable, serve func() (*T, error)) (*T, error) {
	var out *T
	var err error
	id := strconv.FormatInt(f.calls.Add(1), 10)
	f.served.Store(id, func() { out, err = serve() })
	q, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://far.invalid", http.NoBody)
	q.Header.Set("Call", id)
	r, lost := f.client.Do(q)
	if lost != nil {
		return nil, lost
	}
	return out, errors.Join(err, r.Body.Close())
}

func (f *farTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	return call(ctx, f, func() (*dynamodb.UpdateItemOutput, error) {
		return f.Table.UpdateItem(context.WithoutCancel(ctx), in, o...)
	})
}

func (f *farTable) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return call(ctx, f, func() (*dynamodb.GetItemOutput, error) { return f.Table.GetItem(context.WithoutCancel(ctx), in, o...) })
}

// Three regions on DynamoDB: one is at 90 % of the limit, and the others get few requests or none. A debit needs one round trip
// if the process has asked before, so it loses nothing and gets nearly the whole limit, also where a round trip takes 240 ms.
func TestLimiter_Take_regionsTrips(t *testing.T) {
	for _, trip := range []time.Duration{80 * time.Millisecond, 120 * time.Millisecond, 240 * time.Millisecond} {
		for _, idle := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				f, links := farFederation(t, trip, 1000)
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				asked, admitted, sum := 0, 0, limiter.Transfer{}
				take := func(i int, counts bool) {
					d := f.take(t, i, time.Now(), 1)
					sum.Lost += d.Transfer.Lost
					sum.Calls += d.Transfer.Calls
					if counts {
						asked++
					}
					if counts && d.Allowed {
						admitted++
					}
				}
				for k := range 6 * 900 {
					counts := k >= 900 // in the first minute, the connections are opened
					time.Sleep(time.Minute / 900)
					take(0, counts)
					if !idle && k%60 == 0 {
						take(1, counts)
						take(2, counts)
					}
				}
				calls := int64(0)
				for _, link := range links {
					calls += link.calls.Load()
				}
				part := 100 * float64(admitted) / float64(asked)
				t.Logf("round trip %s, others without requests %t: %.1f %% admitted, %d of %d debits lost, %d calls", trip, idle, part, sum.Lost,
					sum.Calls, calls)
				if part < 98 || trip <= 120*time.Millisecond && part < 99.9 || sum.Lost > 0 {
					t.Errorf("round trip %s, others without requests %t: got %.1f %% admitted and %d debits lost, want nearly all, and none lost", trip,
						idle, part, sum.Lost)
				}
			})
		}
	}
}

// After minutes without a transfer, the connections are gone. A region that needs share opens them again within some seconds,
// one for each limit that lacks share, although that takes longer than a debit may take. It does not open one at each try.
func TestLimiter_Take_regionsConnections(t *testing.T) {
	for _, trip := range []time.Duration{80 * time.Millisecond, 120 * time.Millisecond, 140 * time.Millisecond, 160 * time.Millisecond,
		240 * time.Millisecond} {
		for limits := range 3 {
			synctest.Test(t, func(t *testing.T) {
				f, links := farFederation(t, trip, 300)
				charges := []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[0]}}
				for i := range limits {
					rate := f.limits[0].Rate
					charges = append(charges, limiter.Charge{Subject: limiter.User("42"),
						Limit: limit(t, limiter.Limit{Name: strconv.Itoa(i), Rate: rate})})
				}
				take := func(cost int64) limiter.Decision {
					for i := range charges {
						charges[i].Cost = cost
					}
					return storetest.Must(f.limiters[0].Take(context.Background(), time.Now(), charges))
				}
				for window := range 3 {
					time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(5 * time.Minute)))
					take(100)
					admitted, lost := 0, 0
					for range 8 {
						d := take(1)
						lost += d.Transfer.Lost
						if d.Allowed {
							admitted++
						}
						time.Sleep(time.Second)
					}
					if dials := links[0].dials.Load(); admitted < 5 || lost > 0 || dials > int64((window+1)*(limits+1)) {
						t.Errorf("round trip %s, %d limits, window %d: got %d of 8 requests admitted, %d debits lost and %d connections to one region, "+
							"want at least 5, none, and one for each limit and window", trip, limits+1, window, admitted, lost, dials)
					}
				}
			})
		}
	}
}

// farFederation returns three regions with tables that are a round trip apart, and the links between them. They share a limit
// a minute.
func farFederation(t *testing.T, trip time.Duration, requests int64) (f *federation, links []*farTable) {
	t.Helper()
	f = &federation{}
	tables := []*memtable.Table{{}, {}, {}}
	open := func(api dynamostore.API) *resilient.Store {
		return storetest.Must(resilient.New(storetest.Must(dynamostore.NewBare(api, dynamostore.Options{Table: "t", Namespace: "n"})),
			resilient.Options{}))
	}
	for i := range tables {
		rate := algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Window: time.Minute, Regions: algo.Regions{Of: 3, Place: i}}
		f.limits = append(f.limits, limit(t, limiter.Limit{Name: "a", Rate: rate}))
		others := make([]limiter.Shares, 3)
		for j := range tables {
			if j != i {
				link := newFarTable(t, tables[j], trip)
				links, others[j] = append(links, link), open(link)
			}
		}
		f.limiters = append(f.limiters, storetest.Must(limiter.New(open(tables[i]), limiter.Options{Regions: others,
			Logger: slog.New(slog.DiscardHandler)})))
	}
	return f, links
}
