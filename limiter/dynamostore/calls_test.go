package dynamostore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

var noon = time.Date(2100, 3, 4, 12, 0, 20, 0, time.UTC)

// meter is an API that counts the calls to it.
type meter struct {
	dynamostore.API
	calls atomic.Int64
	stale atomic.Int64 // reads that may return an old item

	mu        sync.Mutex
	updates   int
	operators int     // largest number of operators in one condition
	bytes     int     // largest size of one expression
	units     float64 // write units of updates
	most      float64 // largest number of units of one update
}

// callsKey is the context key of a counter. The counter counts the calls of one decision.
type callsKey struct{}

func (m *meter) count(ctx context.Context) {
	m.calls.Add(1)
	if n, ok := ctx.Value(callsKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
}

// UpdateItem makes a call without a deadline: a timeout would start further calls.
func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	m.count(ctx)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.UpdateItem(context.WithoutCancel(ctx), in, o...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates++
	for _, expression := range []string{*in.ConditionExpression, *in.UpdateExpression} {
		operators := 0
		for _, word := range []string{" AND ", " OR ", " = ", " <= ", " >= ", " < ", " > ", " + ", " - ", "_exists"} {
			operators += strings.Count(expression, word)
		}
		m.operators, m.bytes = max(m.operators, operators), max(m.bytes, len(expression))
	}
	if err == nil {
		units := aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
		m.units, m.most = m.units+units, max(m.most, units)
	}
	return out, err
}

func (m *meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	m.count(ctx)
	if !aws.ToBool(in.ConsistentRead) {
		m.stale.Add(1)
	}
	return m.API.GetItem(context.WithoutCancel(ctx), in, o...)
}

// metered returns a store on a new table whose calls are counted.
func metered(t *testing.T) (*dynamostore.Store, *meter) {
	t.Helper()
	m := &meter{API: newTable(t)}
	return open(m), m
}

// meteredOnServer is metered for a table in DynamoDB Local. A call takes some time there, so concurrent calls meet.
func meteredOnServer(t *testing.T) (*dynamostore.Store, *meter) {
	t.Helper()
	client, table := onServer(t)
	m := &meter{API: client}
	return storetest.Must(dynamostore.NewBare(m, dynamostore.Options{Table: table, Namespace: "n"})), m
}

func caller() limiter.Subject { return limiter.User("calls-" + rand.Text()) }

func decide(t *testing.T, l *limiter.Limiter, now time.Time, charges ...limiter.Charge) limiter.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), now, charges)
	if err != nil {
		t.Fatal(err)
	}
	if d.Reason != limiter.ReasonNone {
		t.Errorf("got reason %s, want a decision", d.Reason)
	}
	return d
}

var (
	sliding = algo.Rate{Requests: 1000, Window: time.Minute}
	fixed   = algo.Rate{Algorithm: algo.FixedWindow, Requests: 1000, Window: time.Minute}
	bucket  = algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Minute}
)

var algorithms = []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog,
	algo.Concurrent}

// report logs the average number of calls for a decision. It fails the test if this number exceeds the bound
// most.
func report(t *testing.T, what string, calls int64, decisions int, most float64) {
	t.Helper()
	per := float64(calls) / float64(decisions)
	t.Logf("%-52s %.3f calls a decision (at most %.1f)", what, per, most)
	if per > most {
		t.Errorf("%s: got %.3f calls a decision, want at most %.1f", what, per, most)
	}
}

