package rules

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Selection is what rules select for a request.
type Selection struct {
	// Charges are the charges of the request, in file order.
	Charges []limiter.Charge
	// Metered has the charges whose cost or reserve is in the bodies of the request and its answer.
	Metered []Metered
	// Tier is the tier that selected the limits.
	Tier string
	// Exemption is the exemption that applies to the request. The request then has no charges. It is
	// nil if the request is not exempt.
	Exemption *Exemption
	// Blocked is the block of the caller. The request then has no charges, and must be refused. It is nil if the caller is
	// not blocked.
	Blocked *Intervention
	// Ignored is the reason why numbers in the record of the API key are ignored. The limits of the document
	// then apply. It is nil if there is no such reason.
	Ignored error
	// Uncounted is a claim by which a limit counts and that has a form that cannot count, or more values than count; see
	// caller.Claims. The limit does not charge the request by these values. It is "" if there is no such claim.
	Uncounted string
	// Usage returns the result of Own, if the request is for the usage endpoint. Otherwise it is nil.
	Usage func() (list []Listed, complete bool)
	// Malformed reports that a router could read the path in a way that the rules cannot; PATHS.md lists these paths.
	// Such a request must be refused.
	Malformed bool
	// Mistake is another reason why the request must be refused with 400; nil if there is none.
	Mistake *Mistake
	// Call reports that the rules depend on the method and the name in the body of an MCP request. If Mcp-Method and
	// Mcp-Name can differ from it, they must be set to it, and Select called again.
	Call bool
	// Tried reports that only rules in shadow depend on it: then no body is a reason to refuse the request.
	Tried bool
	// Refusal is the form of the body, if the request is refused: RefusalProblem, RefusalOpenAI or RefusalJSONRPC. It is
	// that of the first rule for the request that has one, or else of the document.
	Refusal string
	// Unmatched reports that no rule applies to the request. It is false for an exempt request, and for a
	// malformed path.
	Unmatched bool
}

// Metered is a charge of a rule on a limit whose cost or reserve is in the bodies of a request and its answer, also by another of
// its rules.
type Metered struct {
	Limit  *limiter.Limit
	Source *meter.Source
	Value  string // of the path parameter Source.Parameter
	Least  int64  // the reserve of the rule, if no body changes it; Source.MostReserve is 0 then
}

// Select returns what the rules select for a request, and appends its charges to dst.
//
// - The request charges the limits of the rules that match any reading of its path.
// - A request with a malformed path charges, like a rejected credential, the limits by address of the rules for
// every path.
// - HEAD counts as GET. OPTIONS counts like any method: a preflight that nobody has answered can run a function.
// - A rule that the readings of a path charge with more than maxValues values of its parameters makes it malformed.
// - If the caller lacks an identity by which a limit counts, the request does not charge that limit.
// - A request with a rejected credential charges only limits by address.
// - A limit with the field "only" charges only the requests that this field selects. bad_credentials selects those of every
// method, because a credential can be guessed with any.
func (r *Rules) Select(dst []limiter.Charge, q Request) Selection {
	return r.choose(dst, &q, nil)
}

