package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// racing is an API that runs a function before one of the updates. Its field named before is the
// number of that update, counted from 1.
type racing struct {
	dynamostore.API
	updates, before int
	applied         int // updates whose condition was true
	happens         func()
}

func (o *racing) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, f ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	o.updates++
	if o.updates == o.before {
		o.happens()
	}
	out, err := o.API.UpdateItem(ctx, in, f...)
	if err == nil {
		o.applied++
	}
	return out, err
}

// Another process refunds the limit that refuses, so the request is allowed. The store then writes the
// conversions together with the charges: no other request sees a conversion without its charge.
func TestStore_refusalRaceConversion(t *testing.T) {
	other := newTable(t)
	ctx, now := context.Background(), algo.InstantOf(noon)
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.TokenBucket, algo.SlidingLog, algo.Concurrent} {
		rate := algo.Rate{Algorithm: algorithm, Requests: 20, Window: time.Minute}
		who := caller()
		old := storetest.Limit(t, "changed", bucket)
		next := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "changed", Rate: sliding, Version: 2}))
		full := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "full", rate), Cost: 5}
		rest := full
		rest.Cost = full.Limit.MaxCost() - full.Cost
		admit(t, other, now, rest, limiter.Charge{Limit: old, Cost: 1})
		results := admit(t, other, now, full)
		api := &racing{API: other, before: 2, happens: func() {
			if settled, err := other.Settle(ctx, now, who, []limiter.Charge{full}, results, 0); err != nil || settled.Given != 1 {
				t.Errorf("%s: got %+v and error %v, want a refund", algorithm, settled, err)
			}
		}}
		admit(t, open(api), now, full, limiter.Charge{Limit: next, Cost: 1})
		if api.updates != 3 || api.applied != 1 {
			t.Errorf("%s: got %d updates, of which %d wrote, want 3 and one", algorithm, api.updates, api.applied)
		}
	}
}

// During a refusal, a process with older rules charges one of the limits for the first time. The store
// then converts this limit together with the other limits.
func TestStore_refusalRaceNew(t *testing.T) {
	other := newTable(t)
	now, who := algo.InstantOf(noon), caller()
	full, newer := storetest.Limit(t, "full", fixed), func(name string) *limiter.Limit {
		return storetest.Must(limiter.NewLimit(limiter.Limit{Name: name, Rate: sliding, Version: 2}))
	}
	charge := func(l *limiter.Limit, cost int64) limiter.Charge {
		return limiter.Charge{Subject: who, Limit: l, Cost: cost}
	}
	admit(t, other, now, charge(full, fixed.Requests), charge(storetest.Limit(t, "a", bucket), 1))
	api := &racing{API: other, before: 2, happens: func() { admit(t, other, now, charge(storetest.Limit(t, "b", bucket), 1)) }}
	if allowed, _ := take(t, open(api), now, charge(full, 1), charge(newer("a"), 1), charge(newer("b"), 1)); allowed {
		t.Error("got an admission, want a refusal")
	}
	if api.updates != 3 || api.applied != 1 {
		t.Errorf("got %d updates, of which %d wrote, want 3 and one", api.updates, api.applied)
	}
}

// crowded is an API that runs a function before every update.
type crowded struct {
	dynamostore.API
	happens func()
}

func (c *crowded) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, f ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	c.happens()
	return c.API.UpdateItem(ctx, in, f...)
}

