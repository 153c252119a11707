package rules

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Bounds of what a document holds.
const (
	maxRules    = 1000
	maxTiers    = 1000
	maxEndpoint = 1024 // bytes
	maxSegments = 32
	maxPer      = 6 // a subject of as many claims is still a key to DynamoDB
)

// Options of Parse.
type Options struct {
	// Version is that of a document which does not say its own.
	Version int64
	// Assigned says that Version goes before what the document says, for documents that are
	// kept under versions.
	Assigned bool
	// LeaseAbove is the rate in requests a second above which a limit spares its item, unless
	// the document says how it is spread: one of all callers by adaptive shares, another one by
	// leases of a hundredth of a second's requests. 0 means
	// never. For DynamoDB it is LeaseAboveDynamoDB.
	LeaseAbove int64
	// MaxDelay is how long whoever honours Decision.Delay waits at most: leaky buckets
	// are no deeper than what leaves in that time. 0 leaves them as they are.
	MaxDelay time.Duration
}

// LeaseAboveDynamoDB is half of the writes that one item takes in a second.
const LeaseAboveDynamoDB = 500

// Parse reads a document. The error is of type Problems: all mistakes at once.
func Parse(document []byte, o Options) (*Rules, error) {
	p := newParser(o)
	root, err := tree(document, &p.problems)
	if err != nil {
		return nil, Problems{{Message: err.Error()}}
	}
	p.document(root)
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	if p.shadow {
		p.rules.notes = append(p.rules.notes, Problem{"mode", "is shadow: the document enforces nothing"})
	}
	p.noteTiers()
	return p.rules, nil
}

// parser builds Rules from nodes.
type parser struct {
	o         Options
	rules     *Rules
	problems  Problems
	shadow    bool // the whole document is tried out
	overrides []override
	classes   map[string]int // index in rules.classes, by key
	known     map[limitKey]*identified
	named     map[string][]*identified // in file order
	labels    map[string]bool          // of rules.labels
}

func newParser(o Options) *parser {
	return &parser{
		o: o, rules: &Rules{tiers: map[string]bool{}, version: o.Version}, classes: map[string]int{},
		known: map[limitKey]*identified{}, named: map[string][]*identified{}, labels: map[string]bool{},
	}
}

// limitKey tells limits apart.
type limitKey struct {
	id     limiter.ID
	shadow bool
}

// hashed is what the ID of a limit is the hash of.
type hashed struct{ tier, name, per, endpoint, method string }

// identified is a limit that was made, for one rule or several.
type identified struct {
	hashed
	made     limit
	spread   limiter.Spread // as the document has it
	rule     int            // the first that has it
	cost     int64          // the highest of the rules, and where it stands
	costPath string
}

// mistaken reports whether there are more problems than there were. Where no more are
// noted, there may be.
func (p *parser) mistaken(before int) bool {
	return len(p.problems) > before || len(p.problems) > mostProblems
}

func (p *parser) document(root *node) {
	o := root.object(&p.problems)
	if n := o.member("$schema"); n != nil {
		o.text(n)
	}
	list := o.required("rules")
	tier := o.member("default_tier")
	p.shadow = o.choice("mode", modes) == modeShadow
	if version, ok := o.whole(o.member("version"), limiter.MaxVersion); ok && !p.o.Assigned {
		p.rules.version = version
	}
	overrides := o.member("overrides")
	o.done()
	p.readOverrides(overrides)
	before := len(p.problems)
	if list != nil && list.kind != isList {
		p.problems.add(list.path, "got %s, want a list", list)
	} else if list != nil {
		p.list(list.items)
	}
	whole := list != nil && !p.mistaken(before)
	p.defaultTier(o, tier)
	p.applyOverrides(whole)
}

const modeShadow = "shadow"

var modes = []string{"enforce", modeShadow}

// noteTiers notes which tiers a rule leaves without a limit, the first of them by name.
func (p *parser) noteTiers() {
	tiers := p.rules.Tiers()
	for i := range p.rules.rules {
		r := &p.rules.rules[i]
		_, others := r.limits[otherTiers]
		_, global := r.limits[globalKey]
		missing := len(tiers) - len(r.limits)
		if global {
			missing++
		}
		if others || missing == 0 || global && len(r.limits) == 1 {
			continue
		}
		p.rules.notes = append(p.rules.notes, Problem{join(r.path, "limits"), "callers of tier " + r.without(tiers, missing) + " have no limit of their own here"})
	}
}

// without lists the tiers that have no limit, of which there are missing.
func (r *rule) without(tiers []string, missing int) string {
	const most = 10
	var words []string
	for _, tier := range tiers {
		if _, ok := r.limits[tier]; ok {
			continue
		}
		if words = append(words, tier); len(words) == most && missing > most {
			return strings.Join(words, ", ") + " and " + strconv.Itoa(missing-most) + " more"
		}
	}
	return anyOf(words)
}

func (p *parser) list(items []*node) {
	if len(items) > maxRules {
		p.problems.add("rules", "has %d rules, at most %d are allowed", len(items), maxRules)
		items = nil
	}
	var specs []spec
	for _, item := range items {
		specs = append(specs, p.rule(item)...)
	}
	if n := len(p.rules.tiers); n > maxTiers {
		p.problems.add("rules", "have %d tiers, at most %d are allowed", n, maxTiers)
		return
	}
	p.place(specs)
	horizons := p.horizons(specs)
	for _, s := range specs {
		longest := time.Duration(0)
		for _, family := range p.rules.classes[s.class].families {
			longest = max(longest, horizons[family])
		}
		p.make(s, longest)
	}
}

