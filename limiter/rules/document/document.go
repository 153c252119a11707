package document

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
)

// These constants bound a document.
const (
	maxRules     = 1000
	maxTiers     = 1000
	maxLimits    = 5000 // limits of all rules together; they bound the memory of the compiled rules
	maxOverrides = 10_000
	maxPer       = 6 // words of the field per; a subject of six claims still fits a DynamoDB key
)

// These keys of a rule's limits are not names of tiers.
const (
	OtherTiers = "*"
	Global     = "global"
)

// standardTier is the default tier of a document without default_tier. A document may also name it if no
// rule has limits for it.
const standardTier = "free"

// Document is a parsed document. It lacks the values that have mistakes.
type Document struct {
	Version     int64 // 0 if the document has no version
	DefaultTier string
	Shadow      bool
	Tiers       []string // the declared tiers or, without a declaration, those that rules name; in file order
	Declared    bool     // the document has a valid member "tiers"
	Rules       []Rule
	Overrides   []Override
	Exempt      []Exemption
	Usage       bool // the last rule is the usage endpoint
	Spelling    Spelling
	Refusal     string // RefusalProblem, RefusalOpenAI or RefusalJSONRPC
	// Complete reports whether all limits of all rules were read without a mistake.
	Complete bool

	paths  meter.Paths
	shared bool // regions share the limits that do not say otherwise
	report report
}

// Spelling contains how the back end of an API reads paths, beyond what Weir assumes of every back end.
type Spelling struct {
	IgnoreCase       bool // /Search is /search
	IgnoreSuffix     bool // /search.json is /search
	IgnoreParameters bool // /search;v=1 is /search
	BackslashIsSlash bool // /a\b is /a/b
}

// Rule is a rule of a document.
type Rule struct {
	Path           string   // place in the document, such as "rules[2]"
	Endpoint       string   // not validated yet; "" if it is missing
	Headers        []Field  // header fields that a request must have, by name
	Except         []string // endpoints that the rule leaves out, not validated yet
	Method         string   // "" means any method
	Cost           int64
	Refusal        string // "" means that of the document
	Shadow         bool   // also true if the whole document is in shadow mode
	OnError        limiter.OnError
	LocalProcesses int // 0 unless OnError is OnErrorLocal
	Limits         []Limit
	Tiers          []string // keys of Limits in file order, including those whose limits have mistakes
}

// Parse reads a document and never returns nil. [Document.Problems] returns the mistakes.
func Parse(text []byte) *Document {
	d := &Document{DefaultTier: standardTier, report: report{text: text}}
	if len(text) > MaxBytes {
		d.report.add("", "got a document of %d bytes, want at most %d", len(text), MaxBytes)
		return d
	}
	s, root := scan(text)
	if s.mistake != "" {
		d.report.syntax(s)
		return d
	}
	d.report.root = root
	for _, n := range s.duplicates {
		d.report.at(n, "got the same name twice in one object")
	}
	d.read(root)
	return d
}

// Report adds a mistake that a caller of Parse found.
func (d *Document) Report(path, format string, args ...any) { d.report.add(path, format, args...) }

// Problems returns the mistakes of the document in file order, or nil if the document is valid.
func (d *Document) Problems() Problems { return d.report.mistakes() }

// Mistaken reports whether the value at a path has a reported mistake.
func (d *Document) Mistaken(path string) bool {
	return slices.ContainsFunc(d.report.found, func(l located) bool { return l.Path == path })
}

// Mistakes returns the number of mistakes found so far.
func (d *Document) Mistakes() int { return len(d.report.found) }

// Full reports whether the document has more mistakes than Problems returns.
func (d *Document) Full() bool { return d.report.more }

// Note adds a note: the value is valid, but its effect may surprise the document's author.
func (d *Document) Note(path, format string, args ...any) {
	d.report.notes = append(d.report.notes, d.report.locate(path, fmt.Sprintf(format, args...)))
}

// Notes returns the notes in file order.
func (d *Document) Notes() Problems { return problems(d.report.notes) }

// These are the forms of the body of a refusal; see package httplimit.
const (
	RefusalProblem = "problem" // the default
	RefusalOpenAI  = "openai"
	RefusalJSONRPC = "json-rpc"
)

var refusals = []string{RefusalProblem, RefusalOpenAI, RefusalJSONRPC}

const modeShadow = "shadow"

// maxExcept bounds the endpoints that one rule leaves out.
const maxExcept = 100

var modes = []string{"enforce", modeShadow}

