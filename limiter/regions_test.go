package limiter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A limit that regions share knows itself in each region. Its capacity is that of all regions.
func TestNewLimit_regions(t *testing.T) {
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 3, Place: 1}}})
	all := l.Regions()
	if len(all) != 3 || all[1] != l || l.MaxCost() != 10 || l.WindowAt(time.Now()) != time.Minute {
		t.Fatalf("got %d regions, this one at its place %t, and max cost %d, want 3, true and 10", len(all), all[1] == l, l.MaxCost())
	}
	for i, base := range []int64{4, 3, 3} {
		m := all[i].Machine().(*algo.Shared)
		if m.Base() != base || all[i].ID != l.ID || all[i].Rate.Regions.Place != i || len(all[i].Regions()) != 3 {
			t.Errorf("region %d: got base share %d of %s, want %d", i, m.Base(), all[i].Fingerprint(), base)
		}
	}
	other := *l // a copy for new rules knows no old regions
	other.Rate.Requests = 20
	if next := limit(t, other); next.Regions()[0].Rate.Requests != 20 {
		t.Errorf("a changed copy: got regions with %d requests, want 20", next.Regions()[0].Rate.Requests)
	}
	for place, base := range []int64{5, 0} {
		without := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 2, Place: place,
			Without: 2}}, LocalProcesses: 2})
		if got := without.Machine().(*algo.Shared).Base(); got != base {
			t.Errorf("region %d of two, the last one without share: got base share %d, want %d", place, got, base)
		}
	}
	divided := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 3}},
		LocalProcesses: 2})
	if got := divided.MaxLocalCost(); got != 2 {
		t.Errorf("a base share of 4 in two processes: got a largest cost of %d in an outage, want 2", got)
	}
}

// Regions cannot share what a transfer between them cannot move exactly.
func TestNewLimit_regionsRefused(t *testing.T) {
	shared := func(l limiter.Limit) limiter.Limit {
		l.Name, l.Rate.Regions = "a", algo.Regions{Of: 3}
		l.Rate.Requests = 1000
		if l.Rate.Window == 0 {
			l.Rate.Window = time.Hour
		}
		return l
	}
	for name, l := range map[string]limiter.Limit{
		"bucket":     {Rate: algo.Rate{Algorithm: algo.TokenBucket}},
		"log":        {Rate: algo.Rate{Algorithm: algo.SlidingLog}},
		"concurrent": {Count: limiter.Count{Of: limiter.CountConcurrent}},
		"lease":      {Spread: limiter.Spread{Lease: 5}},
		"shards":     {Spread: limiter.Spread{Shards: 2}},
		"sync_ms":    {Spread: limiter.Spread{Sync: time.Second}},
		"tiers":      {Rate: algo.Rate{Of: 2000}},
		"notify":     {Notify: limiter.Percentages{80}},
		"processes":  {LocalProcesses: 334},
	} {
		if _, err := limiter.NewLimit(shared(l)); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// A store that cannot move share refuses a limit that regions share, instead of deciding it wrongly.
func TestLimiter_Take_regionsUnsupported(t *testing.T) {
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 2}}})
	charges := []limiter.Charge{{Subject: limiter.User("42"), Limit: l, Cost: 1}}
	memory := storetest.Must(memstore.New(memstore.Options{}))
	other := struct{ limiter.Store }{memory} // has no Debit and no Credit
	for _, c := range []struct {
		store limiter.Store
		want  error
	}{
		{memory, nil},
		{storetest.Must(resilient.New(struct {
			limiter.Store
			limiter.Shares
		}{memory, memory}, resilient.Options{})), nil},
		{other, limiter.ErrInvalidCharge},
		{storetest.Must(resilient.New(other, resilient.Options{})), limiter.ErrInvalidCharge},
	} {
		d, err := storetest.Must(limiter.New(c.store, limiter.Options{})).Take(context.Background(), noon, charges)
		if !errors.Is(err, c.want) || (err == nil) != d.Allowed {
			t.Errorf("%T: got %+v and error %v, want error %v", c.store, d, err, c.want)
		}
	}
}
