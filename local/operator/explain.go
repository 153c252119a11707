package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Question describes a request that Explain explains. Either credentials (the token, the API key or both) or
// the other fields identify the caller.
type Question struct {
	Method   string              `json:"method"`
	Path     string              `json:"path"` // as a client sends it, without the stage
	User     string              `json:"user,omitempty"`
	Tier     string              `json:"tier,omitempty"`
	Claims   map[string][]string `json:"claims,omitempty"`
	APIKeyID string              `json:"apiKeyId,omitempty"` // id of the key's record, not the key
	IP       string              `json:"ip,omitempty"`
	Headers  http.Header         `json:"headers,omitempty"` // fields by which limits count
	Token    string              `json:"token,omitempty"`
	APIKey   string              `json:"apiKey,omitempty"` // the key itself
}

// Explanation is the answer that a request would get, with the reasons.
type Explanation struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Readings are the readings of the path, which the rules match. It is empty for a plain path, whose only reading is Path.
	Readings []string  `json:"readings,omitempty"`
	Caller   Identity  `json:"caller"`
	At       time.Time `json:"at"`
	// Version is the version of the rules.
	Version int64  `json:"rulesVersion"`
	Source  string `json:"rulesSource,omitempty"` // see Operator.Source
	// Rules are the rules whose endpoint matches, in file order. Others is the number of all other
	// rules.
	Rules  []Matched `json:"rules"`
	Others int       `json:"otherRules"`
	// Interventions are the block of the caller (weir block), and what weir raise sets for its limits.
	Interventions []rules.Intervention `json:"interventions,omitempty"`
	// Exempt is the exemption that applies to the request. It is nil if the request is not exempt.
	Exempt *rules.Exemption `json:"exempt,omitempty"`
	// Limits are the limits that the request charges, in file order. If several rules share a limit,
	// the limit has their highest cost.
	Limits   []LimitUsage `json:"limits"`
	Decision Verdict      `json:"decision"`
	Notes    []string     `json:"notes"`
}

// Identity has the identities of a request's caller that the rules use.
type Identity struct {
	Subject  string              `json:"subject"`        // the subject of the user, else of the API key, else of the address
	Hash     string              `json:"hash,omitempty"` // replaces the subject in logs, metrics and events
	User     string              `json:"user,omitempty"`
	APIKeyID string              `json:"apiKeyId,omitempty"`
	IP       string              `json:"ip,omitempty"`
	IPFrom   string              `json:"ipFrom,omitempty"` // source of IP, with the reason; "" if only the host can be
	Tier     string              `json:"tier"`             // the tier that selects the limits
	Claims   map[string][]string `json:"claims,omitempty"`
	// Rejected is the reason why the credential is rejected. It is "" if the credential is valid or absent.
	Rejected string `json:"rejected,omitempty"`
}

// Matched is a rule whose endpoint matches a request.
type Matched struct {
	Path     string `json:"path"` // place in the document, such as "rules[2]"
	Endpoint string `json:"endpoint"`
	Method   string `json:"method,omitempty"`
	// Charges is the number of the rule's limits that the request charges.
	Charges int `json:"charges"`
	// Reasons explain why the rule does not apply, or why one of its limits is not charged.
	Reasons []string `json:"reasons,omitempty"`
}