// The average number of calls to DynamoDB for a decision is bounded for each algorithm.
func TestStore_calls(t *testing.T) {
	store, m := meteredOnServer(t)
	measure := func(f func()) int64 {
		before := m.calls.Load()
		f()
		return m.calls.Load() - before
	}
	for name, rates := range map[string][]algo.Rate{
		"sliding window": {sliding}, "fixed window": {fixed}, "token bucket": {bucket}, "one of each": {sliding, fixed, bucket},
		"ten": {sliding, fixed, bucket, sliding, fixed, bucket, sliding, fixed, bucket, sliding},
	} {
		who := caller()
		var charges []limiter.Charge
		for i, rate := range rates {
			charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(t, fmt.Sprint("l", i), rate), Cost: 1})
		}
		l := storetest.Must(limiter.New(store, limiter.Options{}))
		decide(t, l, noon, charges...)
		calls := measure(func() {
			for i := range 200 { // 200 requests in 100 s, in which each window of 1 min ends at least once
				decide(t, l, noon.Add(time.Duration(i)*500*time.Millisecond), charges...)
			}
		})
		report(t, "remembered, "+name, calls, 200, 1)
	}

	who, limit := caller(), storetest.Limit(t, "cold", sliding)
	charge := limiter.Charge{Subject: who, Limit: limit, Cost: 7}
	calls := measure(func() {
		for i := range 200 { // each request comes to an environment without a state of the caller
			decide(t, storetest.Must(limiter.New(store, limiter.Options{})), noon.Add(time.Duration(i)*time.Second), charge)
		}
	})
	report(t, "never seen, sliding window at half its limit", calls, 200, 1.2)

	for _, remembered := range []bool{true, false} {
		who = caller()
		charge = limiter.Charge{Subject: who, Limit: limit, Cost: 1}
		shared := storetest.Must(limiter.New(store, limiter.Options{}))
		calls = measure(func() {
			for round := range 8 {
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						l := shared
						if !remembered {
							l = storetest.Must(limiter.New(store, limiter.Options{}))
						}
						decide(t, l, noon.Add(time.Duration(round)*7*time.Second), charge)
					})
				}
				wg.Wait()
			}
		})
		report(t, fmt.Sprintf("64 at once on one sliding window, remembered %t", remembered), calls, 512, 1.3)
	}

	who = caller()
	charge = limiter.Charge{Subject: who, Limit: storetest.Limit(t, "log", algo.Rate{Algorithm: algo.SlidingLog, Requests: 300,
		Window: time.Minute}), Cost: 1}
	calls = measure(func() {
		for round := range 4 {
			var wg sync.WaitGroup
			for process := range 64 { // each process has a different instant, and their calls arrive in random order
				at := noon.Add(time.Duration(round)*7*time.Second + time.Duration(process*37%64)*10*time.Millisecond)
				wg.Go(func() { decide(t, storetest.Must(limiter.New(store, limiter.Options{})), at, charge) })
			}
			wg.Wait()
		}
	})
	report(t, "64 processes on one sliding log, never seen", calls, 256, 1.5)

	who = caller()
	charge = limiter.Charge{Subject: who, Limit: storetest.Limit(t, "tight", algo.Rate{Requests: 1, Window: time.Minute}), Cost: 1}
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	decide(t, l, noon, charge)
	calls = measure(func() {
		for range 500 {
			if d := decide(t, l, noon, charge); d.Allowed {
				t.Fatal("request above the limit: got it allowed, want a refusal")
			}
		}
	})
	report(t, "a repeated refusal", calls, 500, 0)
	// the condition of a window or a small log is longest with 5 limits (see rungs); MaxCharges limits have the most conditions
	for _, rate := range []algo.Rate{{Requests: 1e9, Window: algo.MaxWindow}, {Requests: 1, Window: algo.MaxWindow},
		{Requests: 1e9, Window: algo.MaxWindow, Regions: algo.Regions{Of: 2}}} {
		for _, n := range []int{5, 7, limiter.MaxCharges} {
			var charges []limiter.Charge
			for i := range n {
				charges = append(charges, limiter.Charge{Subject: caller(), Limit: storetest.Limit(t, fmt.Sprint("w", i), rate), Cost: 1})
				charges[i].Subject = charges[0].Subject
			}
			decide(t, storetest.Must(limiter.New(store, limiter.Options{})), noon, charges...)
		}
	}
	t.Logf("largest expression: %d bytes, %d operators (DynamoDB allows 4096 and 300)", m.bytes, m.operators)
	if m.bytes > 4096 || m.operators > 300 {
		t.Errorf("expression: got %d bytes and %d operators, want at most 4096 and 300", m.bytes, m.operators)
	}
}

// Many environments serve one caller with a bucket. Each environment has an old state in its cache, and
// estimates the current state from its recent successes. Requests arrive at random times, at half of the limit and at the
// limit.
func TestStore_calls_environments(t *testing.T) {
	client := newTable(t)
	for _, load := range []float64{0.5, 1} {
		for _, n := range []int{1, 10, 50} {
			m := &meter{API: client}
			var all []*limiter.Limiter
			for range n {
				all = append(all, storetest.Must(limiter.New(open(m), limiter.Options{})))
			}
			c := limiter.Charge{Subject: caller(), Limit: storetest.Limit(t, "b", bucket), Cost: 1}
			r := mathrand.New(mathrand.NewPCG(1, 2))
			at, allowed := 0.0, 0
			const requests = 400
			for range requests {
				at += r.ExpFloat64() / load * float64(bucket.Window) / float64(bucket.Requests)
				if decide(t, all[r.IntN(n)], noon.Add(time.Duration(at)), c).Allowed {
					allowed++
				}
			}
			most := map[int]float64{1: 1, 10: 1.5, 50: 1.5}[n]
			report(t, fmt.Sprintf("bucket over %d environments at %.0f %% of its limit", n, load*100), m.calls.Load(), requests, most)
		}
	}
}