func (o *object) readMode() string {
	return o.choose(o.member("mode"), modes, map[string]string{modeMark: `; "mark" is a mode of a limit`})
}

func (d *Document) read(root *node) {
	o := root.object(&d.report)
	o.text(o.member("$schema"))
	list := o.required("rules")
	tiers, tier := o.member("tiers"), o.member("default_tier")
	d.Shadow = o.readMode() == modeShadow
	d.Version, _ = o.whole(o.member("version"), limiter.MaxVersion)
	d.shared = o.choice("regions", regions) == regionsShared
	d.Spelling = Spelling{o.truth("ignore_case"), o.truth("ignore_suffix"), o.truth("ignore_parameters"), o.truth("backslash_is_slash")}
	d.Refusal = cmp.Or(o.choice("refusal", refusals), RefusalProblem)
	overrides, exempt, usage := o.member("overrides"), o.member("exempt"), o.member("usage")
	o.done()
	if tiers != nil {
		d.readTiers(tiers)
	}
	before := d.Mistakes()
	if list != nil {
		d.readRules(list)
	}
	if usage != nil {
		d.readUsage(usage)
	}
	d.Complete = list != nil && d.Mistakes() == before && !d.report.more
	d.readDefaultTier(o, tier)
	if overrides != nil {
		d.readOverrides(overrides)
	}
	if exempt != nil {
		d.readExemptions(exempt)
	}
}

func (d *Document) readRules(n *node) {
	var tiers []string
	limits := 0
	for _, item := range d.values(n, 0, maxRules, "rules", `[{"endpoint": "*", "limits": {}}]`) {
		r := d.readRule(item)
		limits += len(r.Limits)
		if limits > maxLimits {
			d.report.at(item, "got more than %d limits in the rules up to this one, want at most %d in a document", maxLimits, maxLimits)
			d.Rules = nil
			return
		}
		named := r.Tiers
		for i := range r.Limits {
			for _, p := range r.Limits[i].UpTo {
				named = append(named, p.Tier)
			}
		}
		for _, tier := range named {
			if tier != OtherTiers && tier != Global && !slices.Contains(tiers, tier) {
				tiers = append(tiers, tier)
			}
		}
		d.Rules = append(d.Rules, r)
	}
	if !d.Declared {
		d.Tiers = tiers
	}
	if len(tiers) > maxTiers {
		d.report.at(n, "got %d tiers, want at most %d", len(tiers), maxTiers)
		d.Rules = nil
	}
}

func (d *Document) readTiers(n *node) {
	before := d.Mistakes()
	for _, item := range d.values(n, 1, maxTiers, "tiers", `["free", "paid"]`) {
		name, ok := item.value.(string)
		switch {
		case !ok || !isTier(name) || name == Global:
			d.report.at(item, `got %s, want a tier: letters, digits, "_", "." and "-", but not "global"`, item)
		case slices.Contains(d.Tiers, name):
			d.report.at(item, "got %s twice", item)
		default:
			d.Tiers = append(d.Tiers, name)
		}
	}
	d.Declared = d.Mistakes() == before && !d.report.more
}

func (d *Document) readDefaultTier(o *object, n *node) {
	name, ok := o.text(n)
	switch {
	case n == nil && d.Declared && !d.hasTier(standardTier):
		d.report.add("default_tier", `required, because "tiers" does not have %q, the default: %s`, standardTier, WantTier(d.Tiers, true))
	case !ok:
	case d.hasTier(name) || name == standardTier && !d.Declared:
		d.DefaultTier = name
	case len(d.Tiers) == 0:
		d.report.at(n, "got %s, but no rule names a tier", n)
	default:
		d.report.at(n, "got %s, %s%s", n, WantTier(d.Tiers, d.Declared), DidYouMean(name, d.Tiers))
	}
}

func (d *Document) hasTier(name string) bool {
	has := slices.Contains(d.Tiers, name)
	return has
}