// Verdict is the answer that the request would get now.
type Verdict struct {
	Allowed bool `json:"allowed"`
	// Status is the HTTP status of a refusal. A limit refuses with 429, or with 503 if the store failed
	// and on_error is deny. If no limit refuses, a malformed path gets 400. Otherwise, if no limit refuses, Status is 401 for an invalid
	// token, and 503 for a token that cannot be verified.
	Status int `json:"status,omitempty"`
	// Limit is the path of the limit that the answer reports; "" for none.
	Limit string `json:"limit,omitempty"`
	// RetryAfterSeconds is the exact wait. RetryAfter is the value of the header. If the wait is over
	// ten seconds, RetryAfter may be up to 3 % longer than the wait, and at most a minute.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
	RetryAfter        int64   `json:"retryAfter,omitempty"`
	// DelaySeconds is the time that an allowed request waits in a leaky bucket.
	DelaySeconds float64 `json:"delaySeconds,omitempty"`
	// Shadowed is the name of a limit in shadow mode that would refuse the request.
	Shadowed string `json:"shadowed,omitempty"`
	// Over is the name of a limit in mode mark that the request exceeds.
	Over string `json:"over,omitempty"`
	// Unrouted is true if no API has a route for the request. The gateway then rejects the request
	// before it checks any limit. The REST API answers 403, and the HTTP API answers 404.
	Unrouted bool `json:"unrouted,omitempty"`
	// Degraded is the reason for which the store did not decide. It is "" if the store decided.
	Degraded string `json:"degraded,omitempty"`
}

// Explain answers q.
func (o *Operator) Explain(ctx context.Context, q Question) (Explanation, error) {
	now := o.Clock()
	if err := q.check(); err != nil {
		return Explanation{}, err
	}
	header := http.Header{}
	for name, values := range q.Headers {
		header[http.CanonicalHeaderKey(name)] = values
	}
	who, rejected, notes, err := o.caller(ctx, now, q, header)
	if err != nil {
		return Explanation{}, err
	}
	r := o.Rules(ctx, now)
	request := rules.Request{Method: q.Method, Path: rules.EncodedPath(q.Path).Below(o.BasePaths), Header: header, Caller: who, At: now}
	explained := r.Explain(request)
	e := Explanation{
		Method: q.Method, Path: q.Path, Caller: newIdentity(who, explained.Tier, rejected), At: now.UTC(), Version: r.Version(), Source: o.Source,
		Rules: []Matched{}, Others: r.Len() - len(explained.Matches), Notes: append([]string{}, notes...),
	}
	e.Caller.Hash = o.hash(who.Subject())
	if paths := explained.Readings; len(paths) > 1 || len(paths) == 1 && paths[0] != q.Path {
		e.Readings = paths
	}
	if path := rules.TrimPrefix(q.Path, o.BasePaths); path != q.Path {
		e.Notes = append(e.Notes, "the path has a base path of a custom domain (BASE_PATH): the rules match it as "+path)
	}
	for _, m := range explained.Matches {
		e.Rules = append(e.Rules, newMatched(m))
	}
	e.Exempt = explained.Exemption
	listed := charged(explained)
	e.Limits, err = o.usages(ctx, now, listed)
	if err != nil {
		return Explanation{}, err
	}
	d, err := o.Limiters[0].Peek(ctx, now, explained.Charges)
	if err != nil {
		return Explanation{}, err
	}
	e.Decision = newVerdict(d, listed, rejected)
	e.Interventions = r.Interventions().Of(who, now)
	if explained.Blocked != nil {
		e.Decision = Verdict{Status: http.StatusForbidden}
	}
	if (explained.Malformed || explained.Mistake != nil) && d.Allowed {
		e.Decision.Allowed, e.Decision.Status = false, http.StatusBadRequest
	}
	if explained.Mistake != nil {
		e.Notes = append(e.Notes, "400 "+explained.Mistake.Code+": "+explained.Mistake.Message)
	}
	if decoded, err := url.PathUnescape(q.Path); err == nil && !explained.Malformed {
		request.Path = rules.DecodedPath(decoded).Below(o.BasePaths)
		if r.Explain(request).Malformed {
			e.Notes = append(e.Notes, "an HTTP API decodes the path, and answers 400, because the decoded path can be read with a . or .. segment")
		}
	}
	if o.Routed != nil {
		o.route(&e)
	}
	if name := explained.Uncounted; name != "" {
		e.Notes = append(e.Notes, "the claim "+name+" cannot count, or has more values than count (want text, a number of at most 20 "+
			"characters, "+
			"a boolean, or a list of at most 8 of these): limits by its other values do not apply")
	}
	e.Notes = append(e.Notes, decisionNotes(d, who, explained.Tier)...)
	e.Notes = append(e.Notes, recordNotes(r, who.Limits, listed)...)
	return e, nil
}

