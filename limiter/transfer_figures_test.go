package limiter_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
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
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Three regions, 120 ms apart, admit almost what one store admits. The requests come at random intervals, at a
// percentage of the limit, and each region gets a part of them.
func TestLimiter_Take_regionsFigures(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests int64
		window   time.Duration
		percent  float64
		parts    [3]float64
		// least is what the regions admit at least, in percent of what one store admits: with a fixed and with a sliding
		// window. calls is the largest number of calls between regions per decision.
		least, calls [2]float64
	}{
		{"one region", 1000, time.Minute, 90, [3]float64{1, 0, 0}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.08}},
		{"one region, above the limit", 1000, time.Minute, 200, [3]float64{1, 0, 0}, [2]float64{99, 98.5}, [2]float64{0.12, 0.3}},
		{"uneven", 1000, time.Minute, 90, [3]float64{.8, .15, .05}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.06}},
		{"even", 1000, time.Minute, 90, [3]float64{1, 1, 1}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.05}},
		{"small", 60, time.Minute, 90, [3]float64{1, 0, 0}, [2]float64{98, 96}, [2]float64{0.12, 0.9}},
		{"short window", 100, time.Second, 90, [3]float64{1, 0, 0}, [2]float64{97, 85}, [2]float64{0.07, 0.25}},
	} {
		for i, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow} {
			synctest.Test(t, func(t *testing.T) {
				rate := algo.Rate{Algorithm: algorithm, Requests: c.requests, Window: c.window, Counts: true}
				admitted, calls := trafficFigures(t, rate, c.percent/100, c.parts)
				t.Logf("%s, %s: %.2f %% of one store, %.4f calls between regions a decision", c.name, algorithm, admitted, calls)
				if admitted < c.least[i] || admitted > 100.5 || calls > c.calls[i] {
					t.Errorf("%s, %s: got %.2f %% and %.4f calls, want at least %.1f %% and at most %.2f calls", c.name, algorithm, admitted, calls,
						c.least[i], c.calls[i])
				}
			})
		}
	}
}

// trafficFigures returns what three regions admit in 20 windows, in percent of what one store admits, and their calls per
// decision.
func trafficFigures(t *testing.T, rate algo.Rate, load float64, parts [3]float64) (percent, calls float64) {
	t.Helper()
	f := newFederation(t, 3, limiter.Limit{Rate: rate})
	for _, s := range f.stores {
		s.delay = 120 * time.Millisecond
	}
	one := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	single := limit(t, limiter.Limit{Name: "one", Rate: rate})
	r := rand.New(rand.NewPCG(7, 1))
	end, gap := time.Now().Add(20*rate.Window), float64(rate.Window)/(float64(rate.Requests)*load)
	var all sync.WaitGroup
	var admitted, asked, moved, wanted atomic.Int64
	for {
		time.Sleep(time.Duration(r.ExpFloat64() * gap))
		now := time.Now()
		if now.After(end) {
			break
		}
		u, i := r.Float64()*(parts[0]+parts[1]+parts[2]), 0
		for ; i < 2 && u > parts[i]; i++ {
			u -= parts[i]
		}
		all.Go(func() {
			d := f.take(t, i, now, 1)
			asked.Add(1)
			moved.Add(int64(d.Transfer.Calls))
			if d.Allowed {
				admitted.Add(1)
			}
		})
		if d, err := one.Take(context.Background(), now, []limiter.Charge{{Subject: limiter.User("42"), Limit: single, Cost: 1}}); err == nil &&
			d.Allowed {
			wanted.Add(1)
		}
	}
	all.Wait()
	return 100 * float64(admitted.Load()) / float64(wanted.Load()), float64(moved.Load()) / float64(asked.Load())
}

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
