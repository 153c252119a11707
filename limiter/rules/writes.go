package rules

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Writes is the largest number of items that a request of an endpoint writes, for each combination of the caller's
// identities. A request writes every item that counts one of its limits, all at the same time. If a limit settles its
// charge after the answer, Writes includes that second write.
//
// Most requests write fewer items. A refused request can write none, and a lease or an adaptive share saves writes.
//
// Two kinds of requests can write more. If a shard refuses a request, it tries a second shard of each limit with
// shards. A path with several readings is charged for each: they can match different rules, and have different
// values of path parameters by which limits count.
type Writes struct {
	Endpoint  string `json:"endpoint"`
	Method    string `json:"method,omitempty"` // method of the rule; "" means any method
	User      int    `json:"user"`
	APIKey    int    `json:"apikey"`
	Both      int    `json:"user_and_apikey"` // caller with a token and an API key
	Anonymous int    `json:"anonymous"`       // caller without any identity except the address
	Rejected  int    `json:"bad_credential"`
}

var exampleAddress = netip.MustParsePrefix("192.0.2.1/32")

// Writes returns the number of writes of requests for the endpoint of each rule, in file order. Each
// number is the maximum over all tiers and all matching paths. Writes assumes that requests have
// every claim by which limits count.
func (r *Rules) Writes() (list []Writes) {
	w := writer{rules: r, claims: map[string]string{}, known: map[string]Writes{}}
	for _, name := range r.Claims() {
		w.claims[name] = "x"
	}
	seen := map[Writes]bool{}
	for i := range r.rules {
		rule := &r.rules[i]
		one := Writes{Endpoint: rule.Endpoint, Method: rule.Method}
		if seen[one] {
			continue
		}
		seen[one] = true
		for _, matched := range r.meetings(rule.pattern) {
			one = one.most(w.of(matched, rule.Method))
		}
		list = append(list, one)
	}
	return list
}

func (w Writes) most(o Writes) Writes {
	w.User, w.APIKey, w.Both = max(w.User, o.User), max(w.APIKey, o.APIKey), max(w.Both, o.Both)
	w.Anonymous, w.Rejected = max(w.Anonymous, o.Anonymous), max(w.Rejected, o.Rejected)
	return w
}

// maxMeetings is the maximum number of calls of meeting.walk for a pattern that overlaps many other
// patterns.
const maxMeetings = 2000

// meetings returns the largest sets of rules that can match one path together with p. If there are too many sets, it
// returns one set with the rules of all. It leaves out rules whose pattern is narrower than p: a path of the narrower
// pattern belongs to that pattern, and is counted there.
func (r *Rules) meetings(p pattern) [][]int {
	var all []int
	for i := range r.rules {
		if q := r.rules[i].pattern; p.meets(q) && (!p.contains(q) || q.contains(p)) {
			all = append(all, i)
		}
	}
	m := meeting{rules: r.rules, most: maxMeetings}
	if m.walk(all, p, 0); m.most > 0 {
		return m.sets
	}
	return [][]int{all}
}

// meeting collects the sets of rules that can match one path.
type meeting struct {
	rules []rule
	sets  [][]int
	most  int // remaining calls of walk
}