// choose is Select. It adds the readings of the path and the matched rules to e, unless e is nil.
func (r *Rules) choose(dst []limiter.Charge, q *Request, e *Explanation) Selection {
	q.Method = strings.ToUpper(q.Method) // Flask and Django serve get like GET
	if r.interventions != nil {
		if block := r.blocked(q); block != nil {
			return Selection{Charges: dst, Tier: r.Tier(q.Caller.Tier), Blocked: block, Refusal: r.refusal}
		}
	}
	var one [1]reading
	var buffer [16]int
	var matched []int
	paths, ok := r.spelling.readings(one[:0], q.Path)
	if ok {
		if e != nil {
			e.read(paths)
		}
		matched = r.index.match(buffer[:0], paths...)
	} else {
		q.Caller = caller.Caller{IP: q.Caller.IP, Rejected: true}
		matched, paths = r.index.below, []reading{{}}
	}
	s := Selection{Charges: dst, Tier: r.TierOf(&q.Caller), Malformed: !ok, Refusal: r.refusalOf(q, matched)}
	if len(r.exempt.list) > 0 {
		s.Exemption = r.exempt.of(q, paths)
	}
	if r.usage && r.asksUsage(q, matched) && r.isUsage(paths) {
		own := *q // the closure gets a copy, so that the request itself is not allocated on the heap
		s.Usage = func() ([]Listed, bool) { return r.Own(own) }
		last := len(matched) - 1 // the last rule is the usage endpoint; the request charges only its limit
		if e != nil {
			for _, i := range matched[:last] {
				e.add(&r.rules[i], "the usage endpoint charges only its own limit")
			}
		}
		matched = matched[last:]
	}
	c := charger{rules: r, charges: dst, exemption: s.Exemption, explanation: e}
	c.charge(q, matched, paths)
	if c.crowded {
		q.Path = Path{noPath: true}
		if e != nil {
			*e = Explanation{}
		}
		return r.choose(dst, q, e)
	}
	s.Charges, s.Metered, s.Ignored, s.Uncounted = c.charges, c.metered, c.ignored, c.uncounted
	s.Unmatched = ok && s.Exemption == nil && len(s.Charges) == len(dst) && !c.fields.applies
	s.Call, s.Tried = c.fields.call, c.fields.call && !c.fields.enforced
	if r.calls || c.fields.malformed { // without rules for calls, no call is unlisted
		s.Mistake = c.fields.mistake(q)
	}
	return s
}

// asksUsage reports whether a request asks for the usage of its caller. matched are the indexes of the rules that
// match its path. A request with a bad credential is not answered with the usage. It is charged like any other
// request.
func (r *Rules) asksUsage(q *Request, matched []int) bool {
	get := q.Method == http.MethodGet || q.Method == http.MethodHead
	return get && !q.Caller.Rejected && slices.Contains(matched, len(r.rules)-1)
}

// isUsage reports whether all readings of a path are the usage endpoint.
func (r *Rules) isUsage(paths []reading) bool {
	p := &r.rules[len(r.rules)-1].pattern
	return !slices.ContainsFunc(paths, func(r reading) bool { return !p.matches(r) })
}

// Charges returns the Charges of Select.
func (r *Rules) Charges(dst []limiter.Charge, method string, path Path, caller caller.Caller) []limiter.Charge {
	return r.Select(dst, Request{Method: method, Path: path, Caller: caller}).Charges
}

// maxValues bounds the items that one request writes for the readings of its path: each value of a path parameter is a
// subject of its own.
const maxValues = 4

// charger collects the charges of one request. It does not contain the request, because the request would
// then be allocated on the heap.
type charger struct {
	rules       *Rules
	charges     []limiter.Charge
	from        int
	metered     []Metered // see Selection
	fields      choice
	exemption   *Exemption         // see Selection
	ignored     error              // see Selection
	uncounted   string             // see Selection
	subjects    [8]limiter.Subject // subject by index of the class; set at the first use
	explanation *Explanation       // gets the matched rules and their limits; nil if the charges are not explained
	other       bool               // the rule has another method, so only a bad credential counts
	again       bool               // an earlier reading of the path matches the same rule
	charged     bool               // the rule charges a limit for the reading, also one that an earlier rule charged
	crowded     bool               // a rule has charges for more than maxValues values of its parameters
}

// charge adds the charges of a request. matched are the indexes of the rules whose endpoint matches one of the readings
// of the path, and paths are the readings. charge also sets q.Caller.Tier.
func (c *charger) charge(q *Request, matched []int, paths []reading) {
	q.Caller.Tier = c.rules.TierOf(&q.Caller)
	c.from = len(c.charges)
	for _, i := range matched {
		rule := &c.rules.rules[i]
		if c.explanation != nil {
			c.explanation.match(rule, q, c.exemption, paths)
		}
		c.other = !rule.accepts(q.Method)
		if c.exemption != nil || c.other && !q.Caller.Rejected || rule.excepts(paths) != "" || !c.other && !c.fields.add(rule, q, paths) {
			continue
		}
		limits := rule.of(q.Caller.Tier)
		c.again = false
		values := 0
		for i := range paths {
			if c.reads(q, rule, paths, i) {
				before := len(c.charges)
				c.charged = false
				c.add(q, limits[0])
				c.add(q, limits[1])
				c.again = true
				if c.charged && c.rules.calls {
					c.fields.charged(rule, paths, i)
				}
				if len(c.charges) > before {
					values++
				}
			}
		}
		c.crowded = c.crowded || values > maxValues
	}
}

