package rules

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// Writes is how many items a request of an endpoint writes at most, by what its caller is known
// as: one for each in which a limit of it is counted. All are written at once. A refused request
// may write fewer, and one that is refused by shards one more for each.
type Writes struct {
	Endpoint  string `json:"endpoint"`
	Method    string `json:"method,omitempty"` // of the rule; "" for any
	User      int    `json:"user"`
	APIKey    int    `json:"apikey"`
	Both      int    `json:"user_and_apikey"` // a token and a key
	Anonymous int    `json:"anonymous"`       // known by its address alone
	Rejected  int    `json:"bad_credential"`
}

// Writes returns what requests write, for the endpoint of each rule, in file order: the most of
// all tiers. Requests are taken to have every claim by which limits count.
func (r *Rules) Writes() (list []Writes) {
	address := netip.MustParsePrefix("192.0.2.1/32")
	claims := map[string]string{}
	for i := range r.classes {
		for _, part := range r.classes[i].parts {
			if name, ok := strings.CutPrefix(part, perClaim); ok {
				claims[name] = "x"
			}
		}
	}
	known := map[Writes]bool{}
	for i := range r.rules {
		rule := &r.rules[i]
		w := Writes{Endpoint: rule.pattern.text, Method: rule.method}
		if known[w] {
			continue
		}
		known[w] = true
		most := func(caller caller.Caller) int {
			caller.IP, caller.Claims = address, claims
			return r.mostWrites(rule, caller)
		}
		w.User, w.APIKey = most(caller.Caller{User: "x"}), most(caller.Caller{APIKey: "x"})
		w.Both, w.Anonymous = most(caller.Caller{User: "x", APIKey: "x"}), most(caller.Caller{})
		w.Rejected = most(caller.Caller{Rejected: true})
		list = append(list, w)
	}
	return list
}

// mostWrites returns how many items a request of a rule's endpoint writes at most.
func (r *Rules) mostWrites(rule *rule, caller caller.Caller) (most int) {
	path := rule.pattern.example()
	tiers, asked := map[string]bool{r.defaultTier: true}, methods
	for _, i := range r.index.match(nil, path) {
		for tier := range r.rules[i].limits {
			tiers[tier] = true
		}
	}
	if rule.method != "" {
		asked = []string{rule.method}
	}
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		for _, method := range asked {
			caller.Tier = tier
			items := map[limiter.Subject]int{}
			shards := 0
			for _, c := range r.Charges(nil, method, path, caller) {
				switch s := c.Limit.Spread; {
				case s.Shards > 0:
					shards++
				case s.Cells == 0 && !s.Adaptive: // whose environments report now and then
					items[c.Limit.Subjects(c.Subject)[0]]++
				}
			}
			most = max(most, len(items)+shards)
		}
	}
	return most
}