// A settlement loses every race for the refund of a log. It then releases its slot, and refunds nothing else.
// The repeated settlement refunds the log, and releases no slot again.
func TestStore_Settle_contended(t *testing.T) {
	other, now, who := newTable(t), algo.InstantOf(noon), caller()
	ctx := t.Context()
	slots, entries := slotsOf(t, 5), storetest.Limit(t, "log", algo.Rate{Algorithm: algo.SlidingLog, Requests: 100, Window: time.Hour})
	charges := []limiter.Charge{{Subject: who, Limit: slots, Cost: 1}, {Subject: who, Limit: entries, Cost: 1}}
	used := func() (counts [2]int64) {
		for i, r := range admit(t, other, now, limiter.Charge{Subject: who, Limit: slots}, limiter.Charge{Limit: entries}) {
			counts[i] = r.Machine.Used(r.State, now)
		}
		return counts
	}
	held := admit(t, other, now, charges...)
	admit(t, other, now, charges[0]) // another slot of the same instant
	appended := int64(0)
	store := open(&crowded{other, func() { admit(t, other, now, charges[1]); appended++ }})
	if settled, err := store.Settle(ctx, now, who, charges, held, 0); !errors.Is(err, limiter.ErrContended) {
		t.Errorf("got %+v and error %v, want %v", settled, err, limiter.ErrContended)
	}
	if got, want := used(), [2]int64{1, 1 + appended}; got != want {
		t.Errorf("after a contended settlement: got counts %d, want %d", got, want)
	}
	if settled, err := other.Settle(ctx, now, who, charges, held, 0); err != nil || settled.Given != 1 {
		t.Errorf("repeated: got %+v and error %v, want one refund", settled, err)
	}
	if got, want := used(), [2]int64{1, appended}; got != want {
		t.Errorf("after the repeated settlement: got counts %d, want %d", got, want)
	}
}

// If the count of the previous window is known, a decision needs at most two attempts, even if other
// requests charge the current or the previous window at the same time. This holds until the window is
// full.
func TestStore_windowRace(t *testing.T) {
	other, now := newTable(t), algo.InstantOf(noon)
	busy, window := storetest.Limit(t, "busy", bucket), storetest.Limit(t, "window", sliding)
	w := window.Machine().(*algo.Window)
	index := w.Index(now)
	for name, c := range map[string]struct {
		at   algo.Instant
		cost int64
	}{
		"current window":                   {now, w.Room(index, now, 400, 500)},
		"previous window":                  {now.Add(-time.Minute), 100},
		"previous window, as much as fits": {now.Add(-time.Minute), w.PreviousRoom(index, now, 500) - 400},
		"current window, no charge":        {now, 0},
	} {
		who := caller()
		admit(t, other, now, limiter.Charge{Subject: who, Limit: busy, Cost: 1})
		admit(t, other, now.Add(-time.Minute), limiter.Charge{Subject: who, Limit: window, Cost: 400})
		api := &racing{API: other, before: 2, happens: func() {
			admit(t, other, c.at, limiter.Charge{Subject: who, Limit: window,
				Cost: c.cost})
		}}
		admit(t, open(api), now, limiter.Charge{Subject: who, Limit: busy, Cost: 1}, limiter.Charge{Limit: window, Cost: 500})
		if api.updates != 2 {
			t.Errorf("%s: got %d attempts, want 2", name, api.updates)
		}
	}
}

// late is an API that does not answer one of the updates in time. Its field named never is the number
// of that update, counted from 1.
type late struct {
	dynamostore.API
	updates, never int
}

func (l *late) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, f ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	l.updates++
	if l.updates == l.never {
		return nil, context.DeadlineExceeded
	}
	return l.API.UpdateItem(ctx, in, f...)
}

// If the context ends after an attempt that lost a race, the error is ErrContended. The store has
// answered, so this is not an outage.
func TestStore_noTimeLeft(t *testing.T) {
	client, ctx, now := newTable(t), context.Background(), algo.InstantOf(noon)
	for never, contended := range map[int]bool{1: false, 2: true} {
		who := caller()
		// The first attempt fails, because it guesses that the bucket is idle.
		charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "busy", bucket), Cost: 1}}
		admit(t, client, now, charges...)
		api := &late{API: client, never: never}
		store := open(api)
		_, err := store.Take(ctx, now, who, charges, make([]algo.Result, 1))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, limiter.ErrContended) != contended {
			t.Errorf("attempt %d of %d without an answer: got %v, want DeadlineExceeded, and ErrContended %t", never, api.updates, err, contended)
		}
	}
}
