package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// PerIP returns a Gate that allows each address a number of requests in a window of at least a second. An IPv6
// caller is its network of 64 bits. All requests without an address, such as those of a Unix socket, count
// together. The answers call the limit "ip".
//
// In a remote store, Gates with equal numbers share the counts, and other numbers start new counts. PerIP
// panics if a number or an option is out of range, because a program usually has them in its source.
func PerIP(requests int, window time.Duration, options ...Option) *Gate {
	return per("PerIP", "ip", requests, window, options, func(c *caller.Caller) limiter.Subject { return limiter.IP(c.IP) })
}

// PerCaller is PerIP for callers: the user, without one the API key, and without both the address. WithCaller or
// WithIdentifier identify them. The answers call the limit "caller".
func PerCaller(requests int, window time.Duration, options ...Option) *Gate {
	return per("PerCaller", "caller", requests, window, options, func(c *caller.Caller) limiter.Subject { return c.Subject() })
}

func per(function, name string, requests int, window time.Duration, options []Option, subject func(*caller.Caller) limiter.Subject) *Gate {
	limit, err := limiter.NewLimit(limiter.Limit{
		Name: name, ID: limiter.NewID(name, fmt.Sprint(requests), window.String()), Rate: algo.Rate{Requests: int64(requests), Window: window},
	})
	if err != nil {
		panic(fmt.Errorf("httplimit: %s: %w", function, err))
	}
	m, err := newMiddleware(options)
	if err != nil {
		panic(err)
	}
	return m.gate(func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
		return rules.Selection{Charges: []limiter.Charge{{Subject: subject(&r.Caller), Limit: limit, Cost: 1}}}
	})
}

// FromDocument returns a Gate that enforces the rules of a document. A document for a store that processes
// share MUST have the field "version", which grows with every change. Limits with "notify" need WithNotify, and those with
// "regions": "shared" need WithRegions.
// Without WithIdentifier or WithCaller, all callers are anonymous: limits by user, by API key or of another tier do not apply. A
// leaky bucket refuses requests instead of delaying them. The error names the option or the limit that is out of
// range, or is of type rules.Problems and contains all mistakes of the document.
func FromDocument(document []byte, options ...Option) (*Gate, error) {
	return follow(fixed(document), options)
}

// FromFile is FromDocument for a file, which the Gate reads again when a request arrives a second after the last time. A
// document with mistakes does not come into force; the log has them, and a warning of a later "notify" without WithNotify. Without
// the field "version", which a remote store needs, the version is the time of the file's last change.
func FromFile(path string, options ...Option) (*Gate, error) {
	return follow(live.File{Path: path}, options)
}

// fixed is a document that never changes.
type fixed []byte

// Document implements live.Source.
func (f fixed) Document(context.Context) (live.Document, error) {
	return live.Document{Content: f}, nil
}

// versioned is a Source of documents that have versions of their own.
type versioned struct{ live.Source }

// Document implements live.Source.
func (v versioned) Document(ctx context.Context) (live.Document, error) {
	d, err := v.Source.Document(ctx)
	d.Version = 0
	return d, err
}

// fileEvery bounds the age of the rules of FromFile.
const fileEvery = time.Second

func follow(source live.Source, options []Option) (*Gate, error) {
	m, err := newMiddleware(options)
	if err != nil {
		return nil, err
	}
	o := parsing(m.store)
	if m.regions != nil {
		o.Regions = algo.Regions{Of: len(m.regions), Place: slices.Index(m.regions, nil)}
	}
	current, err := begin(source, o)
	if err != nil {
		return nil, err
	}
	if err := m.unwritten(current.Current()); err != nil {
		return nil, err
	}
	gate := m.gate(current.Select)
	current.Observe(live.Log(gate.o.Logger))
	current.Observe(func(_ time.Time, r live.Reload) {
		if !r.Changed {
			return
		}
		if err := m.unwritten(r.Rules); err != nil {
			gate.log(context.Background(), slog.LevelWarn, "changed rules have notices", err)
		}
	})
	return gate, nil
}

// unwritten returns an error if a limit has notices that nothing writes.
func (m *middleware) unwritten(r *rules.Rules) error {
	for _, l := range r.Limits() {
		if m.notify == nil && l.Charge.Limit.Notify != (limiter.Percentages{}) {
			return fmt.Errorf(`httplimit: %s.notify: nothing writes its notices; pass WithNotify to FromDocument, or remove "notify"`, l.Path)
		}
	}
	return nil
}

// begin returns the rules of a source, which it has read once.
func begin(source live.Source, o rules.Options) (*live.Rules, error) {
	if document, constant := source.(fixed); constant {
		r, err := rules.Parse(document, o)
		return live.Fixed(r), err
	}
	if o.RequireVersion { // the file of another process can have another time
		source = versioned{source}
	}
	current := live.New(nil, source, live.Options{Parse: o, Every: fileEvery})
	err := current.Refresh(context.Background(), time.Now())
	if _, mistakes := errors.AsType[rules.Problems](err); err != nil && !mistakes {
		err = fmt.Errorf("httplimit: rules: %w", err)
	}
	return current, err
}

func parsing(store limiter.Store) (o rules.Options) {
	_, local := store.(limiter.Local)
	o.RequireVersion = !local
	if items, ok := limiter.StoreAs[rules.Items](store); ok { // as in DynamoDB, both the size and the writes of an item are bounded
		o.Items, o.LeaseAbove = items, rules.LeaseAboveDynamoDB
	}
	return o
}

