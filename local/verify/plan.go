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
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// A run exhausts a limit only within these bounds. The second one does not apply to a path that the user
// selected.
const (
	maxCapacity = 100
	maxRecovery = 10 * time.Minute
)

// Target is an endpoint whose limit a run exhausts.
type Target struct {
	Path     string
	Limit    string // name of the limit
	Capacity int    // number of requests that the unused limit admits
	// Refill is the time in which the limit regains one request, on average.
	Refill time.Duration
	// Recovery is the longest wait of a caller that exhausted the limit.
	Recovery time.Duration
	// ends reports that the whole limit is available again at the end of a fixed window.
	ends bool
	// bucket reports that the limit regains requests steadily. settles reports that it refunds or releases a success.
	bucket, settles bool
	// shared reports that regions share the limit. One region then admits what it has, and what it can get of the others.
	shared bool
}

// Plan is what a run tests and sends.
type Plan struct {
	// Exact is the endpoint whose limit is counted exactly. Quick is the one that recovers first. nil
	// means that no limit is suitable.
	Exact, Quick *Target
	// Settled is the endpoint whose requests are settled, or nil.
	Settled *Target
	// Shared is the endpoint whose limit regions share, or nil.
	Shared *Target
	// Path is the path of requests that exhaust no limit. It is empty if there is none in the rules.
	Path string
	// Requests is the maximum number of requests.
	Requests int

	deployment *Deployment
	rows       []Row
}

// Plan selects the limits to exhaust and computes the maximum number of requests.
func (d *Deployment) Plan(rows []Row) *Plan {
	p := &Plan{Path: d.Path, deployment: d, rows: rows}
	var targets []Target
	for _, path := range d.paths() {
		t, ok := d.target(path)
		if t.settles && (p.Settled == nil || t.Refill > p.Settled.Refill) {
			p.Settled = &t
		}
		if ok && t.shared && (p.Shared == nil || byRecovery(t, *p.Shared) < 0) {
			p.Shared = &t
		}
		switch {
		case ok && !t.shared:
			targets = append(targets, t)
		case t.Limit != "":
			p.Path = cmp.Or(p.Path, path)
		case d.Path != "":
			p.Path = "" // its answers have no fields of a limit
		}
	}
	if len(targets) > 0 {
		exact, quick := slices.MinFunc(targets, byExactness), slices.MinFunc(targets, byRecovery)
		p.Exact, p.Quick, p.Path = &exact, &quick, quick.Path
	}
	burst := false
	for _, row := range rows {
		if p.missing(row) == "" {
			p.Requests += p.cost(row)
			burst = burst || row.Cost.Burst
		}
	}
	if burst {
		p.Requests += burstCost + p.capacity() + extra
	}
	return p
}

// byExactness orders targets. The targets that regain nothing during a burst come first.
func byExactness(a, b Target) int {
	rank := func(t Target) int {
		switch {
		case t.Recovery < time.Duration(t.Capacity)*t.Refill: // a bucket
			return 2
		case t.ends:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Capacity, b.Capacity))
}

// byRecovery orders targets by the wait of a caller that exhausted the limit.
func byRecovery(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Recovery, b.Recovery), cmp.Compare(a.Capacity, b.Capacity))
}

// cost returns the maximum number of requests of a row, without the burst.
func (p *Plan) cost(r Row) int {
	n := r.Cost.Requests
	if r.Cost.Exhaust {
		n += p.capacity() + extra
	}
	if r.Cost.Shared {
		n += p.Shared.twice()
	}
	return n
}

// twice returns the number of requests that exhaust the limit in two regions that count it alone.
func (t *Target) twice() int { return 2 * (t.Capacity + extra) }

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
	switch {
	case (r.Cost.Burst || r.Cost.Exhaust) && p.Exact == nil:
		return fmt.Sprintf("the rules have no GET endpoint whose smallest limit counts one caller in one region, admits at most %d requests and recovers within %s; choose another --path or --tier", maxCapacity, maxRecovery)
	case r.Cost.Shared && p.Shared == nil:
		return fmt.Sprintf("the rules have no GET endpoint whose smallest limit regions share, counts one caller, admits at most %d requests and recovers within %s; choose another --path or --tier", maxCapacity, maxRecovery)
	case r.Cost.Settles && p.Settled == nil:
		return "the rules have no GET endpoint whose smallest limit counts failures or requests in flight of one caller; choose another --path or --tier"
	case r.Cost.Requests > 0 && p.Path == "" && p.deployment.Path != "":
		return "--path: the rules have no limit for " + p.deployment.Path + " that refuses requests; a limit in shadow mode has no fields in the answer"
	case r.Cost.Requests > 0 && p.Path == "":
		return "the rules name no path of a GET request with a limit (* names none); choose a --path of the API"
	}
	return ""
}

func (d *Deployment) paths() (list []string) {
	switch {
	case d.Rules == nil:
		return nil
	case d.Path != "":
		return []string{d.Path}
	}
	for i := range d.Rules.Len() {
		if pattern, method := d.Rules.Endpoint(i); pattern != "*" && (method == "" || method == http.MethodGet) {
			list = append(list, concrete(pattern))
		}
	}
	return list
}

const placeholder = "weir-verify"

// concrete returns a path that matches the pattern of an endpoint.
func concrete(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		if segment == "*" || strings.HasPrefix(segment, "{") {
			segments[i] = placeholder
		}
	}
	return strings.Join(segments, "/")
}

// target returns the limit that refuses first at a path. ok reports whether a run may exhaust it.
func (d *Deployment) target(path string) (t Target, ok bool) {
	selected := d.Rules.Select(nil, rules.Request{Method: http.MethodGet, Path: rules.EncodedPath(path), Header: http.Header{}, Caller: d.caller()})
	if selected.Malformed {
		return t, false
	}
	var first *limiter.Charge
	for i, c := range selected.Charges {
		if !c.Limit.Shadow && !c.Limit.Mark && c.Cost > 0 && (first == nil || capacityOf(c) < capacityOf(*first)) {
			first = &selected.Charges[i]
		}
	}
	if first == nil {
		return t, false
	}
	rate, capacity := first.Limit.Rate.WithDefaults(), capacityOf(*first)
	t = Target{Path: path, Limit: first.Limit.Name, Capacity: int(capacity), Recovery: rate.Span(), ends: rate.Algorithm.Resets()}
	t.Refill = time.Duration(int64(rate.Span()) / rate.Requests * first.Cost)
	if t.bucket = rate.Algorithm.HasBurst(); t.bucket {
		t.Recovery = t.Refill
	}
	t.shared = slices.ContainsFunc(d.Rules.Limits(), func(l rules.Listed) bool { return l.Shared && l.Charge.Limit.ID == first.Limit.ID })
	of := first.Limit.Count.Of
	t.settles = !first.Limit.Global && (of == limiter.CountFailures || of == limiter.CountConcurrent) && capacity > settleRequests+1
	return t, !first.Limit.Global && first.Limit.Count == (limiter.Count{}) && capacity > 0 && capacity <= maxCapacity && (t.Recovery <= maxRecovery || d.Path != "")
}

// capacityOf returns the number of requests that a charge's limit admits.
func capacityOf(c limiter.Charge) int64 {
	rate := c.Limit.Rate.WithDefaults()
	capacity := rate.Requests
	if rate.Algorithm.HasBurst() {
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
	if field := d.field(apiKeyField); field != "" && d.Credential.Get(field) != "" {
		c.APIKey = "weir-verify"
	}
	return c
}
