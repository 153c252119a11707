package rules_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// trafficDocument has limits per tier, per parameter of the path, and per header field and client.
const trafficDocument = `{"version":100,"rules":[
	{"endpoint":"/other","limits":{"trial":{"requests":1,"window":"1h"}}},
	{"endpoint":"/docs/{id}","limits":{
		"free":{"name":"plan","requests":6,"window":"1h","algorithm":"fixed_window","per":["client"]},
		"paid":{"name":"plan","requests":12,"window":"1h","algorithm":"fixed_window","per":["client"]},
		"*":{"name":"plan","requests":9,"window":"1h","algorithm":"fixed_window","per":["client"]}}},
	{"endpoint":"/docs/{id}","limits":{"*":[
		{"name":"document","requests":15,"window":"1h","algorithm":"fixed_window","per":["path:id"]},
		{"name":"tenant","requests":8,"window":"1h","algorithm":"fixed_window","per":["header:x-tenant","client"]}]}}]}`

// counts are the counts of an independent limiter for trafficDocument. It knows neither rules nor subjects.
type counts map[string]int

// take counts a request, unless one of the limits is reached.
func (c counts) take(limits map[string]int) bool {
	for key, most := range limits {
		if c[key] >= most {
			return false
		}
	}
	for key := range limits {
		c[key]++
	}
	return true
}

// Random requests of several API keys are admitted exactly as the document and the records say. Meanwhile, keys change
// their tier, and records change, remove and set the limit of the plan. A new tier begins a new count. A changed record
// keeps the count.
func TestRules_traffic(t *testing.T) {
	r := parse(t, trafficDocument)
	tiers, plans := []string{"free", "paid", "trial"}, map[string]int{"free": 6, "paid": 12, "trial": 9}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var store limiter.Store = storetest.Must(memstore.New(memstore.Options{}))
		if seed%2 == 1 { // as a shared store, with a denial cache
			store = struct {
				limiter.Store
				storetest.Patient
			}{Store: store}
		}
		l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		own, callers := make([]int, 3), make([]caller.Caller, 3) // own: the limit of the record; 0 without one
		for i := range callers {
			callers[i] = caller.Caller{APIKey: fmt.Sprint("key", i), Tier: tiers[i]}
		}
		now, used := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC), counts{}
		for step := range 250 {
			now = now.Add(1100*time.Millisecond + time.Duration(rng.IntN(int(10*time.Second)))) // longer than the denial cache trusts a state
			i := rng.IntN(len(callers))
			c := &callers[i]
			switch rng.IntN(25) {
			case 0:
				c.Tier = tiers[rng.IntN(len(tiers))]
			case 1:
				list := ""
				if own[i] = rng.IntN(3) * (1 + rng.IntN(12)); own[i] > 0 {
					list = fmt.Sprintf("plan=%d", own[i])
				}
				c.Limits = limitsOf(t, 1000+int64(step), list)
			}
			id, tenant := fmt.Sprint(rng.IntN(4)), []string{"", "a", "b"}[rng.IntN(3)]
			header := http.Header{}
			if tenant != "" {
				header.Set("X-Tenant", tenant)
			}
			plan := plans[c.Tier]
			if own[i] > 0 {
				plan = own[i]
			}
			want := used.take(map[string]int{"plan " + c.Tier + c.APIKey: plan, "document " + id: 15, "tenant " + tenant + c.APIKey: 8})
			charges := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/docs/" + id), Header: header, Caller: *c}).Charges
			d, err := l.Take(t.Context(), now, charges)
			if err != nil || d.Allowed != want {
				t.Fatalf("seed %d, step %d: %s of tier %s (plan %d) for document %s of tenant %q: got allowed %t and error %v, want %t", seed, step, c.APIKey, c.Tier, plan, id, tenant, d.Allowed, err, want)
			}
		}
	}
}
