package dynamostore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	callers "github.com/weir-limits/weir/limiter/caller" // the tests define a function named caller
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// longest is a namespace of maximum length. who is a user whose ID has the maximum length.
var (
	longest = strings.Repeat("n", 64)
	who     = callers.Caller{User: strings.Repeat("u", 128)}
)

// longestItems returns a store with a namespace of maximum length, a meter of its calls, and a function that returns the
// size of an item.
func longestItems(t *testing.T) (*dynamostore.Store, *meter, func(limiter.Subject) int) {
	t.Helper()
	items := newTable(t)
	m := &meter{API: items}
	return storetest.Must(dynamostore.NewBare(m, dynamostore.Options{Table: "t", Namespace: longest})), m, func(s limiter.Subject) int {
		return memtable.Size(items.Table.Items[s.Key(longest)])
	}
}

// document returns the rules of a document whose version has the maximum number of digits.
func document(t *testing.T, limits string) (*rules.Rules, error) {
	t.Helper()
	return rules.Parse([]byte(`{"rules":[{"endpoint":"*","mode":"shadow","limits":{"*":[`+limits+`]}}]}`),
		rules.Options{Items: dynamostore.Items{}, Version: limiter.MaxVersion})
}

// fill adds limits of one kind to a list until Parse rejects another limit. Each limit has a different
// name.
func fill(t *testing.T, limits []string, kind string) []string {
	t.Helper()
	for {
		more := slices.Concat(limits, []string{fmt.Sprintf(`{"name":"l%d",%s}`, len(limits), kind)})
		if _, err := document(t, strings.Join(more, ",")); err != nil {
			return limits
		}
		limits = more
	}
}

// rules.Parse bounds the size of items so that each write costs one unit, even with the largest counts. The test
// fills an item with as many limits of one kind as fit, and then with smaller limits.
func TestStore_units(t *testing.T) {
	kinds := []string{
		`"requests":1000000000,"window":"1s"`,
		`"requests":1000000000,"window":"59s"`,
		`"requests":1000000000,"window":"8639999s","algorithm":"fixed_window"`,
		`"requests":999,"window":"1m"`,
		`"requests":700001,"window":"8639999s","burst":699999,"algorithm":"token_bucket"`,
		`"requests":1,"window":"1s","algorithm":"leaky_bucket"`,
	}
	for first, kind := range kinds {
		limits := fill(t, nil, kind)
		for _, next := range kinds[first+1:] {
			limits = fill(t, limits, next)
		}
		r, err := document(t, strings.Join(limits, ","))
		if err != nil {
			t.Fatal(err)
		}
		charges := r.Charges(nil, "GET", rules.EncodedPath("/"), who)
		subject := charges[0].Limit.Subjects(charges[0].Subject)[0]
		store, m, size := longestItems(t)
		largest := 0
		now := time.Date(2255, 12, 31, 1, 2, 3, 123456789, time.UTC)
		const visits = 24
		for visit := range visits {
			some := charges
			switch { // some visits charge only a part of the limits
			case visit%12 > 3:
				some = charges[:1]
			case visit%4 == 1:
				some = charges[:len(charges)/2]
			}
			for i := range some { // twice the capacity, so that counts have the maximum number of digits
				some[i].Force, some[i].Cost = true, 2*some[i].Limit.Rate.Requests
			}
			for i := range some {
				some[i].Subject = subject
			}
			if _, err := store.Take(context.Background(), algo.InstantOf(now), subject, some, make([]algo.Result, len(some))); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, size(subject))
			now = now.Add([]time.Duration{time.Second, 59 * time.Second, time.Second, 30 * 24 * time.Hour}[min(visit%12, 3)])
		}
		t.Logf("%d limits, %s: %d bytes, at most %v units a write, %.2f writes a visit", len(charges), kind, largest, m.most,
			float64(m.updates)/visits)
		if m.most != 1 || largest > 1024 {
			t.Errorf("%s: got %v units for a write and an item of %d bytes, want one unit and at most 1024 bytes", kind, m.most, largest)
		}
	}
}

