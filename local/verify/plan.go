package verify

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// maxCapacity is the capacity of the largest limit that a run exhausts.
const maxCapacity = 100

// Target is an endpoint whose limit a run exhausts.
type Target struct {
	Path     string
	Limit    string // name of the limit
	Capacity int    // number of requests that the unused limit admits
	// Refill is the time in which the limit regains one request.
	Refill time.Duration
	// Recovery is the longest wait of a caller that exhausted the limit.
	Recovery time.Duration
	// ends reports that the count restarts at the end of a fixed window.
	ends bool
}

// Plan is the rows that apply to a deployment, and what their tests send.
type Plan struct {
	// Exact is the endpoint whose limit is counted exactly. Quick is the one that recovers first. nil
	// means that no limit is suitable.
	Exact, Quick *Target
	// Path is the path of requests that exhaust no limit.
	Path string
	// Requests is the maximum number of requests.
	Requests int

	deployment *Deployment
	rows       []Row
}

// Plan selects the limits to exhaust and computes the maximum number of requests.
func (d *Deployment) Plan(rows []Row) *Plan {
	p := &Plan{deployment: d, rows: rows}
	targets := d.targets()
	if len(targets) > 0 {
		exact := slices.MinFunc(targets, func(a, b Target) int {
			return cmp.Or(compareBool(a.bucket(), b.bucket()), compareBool(a.ends, b.ends), cmp.Compare(a.Capacity, b.Capacity))
		})
		quick := slices.MinFunc(targets, func(a, b Target) int {
			return cmp.Or(cmp.Compare(a.Recovery, b.Recovery), cmp.Compare(a.Capacity, b.Capacity))
		})
		p.Exact, p.Quick = &exact, &quick
	}
	switch {
	case p.Exact != nil:
		p.Path = p.Quick.Path
	case d.Path != "":
		p.Path = d.Path
	default:
		p.Path = "/"
	}
	bursts := false
	for _, row := range rows {
		if p.missing(row) == "" {
			p.Requests += p.cost(row)
			bursts = bursts || row.Cost.Burst
		}
	}
	if bursts {
		p.Requests += burstCost + p.capacity() + extra
	}
	return p
}

// bucket reports whether the limit refills steadily, so that a burst that takes long admits more.
func (t Target) bucket() bool { return t.Recovery < time.Duration(t.Capacity)*t.Refill }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// cost returns the maximum number of requests of a row, without the burst.
func (p *Plan) cost(r Row) int {
	if r.Cost.Exhaust {
		return r.Cost.Requests + p.capacity() + extra
	}
	return r.Cost.Requests
}

// capacity returns the largest capacity of a limit that the run exhausts.
func (p *Plan) capacity() int {
	if p.Exact == nil {
		return 0
	}
	return max(p.Exact.Capacity, p.Quick.Capacity)
}

// missing returns the reason why a row cannot be tested, or "".
func (p *Plan) missing(r Row) string {
	if r.Check == nil {
		return "only a person can test it"
	}
	for _, need := range r.Needs {
		if !p.deployment.has(need) {
			return "requires " + strings.ReplaceAll(string(need), "`", "")
		}
	}
	if (r.Cost.Burst || r.Cost.Exhaust) && p.Exact == nil {
		return fmt.Sprintf("the rules have no GET endpoint whose smallest limit counts one caller and admits at most %d requests; choose another path with --path or a tier with --tier", maxCapacity)
	}
	return ""
}

// targets returns the endpoints whose limits a run may exhaust.
func (d *Deployment) targets() (list []Target) {
	if d.Rules == nil {
		return nil
	}
	paths := []string{d.Path}
	if d.Path == "" {
		paths = nil
		for i := range d.Rules.Len() {
			if pattern, method := d.Rules.Endpoint(i); pattern != "*" && (method == "" || method == http.MethodGet) {
				paths = append(paths, concrete(pattern))
			}
		}
	}
	for _, path := range paths {
		if t, ok := d.target(path); ok {
			list = append(list, t)
		}
	}
	return list
}

// concrete returns a path that matches the pattern of an endpoint.
func concrete(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		if segment == "*" || strings.HasPrefix(segment, "{") {
			segments[i] = "weir-verify"
		}
	}
	return strings.Join(segments, "/")
}

// target returns the limit that refuses first at a path, if a run may exhaust it.
func (d *Deployment) target(path string) (t Target, ok bool) {
	parsed, err := rules.ParsePath(path, "")
	if err != nil {
		return t, false
	}
	selected := d.Rules.Select(nil, rules.Request{Method: http.MethodGet, Path: parsed, Header: http.Header{}, Caller: d.caller()})
	var first *limiter.Charge
	for i, c := range selected.Charges {
		if c.Limit.Shadow || c.Limit.Mark || c.Cost == 0 {
			continue
		}
		if first == nil || capacityOf(c) < capacityOf(*first) {
			first = &selected.Charges[i]
		}
	}
	if first == nil || first.Limit.Global || first.Limit.Count != (limiter.Count{}) || capacityOf(*first) > maxCapacity {
		return t, false
	}
	rate := first.Limit.Rate.WithDefaults()
	refill := rate.Span() / time.Duration(rate.Requests)
	t = Target{Path: path, Limit: first.Limit.Name, Capacity: int(capacityOf(*first)), Refill: refill, Recovery: rate.Span(), ends: rate.Algorithm == algo.FixedWindow}
	if rate.Algorithm == algo.TokenBucket || rate.Algorithm == algo.LeakyBucket {
		t.Recovery = refill * time.Duration(first.Cost)
	}
	return t, true
}

// capacityOf returns the number of requests that a charge's limit admits.
func capacityOf(c limiter.Charge) int64 {
	rate := c.Limit.Rate.WithDefaults()
	capacity := rate.Requests
	if rate.Algorithm == algo.TokenBucket || rate.Algorithm == algo.LeakyBucket {
		capacity = rate.Burst
	}
	return capacity / c.Cost
}

// caller returns a caller with the identities that the requests of a run have. The values have no
// effect on the limits, except for overrides.
func (d *Deployment) caller() caller.Caller {
	c := caller.Caller{IP: netip.MustParsePrefix("192.0.2.1/32"), Tier: d.Tier}
	if d.Credential.Get("Authorization") != "" {
		c.User = "weir-verify"
	}
	if d.Credential.Get("X-Api-Key") != "" {
		c.APIKey = "weir-verify"
	}
	return c
}