// defaultTier reads the tier of callers that have none.
func (p *parser) defaultTier(o *object, n *node) {
	p.rules.defaultTier = "free"
	name, ok := o.text(n)
	if !ok {
		return
	}
	p.rules.defaultTier = name
	if !p.rules.tiers[name] {
		known := "the document has no tiers"
		if tiers := p.rules.Tiers(); len(tiers) > 0 {
			known = "want " + anyOf(tiers)
		}
		p.problems.add(n.path, "got %s, which no rule names: %s", n, known)
	}
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// rule reads a rule, and returns what is to become its limits.
func (p *parser) rule(n *node) []spec {
	o := n.object(&p.problems)
	r := rule{path: n.path, cost: 1, limits: map[string][]limit{}}
	if endpoint := o.required("endpoint"); endpoint != nil {
		if text, ok := o.text(endpoint); ok {
			r.pattern = p.endpoint(endpoint.path, text)
		}
	}
	if method := o.member("method"); method != nil {
		r.method = p.method(o, method)
	}
	r.name = r.pattern.name()
	limits := o.required("limits")
	cost := o.member("cost")
	if i, ok := o.whole(cost, algo.MaxRequests); ok {
		r.cost = i
	}
	r.shadow = o.choice("mode", modes) == modeShadow || p.shadow
	r.onError, r.localProcesses = p.onError(o)
	o.done()
	p.rules.rules = append(p.rules.rules, r)
	p.rules.index.add(r.pattern, len(p.rules.rules)-1)
	if limits == nil {
		return nil
	}
	return p.limits(limits, len(p.rules.rules)-1, cost)
}

// onErrors are the words of on_error; the first is that of a rule which has none.
var onErrors = []string{limiter.OnErrorLocal.String(), limiter.OnErrorAllow.String(), limiter.OnErrorDeny.String()}

// onError reads what becomes of a rule's requests while the store fails.
func (p *parser) onError(o *object) (limiter.OnError, int) {
	policy := limiter.OnErrorLocal
	switch o.choice("on_error", onErrors) {
	case limiter.OnErrorDeny.String():
		policy = limiter.OnErrorDeny
	case limiter.OnErrorAllow.String():
		policy = limiter.OnErrorAllow
	}
	n := o.member(processesField)
	processes, ok := o.whole(n, limiter.MaxCells)
	switch {
	case policy != limiter.OnErrorLocal && n != nil:
		p.problems.add(n.path, `only has an effect with "on_error": "local"`)
		return policy, 0
	case policy != limiter.OnErrorLocal:
		return policy, 0
	case !ok:
		processes = 1
	}
	return policy, int(processes)
}

func (p *parser) endpoint(path, text string) pattern {
	if text != "*" && !strings.HasPrefix(text, "/") {
		p.problems.add(path, `got %q, want "*" or a path that begins with /`, shorten(text))
		return pattern{}
	}
	if len(text) > maxEndpoint {
		p.problems.add(path, "has %d bytes, at most %d are allowed", len(text), maxEndpoint)
		return pattern{}
	}
	if strings.ContainsAny(text, "?#") {
		p.problems.add(path, "got %q: a query or a fragment is no part of a path", shorten(text))
		return pattern{}
	}
	pattern, problem := parsePattern(text)
	if problem != "" {
		p.problems.add(path, "got %q: %s", shorten(text), problem)
	} else if n := len(pattern.segments); n > maxSegments {
		p.problems.add(path, "has %d segments, at most %d are allowed", n, maxSegments)
	}
	return pattern
}

func (p *parser) method(o *object, n *node) string {
	method, ok := o.text(n)
	switch {
	case !ok || slices.Contains(methods, method):
	case method == http.MethodOptions:
		p.problems.add(n.path, "OPTIONS is never limited: leave the method out for all others")
	case method == http.MethodHead:
		p.problems.add(n.path, "HEAD counts as GET: write GET")
	default:
		p.problems.add(n.path, "got %s, want %s, or no method for all of them", n, anyOf(methods))
	}
	return method
}

var validTier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// limits reads the limits of a rule by tier.
func (p *parser) limits(n *node, rule int, cost *node) (specs []spec) {
	n.object(&p.problems)
	if n.kind == isObject && len(n.members) == 0 {
		p.problems.add(n.path, `is empty, want a tier, "*" or "global"`)
	}
	for _, m := range n.members {
		switch {
		case m.key == otherTiers || m.key == globalKey:
		case validTier.MatchString(m.key):
			p.rules.tiers[m.key] = true
		default:
			p.problems.add(m.node.path, `is no tier: want letters, digits, "_", "." and "-", or "*" or "global"`)
		}
		nodes := []*node{m.node}
		if m.node.kind == isList {
			nodes = m.node.items
			if len(nodes) == 0 {
				p.problems.add(m.node.path, "is empty: leave the tier out, or give it a limit")
			}
		}
		for _, one := range nodes {
			if s, ok := p.limit(one, rule, m.key, m.node.kind == isList); ok {
				s.cost = cost
				specs = append(specs, s)
			}
		}
	}
	return specs
}