// WantTier returns the part of a message that lists the tiers of a document.
func WantTier(tiers []string, declared bool) string {
	of := "a tier that a rule names"
	if declared {
		of = `a tier of "tiers"`
	}
	return fmt.Sprintf("want %s: %s", of, AnyOf(tiers[:min(20, len(tiers))]))
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (d *Document) readRule(n *node) Rule {
	o := n.object(&d.report)
	r := Rule{Path: n.path(), Cost: 1}
	r.Endpoint, _ = o.text(o.required("endpoint"))
	if except := o.member("except"); except != nil {
		for _, item := range d.values(except, 1, maxExcept, "endpoints", `["/health"]`) {
			endpoint, _ := o.text(item)
			r.Except = append(r.Except, endpoint)
		}
	}
	r.Headers = d.readHeaders(o.member("headers"))
	r.Method = o.choose(o.member("method"), methods, methodHints)
	limits := o.required("limits")
	if cost, ok := o.whole(o.member("cost"), algo.MaxRequests); ok {
		r.Cost = cost
	}
	r.Shadow = o.readMode() == modeShadow || d.Shadow
	r.Refusal = o.choice("refusal", refusals)
	r.OnError, r.LocalProcesses = d.readOnError(o)
	o.done()
	if limits != nil {
		d.readLimits(limits, &r)
	}
	return r
}

// methodHints are the ends of messages about methods that a rule can not name.
var methodHints = map[string]string{
	http.MethodOptions: "; OPTIONS counts by the method that a preflight asks for", http.MethodHead: "; GET includes HEAD",
}

// onErrors are the values of on_error; the first is the default.
var onErrors = []string{limiter.OnErrorLocal.String(), limiter.OnErrorAllow.String(), limiter.OnErrorDeny.String()}

// LocalProcesses is the name of a rule's field: the number of processes that divide the rule's limits
// in an outage.
const LocalProcesses = "local_processes"

// readOnError reads how a rule decides in an outage.
func (d *Document) readOnError(o *object) (policy limiter.OnError, processes int) {
	switch o.choice("on_error", onErrors) {
	case limiter.OnErrorDeny.String():
		policy = limiter.OnErrorDeny
	case limiter.OnErrorAllow.String():
		policy = limiter.OnErrorAllow
	}
	n := o.member(LocalProcesses)
	i, _ := o.whole(n, limiter.MaxLocalProcesses)
	if policy == limiter.OnErrorLocal {
		return policy, max(1, int(i))
	}
	if n != nil {
		d.report.at(n, `requires "on_error": "local"`)
	}
	return policy, 0
}

func (d *Document) readLimits(n *node, r *Rule) {
	o := n.objectLike(&d.report, `{"*": {"requests": 100, "window": "1m"}}, which has limits by tier`)
	if o.has("requests") {
		d.report.at(n, `got a limit, want limits by tier, such as {"*": {"requests": 100, "window": "1m"}}`)
		return
	}
	if n.kind == isObject && len(n.children) == 0 {
		d.report.at(n, `got an empty object, want a tier, "*" or "global"`)
	}
	for _, m := range n.members() {
		switch {
		case d.report.more: // the check below would compare many names
		case m.key == OtherTiers || m.key == Global || isTier(m.key) && (!d.Declared || d.hasTier(m.key)):
			r.Tiers = append(r.Tiers, m.key)
		case isTier(m.key):
			d.report.at(m, `got %q, %s; or "*" or "global"%s`, m.key, WantTier(d.Tiers, true),
				DidYouMean(m.key, append([]string{Global}, d.Tiers...)))
		default:
			d.report.at(m, `invalid tier, want letters, digits, "_", "." and "-", or "*" or "global"`)
		}
		nodes, inList := []*node{m}, m.kind == isList
		if inList {
			nodes = m.children
			switch {
			case len(nodes) == 0:
				d.report.at(m, "got an empty list, want a limit; leave out a tier that has no limit")
			case len(nodes) > maxLimits:
				d.report.at(m, "got %d limits, want at most %d in a document", len(nodes), maxLimits)
				return
			}
		}
		for _, one := range nodes {
			if l, ok := d.readLimit(one, m.key, inList); ok {
				r.Limits = append(r.Limits, l)
			}
		}
	}
}

// readUsage reads the endpoint at which callers get their usage. It adds a rule for this endpoint as the
// last rule.
func (d *Document) readUsage(n *node) {
	o := n.objectLike(&d.report, `{"endpoint": "/usage", "limit": {"requests": 60, "window": "1m"}}`)
	r := Rule{Path: n.path(), Method: http.MethodGet, Cost: 1, LocalProcesses: 1, Tiers: []string{OtherTiers}}
	r.Endpoint, _ = o.text(o.required("endpoint"))
	limit := o.required("limit")
	o.done()
	if limit == nil {
		return
	}
	l, ok := d.readLimit(limit, OtherTiers, false)
	if l.Mark {
		d.report.add(Join(l.Path, "mode"), `got "mark", want "enforce": nothing else limits the usage endpoint`)
	}
	if !ok {
		return
	}
	r.Limits = []Limit{l}
	d.Rules, d.Usage = append(d.Rules, r), true
}