// The number of attempts is bounded while the instant is fixed, so that no window ends. For k limits
// there are at most k+1 attempts with a cached state, and at most k+2 without.
func TestStore_attempts(t *testing.T) {
	store, _ := meteredOnServer(t)
	for _, rates := range [][]algo.Rate{{bucket}, {sliding}, {bucket, bucket}, {bucket, sliding, fixed}, {bucket, bucket, bucket}} {
		worst := [2]int64{}
		for round := range 6 {
			who := caller()
			var charges []limiter.Charge
			for i, rate := range rates {
				rate.Requests = 40
				charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(t, fmt.Sprint("l", i), rate), Cost: 1})
			}
			seen := make([]algo.Result, len(charges))
			now := algo.InstantOf(noon)
			if round%2 == 0 {
				if _, err := store.Take(context.Background(), now, who, charges, seen); err != nil {
					t.Fatal(err)
				}
			} else {
				clear(seen)
			}
			var most atomic.Int64
			var wg sync.WaitGroup
			for i := range 48 {
				wg.Go(func() {
					var n atomic.Int64
					mine := append([]algo.Result(nil), seen...)
					at := now.Add(time.Duration(i%5) * 100 * time.Millisecond)
					if _, err := store.Take(context.WithValue(context.Background(), callsKey{}, &n), at, who, charges, mine); err != nil {
						t.Error(err)
					}
					for old := most.Load(); n.Load() > old && !most.CompareAndSwap(old, n.Load()); old = most.Load() {
					}
				})
			}
			wg.Wait()
			worst[round%2] = max(worst[round%2], most.Load())
		}
		k := int64(len(rates))
		t.Logf("%d limits: at most %d attempts with a cached state, %d without", k, worst[0], worst[1])
		if worst[0] > k+1 || worst[1] > k+2 {
			t.Errorf("%d limits: got %d attempts with a cached state and %d without, want at most %d and %d", k, worst[0], worst[1], k+1, k+2)
		}
	}
}

// An environment without a cached state of the caller needs one call for a request at the top of each
// rung of the ladder. If the current window is empty, one call is enough for every previous count that
// leaves room for the request.
func TestStore_ladder(t *testing.T) {
	store, m := metered(t)
	ctx := context.Background()
	w := storetest.Limit(t, "a", algo.Rate{Requests: 800, Window: time.Minute})
	machine := w.Machine().(*algo.Window)
	now := algo.InstantOf(noon) // noon is 20 s after the start of a window of 1 min
	index := machine.Index(now)
	take := func(who limiter.Subject, at algo.Instant, cost, calls int64) algo.Result {
		t.Helper()
		before := m.calls.Load()
		results := admit(t, store, at, limiter.Charge{Subject: who, Limit: w, Cost: cost})
		if n := m.calls.Load() - before; calls > 0 && n != calls {
			t.Errorf("take of cost %d, to %+v: got %d calls, want %d", cost, results[0].State, n, calls)
		}
		return results[0]
	}
	for rung := range int64(9) {
		previous := 100 * rung
		for _, left := range []int64{0, 1} { // number of requests that the limit can still admit after the charge
			who, cost := caller(), int64(7)
			if previous > 0 {
				take(who, now.Add(-time.Minute), previous, 0)
			}
			first := machine.Room(index, now, previous, cost) - left
			take(who, now, first, 0)
			take(who, now, cost, 1)
		}
		// A refund leaves a count of zero in the item. The ladder must accept it like an absent count.
		who := caller()
		if previous > 0 {
			take(who, now.Add(-time.Minute), previous, 0)
		}
		r := take(who, now, 5, 0)
		if _, err := store.Settle(ctx, 0, who, []limiter.Charge{{Subject: who, Limit: w, Cost: 5}}, []algo.Result{r}, 0); err != nil {
			t.Fatal(err)
		}
		take(who, now, machine.Room(index, now, previous, 0), 1)
	}
	for _, cost := range []int64{300, 500, 799} {
		who := caller()
		take(who, now.Add(-time.Minute), machine.PreviousRoom(index, now, cost), 0)
		take(who, now, cost, 1)
	}
}