// route adapts e to the APIs without a route for the request.
func (o *Operator) route(e *Explanation) {
	routed, unrouted := o.Routed(e.Method, e.Path)
	if len(routed) == 0 {
		e.Decision = Verdict{Status: http.StatusForbidden, Unrouted: true}
		e.Notes = append(e.Notes, "no API has a route for "+e.Method+" "+e.Path+
			": the REST API answers 403 and the HTTP API 404, before any limit")
		return
	}
	for _, kind := range unrouted {
		status := map[string]int{"REST": http.StatusForbidden, "HTTP": http.StatusNotFound}[kind]
		e.Notes = append(e.Notes, fmt.Sprintf("the %s API has no route for %s %s: it answers %d, before any limit", kind, e.Method, e.Path,
			status))
	}
}

// decisionNotes returns the notes about the decision for a caller who has the limits of tier.
func decisionNotes(d limiter.Decision, c caller.Caller, tier string) (notes []string) {
	if d.Reason != "" {
		notes = append(notes, "the store failed ("+string(d.Reason)+
			"): on_error decides, not the usage that is shown; the usage was read from the store directly")
	}
	if c.Tier != "" && c.Tier != tier {
		notes = append(notes, fmt.Sprintf("the rules have no tier %q: tier %s decides", c.Tier, tier))
	}
	if !c.IP.IsValid() {
		notes = append(notes, "no address is given (--ip): limits that count by ip show the usage of callers whose address is unknown")
	}
	return notes
}

func (q Question) check() error {
	if q.Method == "" || strings.ToUpper(q.Method) != q.Method {
		return Mistake("method: got %q, want one such as GET", q.Method)
	}
	if !strings.HasPrefix(q.Path, "/") || strings.ContainsAny(q.Path, "?#") {
		return Mistake("path: got %q, want a path that begins with /, without a query", q.Path)
	}
	return nil
}

func newIdentity(c caller.Caller, tier string, rejected error) Identity {
	made := Identity{Subject: c.Subject().String(), User: c.User, APIKeyID: c.APIKey, IPFrom: c.IPFrom, Tier: tier, Claims: c.Claims}
	if c.IP.IsValid() {
		made.IP = c.IP.String()
	}
	if rejected != nil {
		made.Rejected = rejected.Error()
	}
	return made
}

// caller returns the caller of q. rejected is the reason why the credential of q is rejected, or nil. As
// the tier of a token does, the tier of q takes precedence over the tier in the key's record.
func (o *Operator) caller(ctx context.Context, now time.Time, q Question, header http.Header) (who caller.Caller, rejected error,
	notes []string, err error) {
	address := o.Address
	if q.IP != "" {
		address, err = netip.ParseAddr(q.IP)
		if err != nil {
			return who, nil, nil, Mistake("ip: got %q, want an address such as 203.0.113.7", q.IP)
		}
	}
	found := o.find(ctx, header, address)
	address = found.Addr
	defer func() { who.IPFrom = found.From }()
	if q.Token != "" || q.APIKey != "" {
		who, rejected, err = o.identify(ctx, now, q, address)
		if who.ForeignKey {
			notes = []string{"the API key does not begin with weir_, so it is not Weir's and identifies nobody"}
		}
		return who, rejected, notes, err
	}
	who = caller.Caller{User: q.User, APIKey: q.APIKeyID, Claims: q.Claims, IP: o.prefix(address)}
	record, notes, rejected := o.readRecord(ctx, &who)
	if record.Suspended {
		rejected = caller.ErrSuspended
	}
	if rejected != nil {
		return caller.Caller{IP: who.IP, Rejected: true}, rejected, notes, nil
	}
	who.Tier = cmp.Or(q.Tier, record.Tier)
	return who, nil, notes, nil
}

