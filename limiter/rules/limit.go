package rules

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// spec is a limit before it is made.
type spec struct {
	path           string
	rule           int
	tier           string // the key it stands under
	name           string
	rate           algo.Rate
	spread         limiter.Spread
	per            []string
	class          int   // once it is placed
	badCredentials bool  // see limit
	cost           *node // of the rule, nil if it has none
}

// limit reads one limit. ok is false if it has mistakes.
func (p *parser) limit(n *node, rule int, tier string, inList bool) (s spec, ok bool) {
	before := len(p.problems)
	o := n.object(&p.problems)
	r := &p.rules.rules[rule]
	s = spec{path: n.path, rule: rule, tier: tier}
	s.rate = p.rate(o)
	s.spread = p.spread(o)
	s.per = p.per(o, tier)
	s.name = p.name(o, r.name, inList, s.per == nil || slices.Contains(s.per, perEndpoint))
	s.badCredentials = p.badCredentials(o, s.per)
	if note := o.member("note"); note != nil {
		o.text(note)
	}
	o.done()
	if p.mistaken(before) {
		return s, false
	}
	return s, true
}

// rate reads how much in how much time.
func (p *parser) rate(o *object) (r algo.Rate) {
	r.Requests, _ = o.whole(o.required("requests"), algo.MaxRequests)
	r.Window = p.window(o)
	r.Algorithm = algo.Algorithm(o.choice("algorithm", []string{
		string(algo.SlidingWindow), string(algo.FixedWindow), string(algo.TokenBucket), string(algo.LeakyBucket), string(algo.SlidingLog),
	}))
	r.Burst, _ = o.whole(o.member("burst"), algo.MaxRequests)
	if interval := int64(r.Window) / max(1, r.Requests); r.Algorithm == algo.LeakyBucket && p.o.MaxDelay > 0 && interval > 0 {
		r = r.WithDefaults()
		r.Burst = min(r.Burst, int64(p.o.MaxDelay)/interval+1)
	}
	return r
}

// spread reads how a limit spares the store.
func (p *parser) spread(o *object) (s limiter.Spread) {
	s.Lease, _ = o.whole(o.member("lease"), algo.MaxRequests)
	shards, _ := o.whole(o.member("shards"), limiter.MaxShards)
	ms, _ := o.whole(o.member("sync_ms"), int64(algo.MaxWindow/time.Millisecond))
	cells, _ := o.whole(o.member("cells"), limiter.MaxCells)
	s.Shards, s.Sync, s.Cells = int(shards), time.Duration(ms)*time.Millisecond, int(cells)
	return s
}

// large reports whether a limit needs more writes than one item takes, and can do with fewer.
func (p *parser) large(r algo.Rate) bool {
	return p.o.LeaseAbove > 0 && perSecond(r) > p.o.LeaseAbove && r.Algorithm != algo.SlidingLog && r.Algorithm != algo.LeakyBucket
}

func perSecond(r algo.Rate) int64 { return r.Requests * int64(time.Second) / int64(r.Window) }

// leases returns how many requests a large limit that says nothing of it leases at once.
func leases(r algo.Rate) int64 {
	if capacity(r) < 2 { // there is never more than one to take
		return 0
	}
	return min(max(2, perSecond(r)/100), capacity(r))
}

// window reads window_seconds or window.
func (p *parser) window(o *object) time.Duration {
	const most = int64(algo.MaxWindow / time.Second)
	seconds, text := o.member("window_seconds"), o.member("window")
	switch {
	case seconds != nil && text != nil:
		p.problems.add(text.path, "stands beside window_seconds: write one of them")
	case seconds != nil:
		i, _ := o.whole(seconds, most)
		return time.Duration(i) * time.Second
	case text == nil:
		if o.node.kind == isObject {
			p.problems.add(join(o.node.path, "window_seconds"), `is missing; "window": "1m" says the same`)
		}
	default:
		if s, ok := o.text(text); ok {
			d, err := duration(s)
			if err != nil || d < limiter.MinWindow || d > algo.MaxWindow || d%time.Second != 0 {
				p.problems.add(text.path, `got %s, want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"`, text)
			}
			return d
		}
	}
	return 0
}

// duration is time.ParseDuration with days.
func duration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 7)
		return time.Duration(n) * 24 * time.Hour, err
	}
	if strings.HasPrefix(s, "+") {
		return 0, errors.New("a sign")
	}
	return time.ParseDuration(s)
}