// A write of a log costs at most eight units, even with debts and expired entries. With a log of one more
// request, which Parse rejects, a write could cost nine units.
func TestStore_units_log(t *testing.T) {
	for i, window := range []string{"1s", "1s", "10s", "2399h59m59s"} {
		kind := `"algorithm":"sliding_log","window":"` + window + `","requests":`
		if _, err := document(t, `{"name":"l",`+kind+fmt.Sprint(algo.MaxLog+1)+`}`); err == nil {
			t.Errorf("%s: a log of %d requests: got no error, want one", window, algo.MaxLog+1)
		}
		r, err := document(t, `{"name":"l",`+kind+fmt.Sprint(algo.MaxLog)+`}`)
		if err != nil {
			t.Fatal(err)
		}
		charge := r.Charges(nil, "GET", rules.EncodedPath("/"), who)[0]
		length := charge.Limit.Rate.Window
		charge.Subject = charge.Limit.Subjects(charge.Subject)[0]
		store, m, size := longestItems(t)
		largest := 0
		results := make([]algo.Result, 1)
		now := noon.Add(123456789) // an instant with the maximum number of digits
		for _, step := range []struct {
			cost  int64
			spend bool
			after time.Duration
		}{{2 * algo.MaxLog, true, 0}, {algo.MaxLog, false, length}, {1, false, 0}, {algo.MaxLog, true, length}, {1, false, length},
			{algo.MaxLog - 1, false, 0}, {algo.MaxLog, false, length}, {2 * algo.MaxLog, true, length / 2}} {
			now = now.Add(step.after + 1)
			charge.Cost, charge.Force = step.cost, step.spend
			// Half of the charges come from an environment that has no state of the caller in its cache.
			if i%2 == 0 {
				clear(results)
			}
			if _, err := store.Take(context.Background(), algo.InstantOf(now), charge.Subject, []limiter.Charge{charge}, results); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, size(charge.Subject))
		}
		t.Logf("%s: %d bytes, at most %v units a write", window, largest, m.most)
		if m.most != 8 || largest > 8*1024 || largest+2*12 <= 8*1024-20 {
			t.Errorf("%s: got %v units for a write and an item of %d bytes, want eight units and nearly 8 KB", window, m.most, largest)
		}
	}
}

// Three small sliding windows of a caller cost one write unit, also with the longest lists. A decision needs one write,
// except if a process without a state of the caller finds a full list.
func TestStore_units_small(t *testing.T) {
	for _, c := range []struct {
		remembered bool
		every      time.Duration
		most       float64 // writes of a decision
	}{{true, 1600 * time.Millisecond, 1}, {false, 3200 * time.Millisecond, 1.2}} {
		m := &meter{API: newTable(t)}
		store := storetest.Must(dynamostore.NewBare(m, dynamostore.Options{Table: "t", Namespace: "weir-prod"}))
		who := limiter.User("5f0c8c5e-1b7e-4d1c-9d5a-0a8f3f2b6c1" + fmt.Sprint(c.remembered)[:1])
		var charges []limiter.Charge
		for _, window := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
			limit := storetest.Must(limiter.NewLimit(limiter.Limit{Name: fmt.Sprintf("l%.0f", window.Seconds()), Version: noon.Unix(),
				Rate: algo.Rate{Requests: algo.MaxExact, Window: window}}))
			charges = append(charges, limiter.Charge{Subject: who, Limit: limit, Cost: 1})
		}
		const visits = 100
		results, now := make([]algo.Result, len(charges)), noon.Add(123456789)
		for range visits {
			if !c.remembered {
				clear(results)
			}
			if allowed, err := store.Take(context.Background(), algo.InstantOf(now), who, charges, results); err != nil || !allowed {
				t.Fatalf("got allowed %t, error %v, want an admission", allowed, err)
			}
			now = now.Add(c.every)
		}
		writes := float64(m.updates) / visits
		t.Logf("remembered %t: at most %v units a write, %.2f writes a decision", c.remembered, m.most, writes)
		if m.most != 1 || writes > c.most {
			t.Errorf("remembered %t: got %v units for a write and %.2f writes a decision, want one unit and at most %v writes", c.remembered, m.most,
				writes, c.most)
		}
	}
}