// find returns the address of the client whose request has the given source address. Without a field of the distribution in
// the question, the given address is that of the client. X-Forwarded-For has no entry of the host.
func (o *Operator) find(ctx context.Context, header http.Header, source netip.Addr) viewer.Address {
	if o.Viewers == nil {
		return viewer.Address{Addr: source}
	}
	if !slices.ContainsFunc(o.Viewers.Fields(), func(name string) bool { return header[name] != nil }) {
		return viewer.Address{Addr: source, From: "the question, not from " + strings.Join(o.Viewers.Fields(), " and ")}
	}
	found := o.Viewers.Find(ctx, header, source, false)
	found.From = found.String()
	return found
}

// identify returns the caller that the credentials of q identify, or the reason why they are rejected.
func (o *Operator) identify(ctx context.Context, now time.Time, q Question, address netip.Addr) (who caller.Caller, rejected, err error) {
	tokens, keys := o.Identifier.Identifies()
	credentials := caller.Credentials{APIKey: q.APIKey, Address: address}
	switch {
	case q.User != "" || q.Tier != "" || q.APIKeyID != "" || len(q.Claims) > 0:
		return who, nil, Mistake("token: got a token or an API key, and also user, tier, claims or an API key's id; give only one of the two")
	case q.Token != "" && !tokens:
		return who, nil, Mistake("token: cannot be verified here: set JWKS, JWT_ISSUER and JWT_AUDIENCE as the functions have them, or give " +
			"--user, --tier and --claim")
	case q.APIKey != "" && !keys:
		return who, nil, Mistake("apikey: the records of API keys are not known here: give --records-table, or --apikey-id in place of the key")
	case q.Token != "":
		credentials.Authorization = "Bearer " + q.Token
	}
	who, rejected = o.Identifier.Caller(ctx, now, credentials)
	return who, rejected, nil
}

func charged(e rules.Explanation) []rules.Listed {
	listed := make([]rules.Listed, 0, len(e.Charges))
	for _, m := range e.Matches {
		for _, l := range m.Limits {
			if l.Reason == "" {
				l.Charge.Cost = e.Charges[len(listed)].Cost
				listed = append(listed, l)
			}
		}
	}
	return listed
}

func newMatched(m rules.Match) Matched {
	r := Matched{Path: m.Path, Endpoint: m.Endpoint, Method: m.Method}
	if m.Reason != "" {
		r.Reasons = append(r.Reasons, m.Reason)
	}
	for _, l := range m.Limits {
		if l.Reason == "" {
			r.Charges++
		} else if reason := "limit " + l.Charge.Limit.Name + ": " + l.Reason; !slices.Contains(r.Reasons, reason) {
			r.Reasons = append(r.Reasons, reason)
		}
	}
	return r
}

// newVerdict returns the limiter's decision d as the answer to a question. rejected is the reason why the
// credential is rejected, or nil. If no limit refuses, rejected decides the answer.
func newVerdict(d limiter.Decision, listed []rules.Listed, rejected error) Verdict {
	made := Verdict{Allowed: d.Allowed, DelaySeconds: d.Delay.Seconds(), Degraded: string(d.Reason)}
	for _, l := range listed {
		if l.Charge.Limit == d.Limit {
			made.Limit = cmp.Or(made.Limit, l.Path)
		}
	}
	if d.Shadowed != nil {
		made.Shadowed = d.Shadowed.Name
	}
	if d.Over != nil {
		made.Over = d.Over.Name
	}
	switch {
	case d.Failed:
		made.Status, made.RetryAfter = http.StatusServiceUnavailable, 1
	case !d.Allowed:
		made.Status, made.RetryAfterSeconds, made.RetryAfter = http.StatusTooManyRequests, d.RetryAfter.Seconds(), wholeSeconds(d.RetryAfter)
	case errors.Is(rejected, caller.ErrUnverified):
		made.Allowed, made.Status = false, http.StatusServiceUnavailable
	case rejected != nil:
		made.Allowed, made.Status = false, http.StatusUnauthorized
	}
	return made
}