// name reads a limit's name; otherwise is that of a limit which has none.
func (p *parser) name(o *object, otherwise string, inList, endpoint bool) string {
	n := o.member("name")
	if name, ok := o.text(n); ok {
		if !validName.MatchString(name) {
			p.problems.add(n.path, "got %s, want 1 to 32 of a-z, 0-9, _ and -", n)
		}
		return name
	}
	switch {
	case n != nil || o.node.kind != isObject:
	case inList:
		p.problems.add(join(o.node.path, "name"), "is missing: limits in a list need one each")
	case !endpoint:
		p.problems.add(join(o.node.path, "name"), "is missing: a limit that does not count by endpoint is one count for all rules that use its name")
	}
	return otherwise
}

var validName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// per reads what a limit counts by, sorted; nil if it has mistakes.
func (p *parser) per(o *object, tier string) []string {
	n := o.member("per")
	switch {
	case n == nil && tier == globalKey:
		return []string{perEndpoint, perGlobal}
	case n == nil:
		return []string{perClient, perEndpoint}
	case n.kind != isList:
		p.problems.add(n.path, "got %s, want a list of client, user, apikey, ip, claim:<name>, endpoint, global", n)
		return nil
	case len(n.items) == 0:
		p.problems.add(n.path, "is empty: leave it out for client and endpoint")
		return nil
	case len(n.items) > maxPer:
		p.problems.add(n.path, "has %d words, at most %d are allowed", len(n.items), maxPer)
		return nil
	}
	before := len(p.problems)
	var per []string
	for _, item := range n.items {
		word, ok := o.text(item)
		switch {
		case !ok:
		case slices.Contains(per, word):
			p.problems.add(item.path, "stands twice in one list")
		case !slices.Contains([]string{perClient, perUser, perAPIKey, perIP, perEndpoint, perGlobal}, word) && !validClaim.MatchString(word):
			p.problems.add(item.path, "got %s, want client, user, apikey, ip, claim:<name>, endpoint or global", item)
		default:
			per = append(per, word)
		}
	}
	slices.Sort(per)
	p.combination(n.path, per)
	if p.mistaken(before) {
		return nil
	}
	return per
}

var validClaim = regexp.MustCompile(`^claim:[^\s]{1,64}$`)

// badCredentials reads whether only requests with a bad credential are charged. Such a request
// has no identity but its address.
func (p *parser) badCredentials(o *object, per []string) bool {
	n := o.member("only_bad_credentials")
	only := o.flag(n)
	if only && !slices.Equal(per, []string{perIP}) && !slices.Equal(per, []string{perEndpoint, perIP}) {
		p.problems.add(n.path, `a request with a bad credential has no identity but its address: want "per": ["ip"] or ["ip", "endpoint"] beside it`)
	}
	return only
}

// combination notes what cannot be counted by at once.
func (p *parser) combination(path string, per []string) {
	for _, word := range per {
		switch {
		case slices.Contains(per, perGlobal) && word != perGlobal && word != perEndpoint:
			p.problems.add(path, "global counts all callers together, so %s cannot stand beside it", word)
			return
		case slices.Contains(per, perClient) && (word == perUser || word == perAPIKey || word == perIP):
			p.problems.add(path, "client is the strongest of user, apikey and ip, so %s cannot stand beside it", word)
			return
		}
	}
}

// horizons returns the longest time that any limit of a subject must be kept, by what
// the subject is. The subjects of single identities are taken together: those of a
// client are any of them.
func (p *parser) horizons(specs []spec) map[string]time.Duration {
	own := map[string]map[string]time.Duration{} // of overrides, by name and kind
	for _, o := range p.overrides {
		if own[o.name] == nil {
			own[o.name] = map[string]time.Duration{}
		}
		own[o.name][o.who.kind] = max(own[o.name][o.who.kind], horizon(o.rate))
	}
	longest := map[string]time.Duration{}
	for _, s := range specs {
		class := &p.rules.classes[s.class]
		most := horizon(s.rate)
		for kind, h := range own[s.name] {
			if class.countsBy(kind) {
				most = max(most, h)
			}
		}
		for _, family := range class.families {
			longest[family] = max(longest[family], most)
		}
	}
	return longest
}

// horizon returns how long a store keeps a count of a rate; 0 if the rate is wrong.
func horizon(r algo.Rate) time.Duration {
	machine, err := algo.New(r)
	if err != nil {
		return 0
	}
	return machine.Horizon()
}

// class returns the index of c, which it adds if it is new.
func (p *parser) class(c class) int {
	i, ok := p.classes[c.key]
	if !ok {
		i = len(p.rules.classes)
		p.rules.classes, p.classes[c.key] = append(p.rules.classes, c), i
	}
	return i
}

// identity returns what a limit is, and whether its endpoint is part of that.
func (p *parser) identity(s *spec) (is hashed, byEndpoint bool) {
	is = hashed{tier: s.tier, name: s.name, per: strings.Join(s.per, " ")}
	if byEndpoint = slices.Contains(s.per, perEndpoint); byEndpoint {
		r := &p.rules.rules[s.rule]
		is.endpoint, is.method = r.pattern.text, r.method
	}
	return is, byEndpoint
}

