package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Deployment is the deployment to test. The rows that need a zero field are skipped.
type Deployment struct {
	// URL is the URL of an API with its stage, of a custom domain, of a distribution in front, or of a function.
	URL   string
	Rules *rules.Rules
	// Routes are the routes of the API. Write permits requests to those that can change data.
	Routes []Route
	Write  bool
	// Path, if not empty, is the path of the GET requests. By default, the routes and the rules select it.
	Path string
	// Credential is the header fields that identify the caller. nil means an anonymous caller.
	Credential http.Header
	// Tier is the tier of the caller. Empty means the default tier.
	Tier string
	// APIKey and Token are valid credentials, for the rows about them.
	APIKey, Token string
	// APIKeyHeader is the variable API_KEY_HEADER of the functions.
	APIKeyHeader string
	// Origin is an origin whose pages may read answers. Empty means an origin that only "*" permits.
	Origin string
	// MaxWait is the longest wait for a limit, and Clients the maximum number of requests at the same time.
	MaxWait time.Duration
	Clients int
	// Clock measures time. Wait waits; nil means real time.
	Clock func() time.Time
	Wait  func(context.Context, time.Duration) error
	// Waiting is called before a wait.
	Waiting func(d time.Duration, reason string)
}

// DefaultClients is the default of Deployment.Clients.
const DefaultClients = 50

