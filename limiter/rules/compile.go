package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Options are the options of Parse. The zero value is valid.
type Options struct {
	// Version is the version of a document whose JSON has no field "version".
	Version int64
	// If Assigned is true, Version replaces the version in the document. Set it for documents that are
	// stored under a version.
	Assigned bool
	// RequireVersion makes a version of 0 a mistake. Set it if a store outlives the rules: states that were stored
	// under the rules of one version keep their numbers under other rules of this version.
	RequireVersion bool
	// LeaseAbove is a rate in requests a second. Parse sets the Spread of a limit above this rate, so that its item
	// needs fewer writes. A limit that counts all callers together gets Spread.Sync. Any other limit gets leases,
	// each for the requests of 10 ms. If the document sets lease, shards or sync_ms, the limit keeps its own
	// Spread. 0 disables LeaseAbove. Set LeaseAboveDynamoDB for a store in DynamoDB.
	LeaseAbove int64
	// Regions is the place of this process among the regions that share limits; see limiter.Options.Regions. Without
	// it, a limit that regions share is a mistake, because each region would admit the whole limit.
	Regions algo.Regions
	// OneRegion accepts such limits without Regions. This process then decides the whole limit. Set it for commands that
	// decide no requests, and for local runs. A limit must then fit two regions, and a note names the number of regions
	// that it does not fit.
	OneRegion bool
	// MaxDelay is the longest time for which a server delays a request (Decision.Delay). Parse
	// reduces the burst of leaky buckets to the requests that leave within MaxDelay. 0 means no
	// bound.
	MaxDelay time.Duration
	// Items has the sizes of limits in an item. Parse keeps the limits of a caller in one item if they fit. Set
	// dynamostore.Items for a store in DynamoDB, and for a document that every store accepts. nil means that an item
	// holds limits of any size.
	Items Items
	// Floor is added to the version of every limit; see Interventions.
	Floor int64
	// Now is the time of a check before the document comes into force. If it is set, a version more than
	// MaxVersionLead after it, in Unix seconds, is a mistake: every later version would have to be higher.
	Now time.Time
}

// MaxVersionLead is how far the version of a new document may be ahead of the clock.
const MaxVersionLead = 24 * time.Hour

// LeaseAboveDynamoDB is the LeaseAbove for DynamoDB: half of the writes that DynamoDB accepts for one
// item in a second.
const LeaseAboveDynamoDB = 500

// MaxBytes is the length of the longest document.
const MaxBytes = document.MaxBytes

// Problem is a mistake in a document or a note on it. Package document defines it.
type Problem = document.Problem

// Problems is the error type of Parse. Package document defines it.
type Problems = document.Problems

// Parse reads a document. An error is of type Problems and contains all mistakes.
func Parse(text []byte, o Options) (*Rules, error) {
	d := document.Parse(text)
	if most := o.Now.Add(MaxVersionLead).Unix(); !o.Now.IsZero() && d.Version > most {
		d.Report("version", "got %d, want at most %d, a day after the current time in Unix seconds; all later versions must be higher", d.Version,
			most)
	}
	c := newCompiler(d, o)
	c.compile()
	if o.RequireVersion && c.rules.version == 0 && d.Mistakes() == 0 {
		d.Report("version", "required: a number that grows with every change, such as the time in Unix seconds")
	}
	if problems := d.Problems(); len(problems) > 0 {
		return nil, problems
	}
	c.note()
	c.rules.notes = d.Notes()
	return c.rules, nil
}

// compiler builds Rules from a document.
type compiler struct {
	doc      *document.Document
	rules    *Rules
	specs    []*spec // all limits, in file order
	named    map[namedTier]bool
	tiers    map[hashed][]*spec // the same limit in every tier, by its values without the tier
	classes  map[string]int     // index in rules.classes, by the place of the class
	known    map[limitKey]*identified
	ids      map[limiter.ID]*spec // the first limit with an ID
	labels   map[string]bool      // the labels in rules.labels
	compared int                  // pairs of rules; see covering
}

// spec is a limit of the document with what the compiler finds out about it.
type spec struct {
	*document.Limit
	rule   int  // index in Rules.rules
	class  int  // index in Rules.classes
	joined bool // across_tiers: the limit keeps one count with that of other tiers
	is     hashed
	own    []algo.Rate // rates that overrides set for the limit
}

type limitKey struct {
	id     limiter.ID
	shadow bool
	tier   string // of a limit with across_tiers
}

