package faults

import (
	"context"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/servers"
)

// loss is a toxic that drops one of twenty answers. The caller waits for it in vain.
type loss struct{}

var _ toxics.Toxic = loss{}

func init() { toxics.Register("loss", new(loss)) }

// Pipe implements toxics.Toxic.
func (loss) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if rand.IntN(20) > 0 {
				stub.Output <- c
			}
		}
	}
}

// region is a region with its own DynamoDB Local.
type region struct {
	store   *dynamostore.Store
	shares  limiter.Shares // what other regions use, through network
	network *network       // delays answers by 80 ms and loses some
	ahead   time.Duration  // of the clock
}

func newRegion(t *testing.T) *region {
	t.Helper()
	storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT") // skips the test where DynamoDB Local cannot run
	server, err := servers.StartDynamoDB(context.Background(), "../../..", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	n := connect(t, server.URL[len("http://"):])
	n.poison(t, "down", "latency", map[string]any{"latency": 80})
	n.poison(t, "down", "loss", map[string]any{})
	o := dynamostore.Options{Table: createTable(t, server.URL), Namespace: "regions"}
	return &region{
		store: storetest.Must(dynamostore.NewBare(dynamoClient(t, server.URL), o)),
		shares: storetest.Must(resilient.New(storetest.Must(dynamostore.NewBare(dynamoClient(t, "http://"+n.address()), o)),
			resilient.Options{})),
		network: n,
	}
}

func (r *region) now() time.Time { return time.Now().Add(r.ahead) }

var soak = flag.Duration("soak", 0, "duration of the load on three regions")

// Three regions have a random load. The network between them delays and loses answers, and cuts the third region off for
// a while. Together they never count more than one table would. With -soak, the load lasts longer.
func TestRegions(t *testing.T) {
	lasts := max(5*time.Second, *soak)
	regions := []*region{newRegion(t), newRegion(t), newRegion(t)}
	for name, test := range map[string]struct {
		algorithm algo.Algorithm
		ahead     time.Duration
	}{
		"fixed window": {algo.FixedWindow, 0}, "sliding window": {algo.SlidingWindow, 0}, "sliding window, clocks apart": {algo.SlidingWindow,
			time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rate := algo.Rate{Algorithm: test.algorithm, Requests: 40, Window: 2 * time.Second}
			load := regionLoad{regions: regions, who: limiter.User(t.Name()), end: time.Now().Add(lasts)}
			for i, r := range regions {
				r.ahead = time.Duration(i) * test.ahead / 2
				rate.Regions = algo.Regions{Of: len(regions), Place: i}
				load.limits = append(load.limits, storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: rate, OnError: limiter.OnErrorDeny})))
			}
			load.run(t, lasts)
			admitted, moved, lost, seconds := load.admitted.Load(), load.moved.Load(), load.lost.Load(), int64(lasts/time.Second)
			if admitted < 10*seconds || moved < seconds || lost == 0 { // one table would admit twice as much
				t.Errorf("got %d admitted, %d moved and %d messages lost in %d s, want at least 10 admitted and 1 moved a second, and some lost",
					admitted, moved, lost, seconds)
			}
			t.Logf("%d admitted, %d moved, %d messages lost", admitted, moved, lost)
		})
	}
}

// regionLoad is the load of one caller in all regions.
type regionLoad struct {
	regions               []*region
	limits                []*limiter.Limit // one for each region
	who                   limiter.Subject
	end                   time.Time
	admitted, moved, lost atomic.Int64
}

func (l *regionLoad) run(t *testing.T, lasts time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	for i, r := range l.regions {
		others := make([]limiter.Shares, len(l.regions))
		for j, other := range l.regions {
			if j != i {
				others[j] = other.shares
			}
		}
		weir := storetest.Must(limiter.New(r.store, limiter.Options{Regions: others, Logger: slog.New(slog.DiscardHandler)}))
		for range 3 {
			all.Go(func() {
				for time.Now().Before(l.end) {
					l.take(t, weir, i)
					time.Sleep(time.Duration(rand.IntN(1+400*i)) * time.Millisecond)
				}
			})
		}
	}
	third := l.regions[2].network
	time.Sleep(lasts / 2)
	third.proxy.Stop()
	time.Sleep(lasts / 4)
	if err := third.proxy.Start(); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// take makes one request in the region i. If it is admitted, take checks all regions.
func (l *regionLoad) take(t *testing.T, weir *limiter.Limiter, i int) {
	d, err := weir.Take(t.Context(), l.regions[i].now(), []limiter.Charge{{Subject: l.who, Limit: l.limits[i], Cost: 1 + rand.Int64N(2)}})
	if err != nil {
		t.Error(err)
		return
	}
	l.moved.Add(d.Transfer.Moved)
	l.lost.Add(int64(d.Transfer.Lost))
	if d.Allowed {
		l.admitted.Add(d.Cost)
		l.check(t)
	}
}

// check compares the counts of all regions with one table: with equal clocks by the measure of the algorithm, and with
// clocks apart by window.
func (l *regionLoad) check(t *testing.T) {
	counts, newest := map[int64]int64{}, int64(0)
	for _, r := range l.regions {
		entries, err := r.store.Inspect(t.Context(), l.who)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			counts[e.State.Window] += e.State.Count
			counts[e.State.Window-1] += e.State.Previous
			newest = max(newest, e.State.Window)
		}
	}
	// The counts can have requests that were admitted while check read them. So it weighs the previous window as of now.
	late := l.regions[2].now()
	w := algo.WindowOf(l.limits[0].Machine())
	for index, count := range counts {
		if count > w.Requests {
			t.Errorf("window %d: got %d in all regions, want at most %d", index, count, w.Requests)
		}
	}
	total := algo.State{Window: newest, Count: counts[newest], Previous: counts[newest-1]}
	if used := w.Used(total, algo.InstantOf(late)); l.regions[2].ahead == 0 && used > w.Requests {
		t.Errorf("got %+v in all regions, which one table counts as %d, want at most %d", total, used, w.Requests)
	}
}