// wait waits for at most MaxWait.
func (d *Deployment) wait(ctx context.Context, t time.Duration, reason string) error {
	if t > d.MaxWait {
		return errors.New("the wait is longer than --wait permits")
	}
	if d.Waiting != nil {
		d.Waiting(t, reason)
	}
	if d.Wait != nil {
		return d.Wait(ctx, t)
	}
	select {
	case <-time.After(t):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	// Ends reports that the whole limit is available again at the end of a fixed window.
	Ends bool
}

// Plan is what a run tests and sends.
type Plan struct {
	// Exact is the endpoint whose limit is counted exactly, and Quick the one that recovers first. nil means that no limit
	// is suitable.
	Exact, Quick *Target
	// Path is the path of requests that exhaust no limit. It is empty if there is none in the rules.
	Path string
	// Requests is the maximum number of requests.
	Requests int

	deployment *Deployment
}

// Plan selects the limits to exhaust and computes the maximum number of requests.
func (d *Deployment) Plan() *Plan {
	p := &Plan{Path: d.Path, deployment: d}
	var targets []Target
	for _, path := range d.paths() {
		t, suitable := d.target(path)
		switch {
		case suitable:
			targets = append(targets, t)
		case t.Limit != "":
			p.Path = cmp.Or(p.Path, path)
		case d.Path != "":
			p.Path = "" // its answers have no fields of a limit
		}
	}
	if len(targets) > 0 {
		p.Exact, p.Quick = new(slices.MinFunc(targets, byExactness)), new(slices.MinFunc(targets, byRecovery))
		p.Path = p.Quick.Path
	}
	for _, row := range Rows() {
		switch {
		case p.missing(row) != "":
			continue
		case row.Exhaust:
			p.Requests += max(p.Exact.Capacity, p.Quick.Capacity) + extra
		case row.Need == "--routes":
			p.Requests += len(d.Routes)
		}
		p.Requests += row.Requests
	}
	return p
}

// byExactness orders targets. The targets that regain nothing during a burst come first.
func byExactness(a, b Target) int {
	rank := func(t Target) int {
		switch {
		case t.Recovery < time.Duration(t.Capacity)*t.Refill: // a bucket
			return 2
		case t.Ends:
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

// missing returns the reason why a row cannot be tested, or "".
func (p *Plan) missing(r Row) string {
	d := p.deployment
	has := map[string]bool{"": true, "--routes": len(d.Routes) > 0, "$" + apiKeyVariable: d.APIKey != "", "$" + tokenVariable: d.Token != ""}
	switch {
	case !has[r.Need]:
		return "requires " + r.Need
	case r.Exhaust && p.Exact == nil:
		return fmt.Sprintf("the rules have no GET endpoint whose smallest limit counts one caller in one region, admits at most %d requests "+
			"and recovers within %s; choose another --path or --tier", maxCapacity, maxRecovery)
	case r.Need == "--routes" || p.Path != "":
		return ""
	case d.Path != "":
		return "--path: the rules have no limit for " + d.Path + " that refuses requests; a limit in shadow mode has no fields in the answer"
	}
	return "the rules name no path of a GET request with a limit (* names none); choose a --path of the API"
}

// paths returns paths of GET requests: that of the user, those of the routes, or those of the rules.
func (d *Deployment) paths() (list []string) {
	if d.Path != "" {
		return []string{d.Path}
	}
	for _, r := range d.Routes {
		if r.Method == http.MethodGet && r.Path != "" {
			list = append(list, r.Path)
		}
	}
	for i := 0; i < d.Rules.Len() && len(d.Routes) == 0; i++ {
		if pattern, method := d.Rules.Endpoint(i); pattern != "*" && (method == "" || method == http.MethodGet) {
			list = append(list, segment.ReplaceAllString(pattern, "weir-verify"))
		}
	}
	return list
}

// segment is a segment of a pattern that stands for others.
var segment = regexp.MustCompile(`\*|\{[^/]*\}`)

// target returns the limit that refuses first at a path. ok reports whether a run may exhaust it.
func (d *Deployment) target(path string) (t Target, ok bool) {
	first, _ := d.first(http.MethodGet, path)
	if first == nil {
		return t, false
	}
	rate, capacity := first.Limit.Rate.WithDefaults(), capacityOf(*first)
	t = Target{Path: path, Limit: first.Limit.Name, Capacity: int(capacity), Recovery: rate.Span(), Ends: rate.Algorithm.Resets()}
	t.Refill = time.Duration(int64(rate.Span()) / rate.Requests * first.Cost)
	if rate.Algorithm.HasBurst() {
		t.Recovery = t.Refill
	}
	shared := slices.ContainsFunc(d.Rules.Limits(), func(l rules.Listed) bool { return l.Shared && l.Charge.Limit.ID == first.Limit.ID })
	return t, !shared && !first.Limit.Global && first.Limit.Count == (limiter.Count{}) && capacity > 0 && capacity <= maxCapacity &&
		(t.Recovery <= maxRecovery || d.Path != "")
}

// first returns the charge whose limit refuses first at a path, or nil. exempt reports that the request is exempt.
func (d *Deployment) first(method, path string) (first *limiter.Charge, exempt bool) {
	path, _, _ = strings.Cut(path, "?")
	selected := d.Rules.Select(nil, rules.Request{Method: method, Path: rules.EncodedPath(path), Header: http.Header{}, Caller: d.caller()})
	if selected.Malformed {
		return nil, false
	}
	for i, c := range selected.Charges {
		if !c.Limit.Shadow && !c.Limit.Mark && c.Cost > 0 && (first == nil || capacityOf(c) < capacityOf(*first)) {
			first = &selected.Charges[i]
		}
	}
	return first, selected.Exemption != nil
}

// capacityOf returns the number of requests that a charge's limit admits.
func capacityOf(c limiter.Charge) int64 {
	return c.Limit.Machine().Capacity() / c.Cost
}

// caller returns a caller with the identities that the requests of a run have. The values have no
// effect on the limits, except for overrides.
func (d *Deployment) caller() caller.Caller {
	c := caller.Caller{IP: netip.MustParsePrefix("192.0.2.1/32"), Tier: d.Tier}
	if d.Credential.Get(authorization) != "" {
		c.User = "weir-verify"
	}
	if d.Credential.Get(d.APIKeyHeader) != "" {
		c.APIKey = "weir-verify"
	}
	return c
}
