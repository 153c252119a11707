package httplimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Options are the options of a Gate. Limiter, Select and Identify are required.
type Options struct {
	// Identify returns the sender of a request that arrived at the time now. If it returns an error, the
	// Caller is still charged, and the answer is 401, or 503 if the error wraps
	// caller.ErrUnverified. For a request with a malformed path, the error is ignored.
	Identify func(ctx context.Context, now time.Time, r Request) (caller.Caller, error)
	// Select returns the charges of a request that arrived at the time now, with the reasons. It can be
	// Rules.Select of package rules/live.
	Select func(ctx context.Context, now time.Time, r rules.Request) rules.Selection
	// Limiter decides the charges.
	Limiter *limiter.Limiter
	// Reported is true for a Gate whose back end reports the costs of limits with a Count by forced charges. The Gate only
	// looks at such limits, and refuses a request if one of them has no room for a cost of 1. It ignores limits of
	// requests in flight, because nothing releases their slots.
	Reported bool
	// TrustedProxies are the proxies in front of a server with net/http. Wrap uses them to find the address of the
	// client. With nil, it is the peer of the connection.
	TrustedProxies caller.Proxies
	// Forwarded makes Wrap read the field Forwarded (RFC 7239) instead of X-Forwarded-For.
	Forwarded bool
	// Observe gets each decided request once, with its context, before the answer is written. It may be nil.
	Observe func(context.Context, telemetry.Outcome)
	// Settled gets the result of each settlement. It may be nil.
	Settled func(telemetry.Settlement)
	// MaxDelay is the longest time for which Serve delays a request in the queue of a leaky bucket.
	// Parse the rules with the same value, because it bounds the depth of queues. 0 means that Serve
	// delays no request, and leaky buckets only count. A request with a deadline needs AnswerTime after
	// its turn.
	MaxDelay time.Duration
	// Clock is read once for each request. nil means Limiter.Now.
	Clock func() time.Time
	// Logger gets at most one line a second for each message. nil means slog.Default().
	Logger *slog.Logger
}

// Gate decides requests for every kind of host: a middleware, an authorizer, or a Lambda handler. Create
// it with New. It is safe for concurrent use.
type Gate struct {
	o         Options
	cors      func(http.Handler) http.Handler // of WithCORS, or nil
	untrusted sync.Once                       // the warning on a proxy that is not trusted
	unread    sync.Once                       // the warning on a field Forwarded that is not read
	uncounted sync.Once                       // the warning on a claim that cannot count
	readers   readers                         // the bodies that are being read
}