// An environment without a cached state of the caller refuses a request above the limit, at each rung
// of the ladder. This applies to the current count and to the previous count.
func TestStore_ladder_refuses(t *testing.T) {
	store, _ := metered(t)
	w := storetest.Limit(t, "a", algo.Rate{Requests: 800, Window: time.Minute})
	machine := w.Machine().(*algo.Window)
	now := algo.InstantOf(noon.Truncate(time.Minute)) // at the start of a window, the previous window has its full weight
	index := machine.Index(now)
	take := func(who limiter.Subject, at algo.Instant, cost int64) bool {
		t.Helper()
		allowed, _ := take(t, store, at, limiter.Charge{Subject: who, Limit: w, Cost: cost})
		return allowed
	}
	for rung := range int64(9) {
		for _, above := range []int64{0, 1, 2, 5} { // difference between the previous count and the bound of the rung
			previous, cost := 100*rung+above, int64(7)
			if previous > 800-cost {
				continue
			}
			who := caller()
			if previous > 0 && !take(who, now.Add(-1), previous) {
				t.Fatal("got a refusal, want an allowed request")
			}
			// This charge leaves room for cost-1.
			if !take(who, now, machine.Room(index, now, previous, 0)-cost+1) {
				t.Fatal("got a refusal, want an allowed request")
			}
			if take(who, now, cost) {
				t.Errorf("previous count %d: got one request more than the limit, want a refusal", previous)
			}
		}
	}
}

// A Take of cost 0, or of a cost above the capacity, only reads the item, with a consistent read. A Take of the whole
// capacity writes.
func TestStore_readOnly(t *testing.T) {
	store, m := metered(t)
	for _, algorithm := range algorithms {
		who := caller()
		charge := limiter.Charge{Limit: storetest.Limit(t, string(algorithm), algo.Rate{Algorithm: algorithm, Requests: 5, Window: time.Minute})}
		for _, c := range []struct {
			cost, updates int64
			spend         bool
		}{{0, 0, false}, {5, 1, false}, {0, 0, false}, {6, 0, false}, {10, 1, true}} {
			charge.Force = c.spend
			if c.spend { // a forced charge of 10 puts a new caller at its max debt
				who = caller()
			}
			charge.Subject, charge.Cost = who, c.cost
			before, updates := m.calls.Load(), m.updates
			take(t, store, algo.InstantOf(noon), charge)
			if calls, updates := m.calls.Load()-before, int64(m.updates-updates); updates != c.updates || calls != 1 {
				t.Errorf("%s: got %d updates in %d calls for cost %d, want %d updates in one call", algorithm, updates, calls, c.cost, c.updates)
			}
		}
	}
	if n := m.stale.Load(); n > 0 {
		t.Errorf("got %d reads that may return an old item, want none", n)
	}
}

// A process without a state of the caller decides by one write if the oldest entries of a small log have expired. An
// entry of a process whose clock was behind counts at the newer instant before it in the list.
func TestStore_agedRoom(t *testing.T) {
	type step struct {
		at      time.Duration
		allowed bool
		updates int
	}
	limit := storetest.Limit(t, "a", algo.Rate{Requests: 2, Window: time.Minute})
	for name, steps := range map[string][]step{
		"expired": {{0, true, 1}, {time.Second, true, 1}, {2 * time.Second, false, 1}, {70 * time.Second, true, 1}, {71 * time.Second, true, 1},
			{72 * time.Second, false, 1}},
		"together": {{0, true, 1}, {60 * time.Second, true, 1}, {119 * time.Second, true, 1}, {120 * time.Second, true, 2}},
		"clocks":   {{100 * time.Second, true, 1}, {98 * time.Second, true, 2}, {159 * time.Second, false, 1}, {160 * time.Second, true, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			api, who := &racing{API: &memtable.Table{}}, caller()
			store := open(api)
			for _, s := range steps {
				api.updates = 0
				allowed, err := store.Take(t.Context(), algo.InstantOf(noon.Add(s.at)), who, []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}},
					make([]algo.Result, 1))
				if err != nil || allowed != s.allowed || api.updates != s.updates {
					t.Fatalf("after %s: got allowed %t and %d updates, error %v; want %t and %d", s.at, allowed, api.updates, err, s.allowed, s.updates)
				}
			}
		})
	}
}
