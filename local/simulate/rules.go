package simulate

import (
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// maxWindow is the longest window whose counts are full by default after the warm-up.
const maxWindow = time.Minute

// PlanRules returns a scenario for each rule and tier whose name matches the expression only, or for all if only is nil.
// All requests of a scenario are for the endpoint of the rule. They charge what the rules select for them, also limits
// of other rules. Each caller has its own user or, if no limit of the rule counts users, its own API key or address. It
// also has its own claims, header fields and path parameters. With p.Regions, there are scenarios only of the rules and
// tiers whose limits all are shared by regions, one for each kind of traffic.
//
// If p.Warmup or p.Measured is 0, it is the longest window of the scenarios, at most a minute. An error names the
// invalid parameter, or a limit that cannot be simulated.
func PlanRules(p Parameters, answers Answers, r *rules.Rules, only *regexp.Regexp) (plan []Scenario, err error) {
	if err := p.checkRegions(); err != nil {
		return nil, err
	}
	var names []string
	for _, sort := range sorts(r) {
		for _, s := range (Scenario{Name: sort.name(), Charges: sort.charges, Parameters: p, Answers: answers}).inTraffics() {
			names = append(names, s.Name)
			if only != nil && !only.MatchString(s.Name) {
				continue
			}
			if err := s.divide(); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			plan = append(plan, s)
		}
	}
	switch {
	case len(names) == 0 && p.Regions > 0:
		return nil, fmt.Errorf(`rules: got none whose limits are all "regions": "shared", want at least one`)
	case len(names) == 0:
		return nil, fmt.Errorf("rules: got none that charges a limit, want at least one")
	case len(plan) == 0:
		return nil, fmt.Errorf("names: got %q, want part of a name such as %q", only, names[0])
	}
	longest := time.Second
	for i := range plan {
		longest = max(longest, min(maxWindow, plan[i].longest()))
	}
	for i := range plan {
		s := &plan[i]
		if s.Warmup == 0 {
			s.Warmup = longest
		}
		if s.Measured == 0 {
			s.Measured = longest
		}
		for _, c := range s.charges(1) {
			if c.Limit.Rate.Algorithm.Queues() {
				return nil, fmt.Errorf("%s: limit %q: a leaky_bucket cannot be simulated, because the simulation has no queues; leave the rule out with --only", s.Name, c.Limit.Name)
			}
		}
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return plan, nil
}

// sort is a sort of requests: the requests for the endpoint of a rule, by callers of a tier with the same kind of
// credential.
type sort struct {
	rules    *rules.Rules
	endpoint string
	method   string // "" means any
	key      string // the key of the limits in the rule: a tier, "*" or "global"
	tier     string
	as       credential
}

type credential int

const (
	withUser credential = iota
	withAPIKey
	withNone
	withBad
)

// sorts returns the sorts of requests that charge a limit of their rule, in file order.
func sorts(r *rules.Rules) (list []sort) {
	seen := map[sort]bool{}
	for _, l := range r.Limits() {
		s := sort{rules: r, endpoint: l.Endpoint, method: l.Method, key: l.Tier}
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.tier = s.example(r.Limits()); s.chooseCredential() {
			list = append(list, s)
		}
	}
	return list
}

// example returns a tier that selects the limits under s.key.
func (s *sort) example(all []rules.Listed) string {
	named := map[string]bool{}
	for _, l := range all {
		named[l.Tier] = named[l.Tier] || l.Endpoint == s.endpoint && l.Method == s.method
	}
	if s.key != document.OtherTiers && s.key != document.Global {
		return s.key
	}
	for _, tier := range slices.Concat([]string{s.rules.Tier("")}, s.rules.Tiers()) {
		if !named[tier] {
			return tier
		}
	}
	return ""
}

// chooseCredential chooses the first credential with which a request charges a limit under s.key. It returns false if
// there is none. Limits under "global" beside others are part of those.
func (s *sort) chooseCredential() bool {
	for s.as = withUser; s.as <= withBad; s.as++ {
		for _, m := range s.rules.Explain(s.request(1)).Matches {
			others := s.key == document.Global && slices.ContainsFunc(m.Limits, func(l rules.Listed) bool { return l.Tier != document.Global })
			if m.Endpoint == s.endpoint && m.Method == s.method && !others &&
				slices.ContainsFunc(m.Limits, func(l rules.Listed) bool { return l.Tier == s.key && l.Charge.Subject != (limiter.Subject{}) }) {
				return true
			}
		}
	}
	return false
}

func (s *sort) name() string {
	name := strings.TrimSpace(s.method + " " + s.endpoint)
	if s.key != document.Global {
		name += ", " + s.key
	}
	return name + [...]string{withUser: "", withAPIKey: ", API key", withNone: ", no credential", withBad: ", bad credential"}[s.as]
}

// charges appends the charges of a request of a caller to dst.
func (s *sort) charges(dst []limiter.Charge, who uint32) []limiter.Charge {
	return s.rules.Select(dst, s.request(who)).Charges
}

// request returns the request of a caller, whose number stands for all that it has of its own.
func (s *sort) request(who uint32) rules.Request {
	own := strconv.FormatUint(uint64(who), 10)
	address := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(who >> 24), byte(who >> 16), byte(who >> 8), byte(who)})
	q := rules.Request{
		Method: s.method, Path: rules.EncodedPath(path(s.endpoint, own)), Header: http.Header{},
		Caller: caller.Caller{IP: netip.PrefixFrom(address, 64), Tier: s.tier},
	}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	for _, name := range s.rules.Headers() {
		q.Header.Set(name, own)
	}
	switch s.as {
	case withUser:
		q.Caller.User, q.Caller.Claims = own, map[string]string{}
		for _, name := range s.rules.Claims() {
			q.Caller.Claims[name] = own
		}
	case withAPIKey:
		q.Caller.APIKey = own
	case withNone:
	case withBad:
		q.Caller.Rejected = true
	}
	return q
}

// path returns a path of an endpoint, with own in place of a parameter and of *.
func path(endpoint, own string) string {
	segments := strings.Split(strings.TrimPrefix(endpoint, "/"), "/")
	for i, segment := range segments {
		if segment == "*" || strings.HasPrefix(segment, "{") {
			segments[i] = own
		}
	}
	return "/" + strings.Join(segments, "/")
}