// An Option changes a Gate of PerIP, PerCaller, FromDocument or FromFile.
type Option func(*middleware)

// WithStore makes a Gate count in the given store, such as one of package redisstore, instead of in the memory
// of this process.
func WithStore(s limiter.Store) Option { return func(m *middleware) { m.store = s } }

// WithRegions makes the Gates of several regions share the limits of a document with "regions": "shared". all are the stores of
// the regions, in an order that is the same in every region, with nil for this region. WithStore is the store of this region.
// See the field Regions of [limiter.Options].
func WithRegions(all ...limiter.Shares) Option { return func(m *middleware) { m.regions = all } }

// WithTrustedProxies makes a Gate read the address of the client from X-Forwarded-For, if the request comes
// from one of the given networks. A network is "10.0.0.0/8" or a single address. See [caller.Proxies.Client]. Of
// several such options, the last one counts.
func WithTrustedProxies(networks ...string) Option {
	return func(m *middleware) { m.o.TrustedProxies, m.err = caller.ParseProxies(networks...) }
}

// WithForwarded makes a Gate read the address of the client from the field Forwarded (RFC 7239) instead of X-Forwarded-For,
// if the request comes from one of the given networks. A VPC link of an HTTP API sends only this field. Do not use this option
// if requests also arrive through a proxy that passes the field of a client on, such as a load balancer.
func WithForwarded(networks ...string) Option {
	return func(m *middleware) {
		WithTrustedProxies(networks...)(m)
		m.o.Forwarded = true
	}
}

// WithIdentifier makes a Gate identify callers by the Authorization and X-Api-Key fields, too. Limits of a
// document can then count by user and by API key, and a bad credential gets 401.
func WithIdentifier(i *caller.Identifier) Option { return func(m *middleware) { m.identifier = i } }

// WithCaller makes a Gate identify the caller of a request by the function identify, such as by the session of a server, in place
// of the fields. Without an address in the Caller, it is that of the client. If the error wraps caller.ErrInvalidCredential or
// caller.ErrMissingCredential, the answer is 401, and otherwise 503; then only limits by address apply.
func WithCaller(identify func(*http.Request) (caller.Caller, error)) Option {
	return func(m *middleware) { m.caller = identify }
}

// WithObserver makes a Gate call the function observe once for each decided request, before the answer, such as the
// function of package otellimit.
func WithObserver(observe func(context.Context, telemetry.Outcome)) Option {
	return func(m *middleware) { m.o.Observe = observe }
}

// WithNotify makes a Gate write the notices of limits with "notify"; see the field Notify of [limiter.Options].
func WithNotify(write func(context.Context, limiter.Notice) error) Option {
	return func(m *middleware) { m.notify = write }
}

// middleware contains the options of a Gate.
type middleware struct {
	store      limiter.Store
	regions    []limiter.Shares
	notify     func(context.Context, limiter.Notice) error
	identifier *caller.Identifier
	caller     func(*http.Request) (caller.Caller, error) // nil without WithCaller
	cors       func(http.Handler) http.Handler            // nil without WithCORS
	o          Options
	err        error // of an option
}

// newMiddleware applies options, and opens what they do not set.
func newMiddleware(options []Option) (m *middleware, err error) {
	m = &middleware{identifier: caller.New(caller.Options{})}
	for _, option := range options {
		option(m)
		if m.err != nil {
			return nil, fmt.Errorf("httplimit: %w", m.err)
		}
	}
	if m.store == nil {
		m.store, err = memstore.New(memstore.Options{})
		if err != nil {
			return nil, err
		}
	}
	if _, ok := limiter.SharesOf(m.store); m.regions != nil && !ok {
		return nil, fmt.Errorf("httplimit: WithRegions: a %T cannot move share between regions; pass a store of package dynamostore to WithStore",
			m.store)
	}
	m.o.Limiter, err = limiter.New(m.store, limiter.Options{Notify: m.notify, Regions: m.regions})
	return m, err
}

// gate returns a Gate that charges what the function choose selects.
func (m *middleware) gate(choose func(context.Context, time.Time, rules.Request) rules.Selection) *Gate {
	m.o.Select = choose
	m.o.Identify = func(ctx context.Context, now time.Time, r Request) (caller.Caller, error) {
		if m.caller != nil {
			return m.identify(r)
		}
		return m.identifier.Caller(ctx, now, r.Credentials("X-Api-Key"))
	}
	gate := New(m.o)
	gate.cors = m.cors
	return gate
}

var errNoRequest = fmt.Errorf("%w: WithCaller needs the request of Gate.Wrap or Gate.Serve", caller.ErrUnverified)

// identify returns the caller of WithCaller.
func (m *middleware) identify(r Request) (c caller.Caller, err error) {
	ip, err := caller.Prefix(r.Address, caller.DefaultIPv6Bits), errNoRequest
	if r.origin != nil {
		c, err = m.caller(r.origin)
	}
	if err != nil {
		refused := errors.Is(err, caller.ErrInvalidCredential) || errors.Is(err, caller.ErrMissingCredential)
		if !refused && !errors.Is(err, caller.ErrUnverified) {
			err = fmt.Errorf("%w: %w", caller.ErrUnverified, err)
		}
		return caller.Caller{IP: ip, Rejected: true, Unverified: !refused}, err
	}
	if !c.IP.IsValid() {
		c.IP = ip
	}
	return c, nil
}