// reads reports whether a reading of the path matches a rule, and sets q.path to it. A single reading matches.
func (c *charger) reads(q *Request, r *rule, paths []reading, i int) bool {
	q.path = paths[i]
	if len(paths) == 1 {
		return true
	}
	c.subjects = [8]limiter.Subject{} // a subject can contain a part of the path
	return r.pattern.matches(q.path)
}

// add charges limits. A limit by claims that are lists counts each of their elements.
func (c *charger) add(q *Request, limits []limit) {
	for i := range limits {
		l := &limits[i]
		if c.other && l.Only != document.OnlyBadCredentials {
			continue
		}
		elements, uncounted := 1, ""
		if class := &c.rules.classes[l.class]; class.claims && !q.Caller.Rejected {
			elements, uncounted = class.elements(q)
		}
		c.uncounted = cmp.Or(c.uncounted, uncounted)
		for q.element = range elements {
			c.addOne(q, l)
		}
		q.element = 0
	}
}

// addOne charges a limit in one subject.
func (c *charger) addOne(q *Request, l *limit) {
	subject, why := c.subject(q, l)
	if why != "" {
		if c.explanation != nil && !c.again && q.element == 0 {
			c.explanation.skip(q, c.rules, l, why)
		}
		return
	}
	own := c.rules.apply(q, l, false)
	if own.mistake != nil {
		c.ignored = own.mistake
	}
	if source := cmp.Or(l.From, l.identified.constant); source != nil {
		c.meter(q, l, source, own.limit)
	}
	c.charged = true
	charge := limiter.Charge{Subject: subject, Limit: own.limit, Cost: l.cost}
	// A request is charged once on a limit that several rules share, at the highest cost.
	same := func(made limiter.Charge) bool { return made.Limit == charge.Limit && made.Subject == subject }
	earlier := slices.IndexFunc(c.charges[c.from:], same)
	if earlier >= 0 {
		made := &c.charges[c.from+earlier]
		made.Cost = max(made.Cost, l.cost)
	} else {
		c.charges = append(c.charges, charge)
	}
	if c.explanation != nil && (earlier < 0 || !c.again && q.element == 0) { // another reading can have another subject
		listed := c.rules.list(l, subject, own)
		if earlier >= 0 {
			listed.Reason = "shares its count with an earlier limit; the request is charged once, at the higher cost"
		}
		c.explanation.list(listed)
	}
}

// meter adds what meters a request on a limit, with the numbers of made.
func (c *charger) meter(q *Request, l *limit, source *meter.Source, made *limiter.Limit) {
	m := Metered{Limit: made, Source: source}
	if source.MostReserve == 0 {
		m.Least = l.cost
	}
	if name := source.Parameter; name != "" {
		m.Value = q.parameter(name, slices.Index(c.rules.rules[l.rule].pattern.names, name))
	}
	if !slices.Contains(c.metered, m) {
		c.metered = append(c.metered, m)
	}
}

// These are reasons why a request does not charge a limit.
const (
	skippedRejected = "only limits by ip charge a request with a bad credential"
	skippedIdentity = "the caller lacks an identity"
)

// onlyWords has the reason why a limit does not charge other requests, for each value of the field "only".
var onlyWords = map[string]string{
	document.OnlyUnverified:     "not charged: only requests without a verified user or API key",
	document.OnlyBadCredentials: "not charged: only requests with a bad credential",
}