// New returns a Gate. It panics if a required option is missing. The program then fails when it starts,
// and not at its first request.
func New(o Options) *Gate {
	switch {
	case o.Identify == nil:
		panic("httplimit: Options.Identify is nil")
	case o.Select == nil:
		panic("httplimit: Options.Select is nil")
	case o.Limiter == nil:
		panic("httplimit: Options.Limiter is nil")
	}
	if o.Observe == nil {
		o.Observe = func(context.Context, telemetry.Outcome) {}
	}
	if o.Settled == nil {
		o.Settled = func(telemetry.Settlement) {}
	}
	if o.Clock == nil {
		o.Clock = o.Limiter.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = slog.New(telemetry.NewRateLimitedHandler(o.Logger.Handler())) // any client can cause log lines with bad credentials
	return &Gate{o: o}
}

// Request contains the parts of a request that a Gate needs.
type Request struct {
	Method  string
	Path    rules.Path
	Header  http.Header
	Address netip.Addr // address of the client; the zero Addr if the host does not know it
	// Appended reports that the host has appended Address to X-Forwarded-For.
	Appended bool

	origin *http.Request       // its body can have a reserve; nil if the host does not know it
	answer http.ResponseWriter // of origin
}

// Credentials returns the credentials in a request. apiKeyField is the canonical name of the header field of
// API keys. The values of a repeated field are joined, and the joined value is an invalid credential: if Weir
// accepted one of the values, a back end could read another value, and so identify another caller.
func (r Request) Credentials(apiKeyField string) caller.Credentials {
	return caller.Credentials{
		Authorization: strings.Join(r.Header["Authorization"], ", "),
		APIKey:        strings.Join(r.Header[apiKeyField], ", "),
		Address:       r.Address,
	}
}

// counted returns the method by which a request counts. A preflight that reaches a Gate was answered by nobody in front
// of it, and a back end can run it like the method that it asks for: so it also needs a credential where that does.
func (r Request) counted() (method string) {
	if asked := r.Header[PreflightField]; r.Method == http.MethodOptions && len(asked) == 1 && asked[0] != "" {
		return asked[0]
	}
	return r.Method
}

// PreflightField is the header field of a preflight (OPTIONS) with the method that it asks for. A [Request] needs it.
const PreflightField = "Access-Control-Request-Method"

// Result is the decision of a Gate.
type Result struct {
	telemetry.Outcome
	// Answer has the header fields of the response. Its Problem is nil if the request passes.
	// Otherwise the Problem is the response.
	Answer Answer
	Tier   string // tier that selected the charges
	// Pending settles the request after its answer. It is nil unless the request passes and a limit
	// has a Count. A host that cannot settle ignores it; the request then keeps its reserve. With
	// Options.Reported it is nil, and the back end reports the costs of Reported.
	Pending  *Pending
	Reported []limiter.Charge // the limits with a Count that the Gate only looked at

	usage  func() ([]rules.Listed, bool) // see rules.Selection.Usage
	passed *http.Request                 // the request for the handler; nil if nothing has read its body
}

// Decide decides a request. The steps are the same for every host, in this order.
func (g *Gate) Decide(ctx context.Context, r Request) Result {
	result, begun := Result{Outcome: telemetry.Outcome{Time: g.o.Clock()}}, time.Now()
	o := &result.Outcome
	r.Method = strings.ToUpper(r.Method) // Flask and Django serve post like POST

	// Identify the caller. If its credential is bad, only limits by address charge the caller.
	var unidentified error
	o.Caller, unidentified = g.o.Identify(ctx, o.Time, r)
	method := r.counted()

	// Match the rules and charge their limits.
	asked := rules.Request{Method: method, Path: r.Path, Header: r.Header, Caller: o.Caller}
	selected := g.o.Select(ctx, o.Time, asked)
	if selected.Call && unidentified == nil && r.origin != nil {
		selected = g.selectCall(ctx, o.Time, &r, asked, selected)
		result.passed = r.origin
	}
	result.Tier = selected.Tier
	g.note(ctx, o, &selected)
	var metered *metering
	var unusable error // why the body cannot be used
	if len(selected.Metered) > 0 && !o.Blocked {
		metered, unusable = g.newMetering(&r, selected.Metered, o, unidentified == nil)
		result.passed = r.origin
	}
	if result.passed != nil {
		o.Time, begun = g.o.Clock(), time.Now() // a body can take long to arrive
	}
	switch {
	case o.Blocked: // the zero Decision refuses
	case g.o.Reported:
		result.Reported = g.lookAndTake(ctx, o)
	case settles(o.Charges):
		var receipt *limiter.Receipt
		o.Decision, receipt, o.Err = g.o.Limiter.TakeRefundable(ctx, o.Time, o.Charges)
		result.Pending = newPending(g, receipt, o, metered)
	default:
		o.Decision, o.Err = g.o.Limiter.Take(ctx, o.Time, o.Charges)
	}

	// A refusal takes precedence over a bad credential, because the limit bounds how many credentials a
	// client can try.
	invalid := o.Err != nil
	malformed := (selected.Malformed || selected.Mistake != nil || unusable != nil) && o.Decision.Allowed && !invalid
	switch {
	case malformed:
		o.Decision.Allowed, o.Decision.Limit = false, nil // no limit refuses the request
	case o.Decision.Allowed && !invalid:
		o.Err = unidentified
		result.usage = selected.Usage
		if result.usage != nil && o.Err == nil && anonymous(&o.Caller) {
			o.Err = caller.ErrMissingCredential
		}
	}

	// Record the outcome, then answer.
	o.Duration = time.Since(begun)
	g.o.Observe(ctx, *o)
	if o.Blocked || malformed {
		result.Answer = refusedByNoLimit(&selected, unusable)
	} else {
		result.Answer = g.answer(ctx, o, invalid)
	}
	result.Answer.Refusal = selected.Refusal
	if result.Pending != nil && result.Answer.Problem != nil {
		result.Pending.refuse(ctx, result.Answer.Problem.Status)
		result.Pending = nil
	}
	return result
}

// note writes what the rules selected into o, and logs what the owner of the rules must correct.
func (g *Gate) note(ctx context.Context, o *telemetry.Outcome, s *rules.Selection) {
	o.Charges, o.Unmatched, o.Blocked = s.Charges, s.Unmatched, s.Blocked != nil
	if e := s.Exemption; e != nil {
		o.Exemption = e.Name
	}
	if s.Ignored != nil {
		o.RecordIgnored = true
		g.o.Logger.LogAttrs(ctx, slog.LevelWarn, "mistake in an API key's record ignored", slog.String("apikey_id", o.Caller.APIKey),
			slog.Any("err", s.Ignored))
	}
	if s.Uncounted != "" {
		o.Uncounted = true
		g.uncounted.Do(func() {
			g.o.Logger.LogAttrs(ctx, slog.LevelWarn, "a claim cannot count, or has more values than count (want text, a number, a boolean, or a "+
				"list of at most 8 of these), so limits by its other values do not apply", slog.String("claim", s.Uncounted))
		})
	}
}

// refusedByNoLimit returns the answer to a request that is refused, but by no limit.
func refusedByNoLimit(s *rules.Selection, unusable error) Answer {
	switch {
	case s.Blocked != nil:
		return blocked()
	case s.Mistake != nil:
		return mistaken(s.Mistake)
	case errors.Is(unusable, errIncomplete):
		return incompleteBody()
	case unusable != nil:
		return ambiguousBody(unusable)
	}
	return MalformedPath()
}

// lookAndTake looks at the charges with a Count, and charges the others if the look refuses nothing. It returns the charges
// that it looked at.
func (g *Gate) lookAndTake(ctx context.Context, o *telemetry.Outcome) (looked []limiter.Charge) {
	var charged []limiter.Charge
	for _, c := range o.Charges {
		switch {
		case !c.Limit.Count.Settles():
			charged = append(charged, c)
		case c.Limit.Count.Of != limiter.CountConcurrent:
			c.Cost = 1
			looked = append(looked, c)
		}
	}
	if len(looked) == 0 {
		o.Decision, o.Err = g.o.Limiter.Take(ctx, o.Time, charged)
		return nil
	}
	look, err := g.o.Limiter.Peek(ctx, o.Time, looked)
	o.Decision, o.Err = look, err
	if err != nil || !look.Allowed || len(charged) == 0 {
		return looked
	}
	o.Decision, o.Err = g.o.Limiter.Take(ctx, o.Time, charged)
	if o.Err == nil {
		o.Decision = merged(o.Decision, look)
	}
	return looked
}

// merged returns the decision d with what a look before it found. If both allow the request, the limit with less
// remaining is reported.
func merged(d, look limiter.Decision) limiter.Decision {
	d.StoreCalls, d.StoreTime = d.StoreCalls+look.StoreCalls, d.StoreTime+look.StoreTime
	d.Over, d.Shadowed, d.Reason = cmp.Or(d.Over, look.Over), cmp.Or(d.Shadowed, look.Shadowed), cmp.Or(d.Reason, look.Reason)
	if d.Allowed && look.Limit != nil && (d.Limit == nil || look.Remaining < d.Remaining) {
		d.Limit, d.Superseded, d.Cost = look.Limit, look.Superseded, look.Cost
		d.Capacity, d.Remaining, d.ResetAfter = look.Capacity, look.Remaining, look.ResetAfter
	}
	return d
}

// answer returns the answer to a request. invalid reports whether the charges of the request are
// invalid.
func (g *Gate) answer(ctx context.Context, o *telemetry.Outcome, invalid bool) Answer {
	switch {
	case o.Err == nil:
		return NewAnswer(o.Decision)
	case invalid:
		g.log(ctx, slog.LevelError, "rules cannot be applied", o.Err)
		return internalError()
	case errors.Is(o.Err, caller.ErrUnverified):
		g.log(ctx, slog.LevelError, "caller not verified", o.Err)
		return unverified(o.Decision.Reason)
	default:
		g.log(ctx, slog.LevelInfo, "credential refused", o.Err)
		return unauthorized(o.Decision.Reason, errors.Is(o.Err, caller.ErrSuspended))
	}
}

func (g *Gate) log(ctx context.Context, level slog.Level, message string, err error) {
	g.o.Logger.LogAttrs(ctx, level, message, slog.Any("err", err))
}
