package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Ceiling plays callers of two tiers at one limit of all callers: a token bucket, of which the tier free may use a part (up_to)
// and the tier paid the whole. It shows the same arrivals without the part, too.
//
// With the parameters of All, 100 free requests and 20 paid ones arrive each second at a limit of 50. With the part, every paid
// request is admitted. Without it, the free requests use up the limit.
type Ceiling struct {
	Limit   int64 // requests per second, and the tokens of the bucket
	Percent int64 // part of the tier free
	Free    int64 // requests per second of the tier free
	Paid    int64 // requests per second of the tier paid
}

// CeilingResult is the outcome of the arrivals with the part, and without it.
type CeilingResult struct {
	Limit   int64      `json:"limit"`
	Part    int64      `json:"part"` // tokens that the tier free may use
	With    CeilingRun `json:"with"`
	Without CeilingRun `json:"without"`
}

// CeilingRun has the requests that were admitted and refused by tier, and the tokens that were used at each time, before the
// arrivals at that time.
type CeilingRun struct {
	Admitted map[string]int `json:"admitted"`
	Refused  map[string]int `json:"refused"`
	Used     []Level        `json:"used"`
}

const ceilingSeconds = 3 // duration of the arrivals

var tierNames = [...]string{"free", "paid"}

// Name implements Scenario.
func (c *Ceiling) Name() string { return "ceiling" }

// Parameters implements Scenario.
func (c *Ceiling) Parameters() []Parameter {
	return []Parameter{
		{"limit", "Limit, requests a second", &c.Limit, 10, 200},
		{"percent", "Part of free callers, %", &c.Percent, 10, 100},
		{"free", "Free requests a second", &c.Free, 0, 200},
		{"paid", "Paid requests a second", &c.Paid, 0, 200},
	}
}

// Play implements Scenario. Its result is a CeilingResult.
func (c *Ceiling) Play() (any, error) {
	result := CeilingResult{Limit: c.Limit, Part: c.Limit * c.Percent / 100}
	var err error
	result.With, err = c.run(c.Percent)
	if err == nil {
		result.Without, err = c.run(100)
	}
	return result, err
}

// visit is a request.
type visit struct {
	at   time.Duration
	tier string
}

// visits returns all requests by time.
func (c *Ceiling) visits() (list []visit) {
	for i, offered := range []int64{c.Free, c.Paid} {
		for _, at := range (&Arrivals{Offered: offered, Seconds: ceilingSeconds}).instants() {
			list = append(list, visit{at, tierNames[i]})
		}
	}
	slices.SortStableFunc(list, func(a, b visit) int { return cmp.Compare(a.at, b.at) })
	return list
}

// run plays the requests with a percentage for the tier free.
func (c *Ceiling) run(percent int64) (r CeilingRun, err error) {
	parsed, err := rules.Parse(fmt.Appendf(nil, `{"tiers":["free","paid"],"rules":[{"endpoint":"*","limits":{"global":{"name":"all",`+
		`"requests":%d,"window":"1s","algorithm":"token_bucket","per":["global"],"up_to":{"free":"%d%%","paid":"100%%"}}}}]}`, c.Limit,
		percent), rules.Options{Version: 1})
	if err != nil {
		return r, err
	}
	charges := func(tier string) []limiter.Charge {
		return parsed.Select(nil, rules.Request{Path: rules.EncodedPath("/"), Caller: caller.Caller{Tier: tier}}).Charges
	}
	d, err := newDesk(*charges("paid")[0].Limit)
	if err != nil {
		return r, err
	}
	r.Admitted, r.Refused = map[string]int{}, map[string]int{}
	waiting := c.visits()
	for at := time.Duration(0); at <= (ceilingSeconds+1)*time.Second; at += levelStep {
		for len(waiting) > 0 && waiting[0].at < at {
			next := waiting[0]
			waiting = waiting[1:]
			decision, err := d.limiter.Take(context.Background(), d.start.Add(next.at), charges(next.tier))
			if err != nil {
				return r, err
			}
			if decision.Allowed {
				r.Admitted[next.tier]++
			} else {
				r.Refused[next.tier]++
			}
		}
		seen, err := d.limiter.Inspect(context.Background(), d.start.Add(at), charges("paid"))
		if err != nil {
			return r, err
		}
		r.Used = append(r.Used, Level{milliseconds(at), c.Limit - seen[0].Remaining})
	}
	return r, nil
}