func (s *spec) key(of *limiter.Limit) limitKey {
	k := limitKey{id: of.ID, shadow: of.Shadow}
	if s.joined {
		k.tier = s.Tier
	}
	return k
}

// hashed contains the values that are hashed to form the ID of a limit.
type hashed struct{ tier, name, per, endpoint, method string }

// identified is a compiled limit that one or several rules use.
type identified struct {
	limit
	cost     int64 // the highest cost that one of its rules charges
	costPath string
	constant *meter.Source // stands for a reserve that no body changes, beside a rule whose reserve a body changes; else nil
}

func newCompiler(d *document.Document, o Options) *compiler {
	if o.Items == nil {
		o.Items = unbounded{}
	}
	r := &Rules{spelling: newSpelling(d.Spelling), tiers: map[string]int{}, declared: d.Declared, version: o.Version,
		defaultTier: d.DefaultTier, options: o, named: map[string][]*identified{}, own: map[ownKey]*limiter.Limit{}, made: newMadeLimits()}
	r.refusal = d.Refusal
	if d.Version != 0 && !o.Assigned {
		r.version = d.Version
	}
	for i, tier := range d.Tiers {
		r.tiers[tier] = i
	}
	return &compiler{doc: d, rules: r, named: map[namedTier]bool{}, tiers: map[hashed][]*spec{}, classes: map[string]int{},
		known: map[limitKey]*identified{}, ids: map[limiter.ID]*spec{}, labels: map[string]bool{}}
}

func (c *compiler) compile() {
	before := c.doc.Mistakes()
	for i := range c.doc.Rules {
		c.rule(&c.doc.Rules[i])
	}
	c.joinTiers()
	c.assign(false)
	tooMany := !c.merge()
	c.place()
	horizons := c.horizons()
	for _, s := range c.specs {
		longest := time.Duration(0)
		for _, family := range c.rules.classes[s.class].families {
			longest = max(longest, horizons[family])
		}
		c.make(s, longest)
	}
	if !tooMany {
		c.applyOverrides(c.doc.Complete && c.doc.Mistakes() == before)
	}
	c.checkUsage()
	c.exempt()
	c.readCounts()
}

// rule adds a rule without its limits.
func (c *compiler) rule(r *document.Rule) {
	at, endpoints := len(c.rules.rules), `"*" or `+onePath
	if c.doc.Usage && at == len(c.doc.Rules)-1 { // this rule is the usage endpoint
		endpoints = onePath
	}
	compiled := rule{Rule: r, pattern: c.pattern(document.Join(r.Path, "endpoint"), r.Endpoint, endpoints), tiers: map[string][]limit{}}
	c.except(&compiled)
	compiled.call = c.isCall(&compiled)
	c.rules.calls = c.rules.calls || compiled.call
	c.rules.rules = append(c.rules.rules, compiled)
	c.rules.index.add(compiled.pattern, at)
	for i := range r.Limits {
		l := &r.Limits[i]
		c.checkParameters(l, compiled.pattern)
		l.Rate.Counts = l.Spread.Counts() || l.AcrossTiers || l.Rate.Regions != (algo.Regions{})
		if l.UpTo != nil {
			l.Rate.Of, l.Rate.Percent = l.Rate.Capacity(), 100
		}
		l.Name = cmp.Or(l.Name, compiled.pattern.name())
		s := &spec{Limit: l, rule: at}
		s.is = hashed{tier: s.Tier, name: s.Name, per: strings.Join(s.Per, " ")}
		if s.byEndpoint() {
			s.is.endpoint, s.is.method = compiled.pattern.text, r.Method
		}
		c.add(s)
	}
}

// except parses the endpoints that a rule leaves out.
func (c *compiler) except(r *rule) {
	for i, text := range r.Except {
		path := exceptPath(r, i)
		p := c.pattern(path, text, onePath)
		switch {
		case p.text == "" || r.pattern.text == "": // another check reports it
		case p.contains(r.pattern):
			c.doc.Report(path, "got %q, which leaves out every request of the rule", document.Shorten(text))
		case !r.pattern.contains(p):
			c.doc.Report(path, "got %q, want a path that the endpoint %s matches", document.Shorten(text), document.Shorten(r.Endpoint))
		}
		r.except = append(r.except, p)
	}
}

func exceptPath(r *rule, i int) string {
	return document.Join(r.Path, "except") + fmt.Sprintf("[%d]", i)
}