// subject returns the subject in which a request charges a limit, or the reason why it does not charge it.
func (c *charger) subject(q *Request, l *limit) (s limiter.Subject, why string) {
	class := &c.rules.classes[l.class]
	switch {
	case q.Caller.Rejected && !class.byIP:
		return s, skippedRejected
	case l.Only == document.OnlyUnverified && (q.Caller.User != "" || q.Caller.APIKey != ""), l.Only == document.OnlyBadCredentials &&
		(!q.Caller.Rejected || q.Caller.Unverified):
		return s, onlyWords[l.Only]
	case l.class < len(c.subjects) && q.element == 0:
		s = c.subjects[l.class]
		if s == (limiter.Subject{}) {
			s = class.subject(q)
			c.subjects[l.class] = s
		}
	default:
		s = class.subject(q)
	}
	if s == (limiter.Subject{}) {
		why = skippedIdentity
	}
	return s, why
}

// Request contains the parts of a request that rules use.
type Request struct {
	Method string
	Path   Path
	Header http.Header
	Caller caller.Caller
	At     time.Time // when the request arrived, for interventions

	// Parameters are the values of the path's parameters by name, for Of. If it is nil, they are read from Path.
	Parameters map[string]string

	path    reading // the reading of Path that is charged
	element int     // index of the combination of elements of claims that is charged
}

// otherMethod stands for all methods that no rule can name. Without it, each invented method would have a
// new count.
const otherMethod = "other"

// method returns the method under which limits count the request: GET for HEAD, and otherMethod for an
// unknown method.
func (q *Request) method() string {
	switch q.Method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return q.Method
	}
	return otherMethod
}

func (q *Request) parameter(name string, at int) string {
	if q.Parameters != nil {
		return q.Parameters[name]
	}
	return q.path.segment(at)
}

// field returns the value of a header field. If the field is repeated, field joins its values with a
// comma. Some hosts already join the values, so this gives a request the same value on all hosts. A
// missing field has the value "", so a client cannot escape a limit by leaving out the field.
func (q *Request) field(name string) string {
	values := q.Header[name]
	if len(values) == 1 {
		if isCall(name) {
			value, _ := decodeField(values[0])
			return value
		}
		return values[0]
	}
	return strings.Join(values, ",")
}

// Claims returns the names of the claims by which limits count.
func (r *Rules) Claims() (names []string) {
	for i := range r.classes {
		for _, part := range r.classes[i].parts {
			if part.kind == document.PerClaim && !slices.Contains(names, part.name) {
				names = append(names, part.name)
			}
		}
	}
	return names
}

func (c *compiler) readCounts() {
	for l := range c.rules.limits() {
		if l.Count.Settles() && !slices.Contains(c.rules.counts, l.Count.Of) {
			c.rules.counts = append(c.rules.counts, l.Count.Of)
		}
	}
}

// trie finds the rules whose endpoint matches a path.
type trie struct {
	next  map[string]*trie // by a segment, or parameter
	here  []int            // rules whose endpoint ends at this node
	below []int            // rules whose endpoint matches the path of this node and every path below it
}

func (t *trie) add(p pattern, rule int) {
	for _, segment := range p.segments {
		if t.next[segment] == nil {
			if t.next == nil {
				t.next = map[string]*trie{}
			}
			t.next[segment] = &trie{}
		}
		t = t.next[segment]
	}
	if p.below {
		t.below = append(t.below, rule)
	} else {
		t.here = append(t.here, rule)
	}
}

// match appends to dst the rules whose endpoint matches one of the paths, each once and in file order.
func (t *trie) match(dst []int, paths ...reading) []int {
	from := len(dst)
	for _, r := range paths {
		if r.path == "/" {
			r.path = ""
		}
		dst = t.walk(dst, r.path)
	}
	slices.Sort(dst[from:])
	if len(paths) > 1 {
		dst = dst[:from+len(slices.Compact(dst[from:]))]
	}
	return dst
}

// walk appends the rules that match the rest of a path. A parameter does not match the empty segment after a
// slash at the end.
func (t *trie) walk(dst []int, rest string) []int {
	dst = append(dst, t.below...)
	switch rest {
	case "":
		return append(dst, t.here...)
	case "/":
		return dst
	}
	segment, rest := next(rest)
	if next := t.next[segment]; next != nil && segment != parameter {
		dst = next.walk(dst, rest)
	}
	if next := t.next[parameter]; next != nil {
		dst = next.walk(dst, rest)
	}
	return dst
}