// walk adds the sets of paths that match p. The first segments of these paths, before the index at, match the rules
// in matched. At each end of a path, walk adds one set to m.sets.
func (m *meeting) walk(matched []int, p pattern, at int) {
	if m.most--; m.most <= 0 {
		return
	}
	var set, beyond []int        // rules that match a path with these segments, and those that match every longer path too
	byNext := map[string][]int{} // all other rules, by their next segment
	for _, i := range matched {
		switch own := &m.rules[i].pattern; {
		case at < len(own.segments):
			byNext[own.segments[at]] = append(byNext[own.segments[at]], i)
		case own.below:
			beyond = append(beyond, i)
			fallthrough
		default:
			set = append(set, i)
		}
	}
	if at >= len(p.segments) {
		slices.Sort(set)
		m.sets = append(m.sets, set)
		if !p.below {
			return
		}
	}
	parameters := byNext[parameter]
	delete(byNext, parameter)
	next := slices.Sorted(maps.Keys(byNext))
	if at < len(p.segments) && p.segments[at] != parameter {
		next = p.segments[at : at+1]
	} else if len(next) == 0 {
		// A segment that is a literal of a rule matches more rules than any other text. So the walk tries another text
		// only if there are no literals.
		next = []string{parameter}
	}
	for _, segment := range next {
		if longer := slices.Concat(byNext[segment], parameters); len(longer) > 0 {
			m.walk(append(longer, beyond...), p, at+1)
		}
	}
}

// meets reports whether a path matches both p and q.
func (p pattern) meets(q pattern) bool {
	for i := 0; ; i++ {
		switch {
		case i == len(p.segments):
			return i == len(q.segments) || p.below
		case i == len(q.segments):
			return q.below
		case p.segments[i] != q.segments[i] && p.segments[i] != parameter && q.segments[i] != parameter:
			return false
		}
	}
}

// contains reports whether p matches every path that q matches.
func (p pattern) contains(q pattern) bool {
	if len(p.segments) > len(q.segments) || !p.below && (q.below || len(p.segments) < len(q.segments)) {
		return false
	}
	for i, segment := range p.segments {
		if segment != parameter && segment != q.segments[i] {
			return false
		}
	}
	return true
}

type writer struct {
	rules  *Rules
	claims map[string]string
	known  map[string]Writes // cached results of writer.of, by matched rules and HTTP method
}

// of returns the largest numbers of items that a request writes if it matches these rules. A method of "" means
// any method.
func (w *writer) of(matched []int, method string) Writes {
	key := fmt.Sprint(method, matched)
	if one, ok := w.known[key]; ok {
		return one
	}
	methods := []string{method}
	if method == "" {
		methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	var one Writes
	for _, tier := range w.tiers(matched) {
		for _, method := range methods {
			count := func(caller caller.Caller) int {
				caller.IP, caller.Claims, caller.Tier = exampleAddress, w.claims, tier
				return w.count(matched, method, caller)
			}
			one = one.most(Writes{
				User: count(caller.Caller{User: "x"}), APIKey: count(caller.Caller{APIKey: "x"}), Both: count(caller.Caller{User: "x", APIKey: "x"}),
				Anonymous: count(caller.Caller{}), Rejected: count(caller.Caller{Rejected: true}),
			})
		}
	}
	w.known[key] = one
	return one
}

// tiers returns the tiers that the matched rules name, the default tier, and one other tier if there is
// one.
func (w *writer) tiers(matched []int) []string {
	named := map[string]bool{w.rules.defaultTier: true}
	for _, i := range matched {
		for tier := range w.rules.rules[i].tiers {
			named[tier] = true
		}
	}
	for tier := range w.rules.tiers {
		if !named[tier] { // an example of a tier that no rule names
			named[tier] = true
			break
		}
	}
	delete(named, document.OtherTiers)
	delete(named, document.Global)
	return slices.Collect(maps.Keys(named))
}

// count returns how many items one request writes.
func (w *writer) count(matched []int, method string, caller caller.Caller) int {
	items, settled, shards := map[limiter.Subject]bool{}, map[limiter.Subject]bool{}, 0
	all := charger{rules: w.rules}
	all.charge(&Request{Method: method, Caller: caller}, matched, []reading{{}})
	for _, c := range all.charges {
		item := c.Limit.Subjects(c.Subject)[0]
		if c.Limit.Spread.Shards > 0 {
			shards++
		} else {
			items[item] = true
		}
		if c.Limit.Count.Settles() {
			settled[item] = true
		}
	}
	return len(items) + len(settled) + shards
}