func (c *compiler) add(s *spec) {
	c.specs = append(c.specs, s)
	c.named[namedTier{s.rule, s.Tier}] = true
}

// checkParameters reports a path parameter in per or from that the endpoint of the rule does not have.
func (c *compiler) checkParameters(l *document.Limit, p pattern) {
	words := l.Per
	if l.From != nil && l.From.Parameter != "" {
		words = append(slices.Clip(words), document.PerPath+l.From.Parameter)
	}
	for i, word := range words {
		name, ok := strings.CutPrefix(word, document.PerPath)
		if !ok || p.text == "" { // another check reports the endpoint
			continue
		}
		n := len(p.names) - len(slices.DeleteFunc(slices.Clone(p.names), func(known string) bool { return known == name }))
		if n == 1 {
			continue
		}
		field, meant := "per", ""
		if i == len(l.Per) {
			field = "from.by"
		}
		if n == 0 {
			meant = strings.Replace(document.DidYouMean(name, p.names), `"`, `"`+document.PerPath, 1)
		}
		c.doc.Report(l.Path+"."+field, "got %s, want a parameter that occurs once in the endpoint %s (it occurs %d times)%s", word,
			document.Shorten(p.text), n, meant)
	}
	if l.From == nil || l.From.Parameter == "" || !c.doc.Spelling.IgnoreCase {
		return
	}
	for _, value := range slices.Sorted(maps.Keys(l.From.Weights)) {
		if lower := folded(value); value != lower {
			c.doc.Report(document.Join(l.Path+".from.prices", value), "got capital letters, want %q: with ignore_case, a value of the path has none",
				document.Shorten(lower))
		}
	}
}

func (s *spec) byEndpoint() bool { return slices.Contains(s.Per, document.PerEndpoint) }

// These constants bound an endpoint.
const (
	maxEndpoint = 1024 // bytes
	maxSegments = 32
)

// onePath describes an endpoint other than "*", for messages.
const onePath = "a path that begins with /"

// pattern parses the endpoint at a path of the document. The text want describes the allowed endpoints in an error message.
func (c *compiler) pattern(path, text, want string) (p pattern) {
	switch shown := document.Shorten(text); {
	case text == "": // empty; another check reports an endpoint that is missing or not a string
		if !c.doc.Mistaken(path) {
			c.doc.Report(path, `got "", want %s`, want)
		}
	case text != "*" && !strings.HasPrefix(text, "/"):
		c.doc.Report(path, "got %q, want %s", shown, want)
	case len(text) > maxEndpoint:
		c.doc.Report(path, "got %d bytes, want at most %d", len(text), maxEndpoint)
	case strings.ContainsAny(text, "?#"):
		c.doc.Report(path, "got %q, want a path without query and fragment", shown)
	default:
		var problem string
		p, problem = parsePattern(text)
		if problem != "" {
			c.doc.Report(path, "got %q, %s", shown, problem)
		} else if n := len(p.segments); n > maxSegments {
			c.doc.Report(path, "got %d segments, want at most %d", n, maxSegments)
		} else if separated := c.rules.spelling.separate(text); separated != text {
			c.doc.Report(path, "got %q, which no path matches with ignore_parameters or backslash_is_slash; want %s", shown,
				document.Shorten(separated))
		}
		if c.doc.Spelling.IgnoreCase {
			for i, segment := range p.segments {
				p.segments[i] = folded(segment)
			}
		}
	}
	return p
}

// horizons maps the key of a subject to its longest horizon, the time for which a store keeps the state of a limit. A
// limit by client counts in the subjects of users, API keys and addresses.
func (c *compiler) horizons() map[string]time.Duration {
	longest := map[string]time.Duration{}
	for _, s := range c.specs {
		most := horizon(s.Rate)
		for _, r := range s.own {
			most = max(most, horizon(r))
		}
		for _, family := range c.rules.classes[s.class].families {
			longest[family] = max(longest[family], most)
		}
	}
	return longest
}

// horizon returns how long a store keeps the state of a limit with this rate. It returns 0 if the rate
// is invalid.
func horizon(r algo.Rate) time.Duration {
	machine, err := algo.New(r)
	if err != nil {
		return 0
	}
	return machine.Horizon()
}

func (c *compiler) class(one class) int {
	place := one.place()
	i, ok := c.classes[place]
	if !ok {
		i = len(c.rules.classes)
		c.rules.classes, c.classes[place] = append(c.rules.classes, one), i
	}
	return i
}