// make makes a limit and gives it to its rule.
func (p *parser) make(s spec, horizon time.Duration) {
	r := &p.rules.rules[s.rule]
	c := p.rules.classes[s.class]
	is, byEndpoint := p.identity(&s)
	parts, label := []string{is.tier, is.name, is.per}, s.name
	if byEndpoint {
		parts, label = append(parts, is.endpoint, is.method), r.label()
	}
	l, err := limiter.NewLimit(limiter.Limit{
		Name: s.name, Rule: label, Rate: s.rate, ID: limiter.NewID(parts...), Global: c.global, Version: p.rules.version, Horizon: horizon,
		Shadow: r.shadow, Spread: p.spreads(s.path, s.spread, s.rate, c.global), OnError: r.onError, LocalProcesses: r.localProcesses,
	})
	if field, ok := errors.AsType[*algo.FieldError](err); ok && field.Field == processesField {
		p.problems.add(join(r.path, processesField), "does not go with %s: got %v, want %s", s.path, field.Got, field.Want)
		return
	} else if err != nil {
		p.unmade(s.path, err)
		return
	}
	switch {
	case s.cost == nil:
	case r.cost > l.MaxCost():
		p.problems.add(s.cost.path, "got %d, more than %s ever allows at once (%d)", r.cost, s.path, l.MaxCost())
		return
	case r.cost > l.MaxLocalCost():
		p.problems.add(s.cost.path, "got %d, more than %s ever allows at once in an outage (%d), divided by local_processes", r.cost, s.path, l.MaxLocalCost())
		return
	}
	made := limit{l, s.class, s.path, s.badCredentials}
	key := limitKey{l.ID, l.Shadow}
	known, ok := p.known[key]
	if ok {
		switch {
		case known.hashed != is:
			p.problems.add(join(s.path, "name"), "has by chance the same hash as that of %s: choose another", known.made.path)
			return
		case byEndpoint:
			p.problems.add(s.path, "is the same limit as %s: give one of them another name", known.made.path)
			return
		case known.made.Rate != l.Rate || known.made.Spread != l.Spread:
			p.problems.add(s.path, "shares the count of %s, so it must have the same numbers", known.made.path)
			return
		case known.made.badCredentials != s.badCredentials:
			p.problems.add(s.path, "shares the count of %s, so it must have the same only_bad_credentials", known.made.path)
			return
		case known.made.OnError != l.OnError || known.made.LocalProcesses != l.LocalProcesses:
			p.problems.add(s.path, "shares the count of %s, so their rules must have the same on_error and local_processes", known.made.path)
			return
		}
		made.Limit = known.made.Limit
	} else {
		known = &identified{hashed: is, made: made, spread: s.spread, rule: s.rule}
		p.known[key], p.named[s.name] = known, append(p.named[s.name], known)
		if !p.labels[label] {
			p.labels[label], p.rules.labels = true, append(p.rules.labels, label)
		}
	}
	if s.cost != nil && r.cost > known.cost {
		known.cost, known.costPath = r.cost, s.cost.path
	}
	r.limits[s.tier] = append(r.limits[s.tier], made)
}

// spreads returns how a limit is spread: as the document says, or if it says nothing of a limit
// that is large, by adaptive shares if it is one of all callers, else by leases.
func (p *parser) spreads(path string, s limiter.Spread, r algo.Rate, global bool) limiter.Spread {
	if s != (limiter.Spread{}) || !p.large(r) {
		return s
	}
	note := fmt.Sprintf("more than %d requests a second, so on DynamoDB ", p.o.LeaseAbove)
	if global {
		s.Adaptive = true
		note += "each environment admits a share of it by its share of the demand: within 5 % of the limit in all, and some seconds of it more when demand rises (lease admits none too many)"
	} else if s.Lease = leases(r); s.Lease > 0 {
		note += fmt.Sprintf("it leases up to %d at once", s.Lease)
		if r.Algorithm == algo.TokenBucket { // what leaks from leases that many environments hold is lost
			note += ", which spares a bucket little: more than 1,000 requests a second throttle its item; a window leases well, and shards share a bucket"
		}
	} else {
		return s
	}
	p.rules.notes = append(p.rules.notes, Problem{path, note})
	return s
}

// processesField belongs to a rule, and fits its limits or not.
const processesField = "local_processes"

// unmade notes why a limit could not be made.
func (p *parser) unmade(path string, err error) {
	if field, ok := errors.AsType[*algo.FieldError](err); ok {
		p.problems.add(join(path, field.Field), "got %v, want %s", field.Got, field.Want)
	} else {
		p.problems.add(path, "%v", err)
	}
}
