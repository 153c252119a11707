package live

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
)

// Source returns a document. Implementations are safe for concurrent use.
type Source interface {
	// Document returns the current document. It returns an error if no document exists or it cannot be read. ctx has
	// a deadline.
	Document(ctx context.Context) (Document, error)
}

// Document is the text of a document and its version.
type Document struct {
	Content []byte
	Version int64 // see rules.Options.Version; 0 if the version is a field of the document
	// Interventions are those of operators, in the form of rules.ParseInterventions. They act also while the rest of the
	// document is rejected.
	Interventions []byte
	// Unread is the reason why Interventions were not read. Those in force stay, and the rest of the document applies. It is
	// nil if they were read.
	Unread error
}

// Options are the options of New. The zero value selects the defaults.
type Options struct {
	// Parse has the options for parsing. The version of each Document replaces Parse.Version.
	Parse rules.Options
	// Every bounds the age of the rules that decide a request, provided that the Source answers. 0
	// means one minute.
	Every time.Duration
}

const (
	reloadTimeout = time.Second            // bounds one reload
	patience      = 100 * time.Millisecond // bounds how long one request waits for a reload
	retry         = 10 * time.Second       // bounds the pause after a failed reload
	firstRetry    = time.Second            // bounds the pause after a failed reload, before the first success
)

// Rules are the rules in force. They follow the document of a Source. Create them with New or Fixed.
// They are safe for concurrent use. [Rules.At] takes no lock unless a reload is due.
//
// Nothing runs in the background, because Lambda freezes an environment between requests. The age of the
// rules has two thresholds. The first threshold is a random share of Options.Every, from a half to five
// sixths. The first request after this threshold starts a concurrent reload but does not wait for it.
// (At the end of the request, Settle waits for the reload.) The next request uses the result. The second
// threshold is Options.Every. A request after this threshold waits up to 100 ms for the reload. The
// share is random so that environments do not reload at the same time.
//
// While the Source fails or its document has mistakes, the rules in force do not change. After a
// failure, a request retries about every seven seconds. Versions only increase: Rules reject a document
// with a lower version, and a different document with the same version. The reason: a stored state
// follows the rules with the highest version that charged it, so rules with a lower version would not
// decide. To roll back, publish the old document under a new version.
type Rules struct {
	source  Source
	options Options
	current atomic.Pointer[state]
	start   sync.Mutex // guards the start of a reload
	pending atomic.Pointer[attempt]

	judging            sync.Mutex // guards the fields below; a reload locks it after the source has answered
	accepted, rejected digest
	rejection          error // why the last document was rejected
	observers          []func(time.Time, Reload)
}

type digest struct {
	content [sha256.Size]byte
	version int64
	floor   int64 // of the interventions
}

// state is the result of a reload. It is immutable.
type state struct {
	rules     *rules.Rules
	confirmed time.Time     // last time a reload found these rules in the source; zero if none did
	tried     int64         // start of the last reload, in Unix nanoseconds
	pause     time.Duration // time from tried until the next reload is due
	err       error         // why the document of the source is not in force
	failed    bool          // the source did not answer
}

// age returns the time since the last reload. It is never negative, although the clocks of concurrent
// requests are not in order.
func (s *state) age(now time.Time) time.Duration { return between(now, s.tried) }

func between(now time.Time, then int64) time.Duration {
	return time.Duration(now.UnixNano() - then).Abs()
}

// attempt is a reload that has not completed.
type attempt struct {
	begun int64 // start, in Unix nanoseconds
	done  chan struct{}
}

// Reload is the result of one reload.
type Reload struct {
	Rules     *rules.Rules // the rules in force after the reload
	Confirmed time.Time    // last time the Source had these rules; zero if it never had them
	Changed   bool         // the reload put another document into force
	// Intervened reports that the interventions of operators changed.
	Intervened bool
	Restarts   []string // the counts that restart, from rules.Moved
	// Err is the reason why the document of the Source is not in force. It is of type rules.Problems,
	// wraps ErrOlder, or is the error of the Source.
	Err error
	// Repeated reports whether the previous reload had the same result: the Source failed again, or
	// it still has the same document.
	Repeated bool
}

// ErrOlder is the error of a document with a lower version than the rules in force.
var ErrOlder = errors.New("the document is older than the rules in force")

// New returns rules that follow the document of source. initial is in force until the first reload.
// If the version of initial is 0, any version of the source replaces it. If initial is nil, Refresh
// must succeed before the first request.
func New(initial *rules.Rules, source Source, o Options) *Rules {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	l := &Rules{source: source, options: o}
	l.current.Store(&state{rules: initial})
	return l
}

// Fixed returns rules that never change.
func Fixed(r *rules.Rules) *Rules { return New(r, nil, Options{}) }

// Observe adds a function that later reloads call with their start time and result. A reload is complete when f
// returns, so f must not call Observe, Refresh or Wait.
func (l *Rules) Observe(f func(start time.Time, r Reload)) {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.observers = append(l.observers, f)
}

// Current returns the rules in force, without a reload.
func (l *Rules) Current() *rules.Rules { return l.current.Load().rules }

// At returns the rules for a request that arrives at the time now. Call it only once for each request, because
// a second call may return another version.
func (l *Rules) At(ctx context.Context, now time.Time) *rules.Rules {
	s := l.current.Load()
	if l.source == nil || s.age(now) < s.pause {
		return s.rules
	}
	a := l.reload(ctx, now, false)
	if s.age(now) >= l.options.Every && a != nil {
		a.wait()
		s = l.current.Load()
	}
	return s.rules
}

// Wait waits up to 100 ms for a running reload. A function calls it after each decision, because
// Lambda may freeze a reload that has not completed.
func (l *Rules) Wait() {
	if a := l.pending.Load(); a != nil {
		a.wait()
	}
}

func (a *attempt) wait() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-a.done:
	case <-ctx.Done():
	}
}

// Refresh starts a reload at the time now, even if none is due, and waits for it until ctx ends. It returns
// Reload.Err.
func (l *Rules) Refresh(ctx context.Context, now time.Time) error {
	if l.source == nil {
		return nil
	}
	select {
	case <-l.reload(ctx, now, true).done:
		return l.current.Load().err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Select calls At and returns what these rules select for a request.
func (l *Rules) Select(ctx context.Context, now time.Time, r rules.Request) rules.Selection {
	r.At = now
	return l.At(ctx, now).Select(nil, r)
}

// reload returns the running reload. If none is running, it starts one if force is true or a reload
// is due; otherwise it returns nil. It replaces a reload that exceeded its timeout, because Lambda
// froze that reload with its environment, and the connection may be dead.
func (l *Rules) reload(ctx context.Context, now time.Time, force bool) *attempt {
	l.start.Lock()
	defer l.start.Unlock()
	a := l.pending.Load()
	if a != nil && between(now, a.begun) <= reloadTimeout {
		return a
	}
	if s := l.current.Load(); a == nil && !force && s.age(now) < s.pause { // another request completed a reload
		return nil
	}
	a = &attempt{now.UnixNano(), make(chan struct{})}
	l.pending.Store(a)
	go l.finish(context.WithoutCancel(ctx), now, a)
	return a
}

// finish executes a reload. It discards the result if a newer reload replaced this one.
func (l *Rules) finish(ctx context.Context, now time.Time, a *attempt) {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	defer close(a.done)
	document, err := l.source.Document(ctx)
	l.judging.Lock()
	defer l.judging.Unlock()
	if l.pending.Load() != a {
		return
	}
	was := l.current.Load()
	s := &state{rules: was.rules, confirmed: was.confirmed, tried: now.UnixNano()}
	pause, repeated, changed := l.options.Every, was.failed, false
	switch {
	case err == nil:
		s.rules, changed, repeated, s.err = l.replace(document, was)
	case was.confirmed.IsZero():
		pause = min(pause, firstRetry)
		fallthrough
	default:
		pause = min(pause, retry)
		s.err, s.failed = err, true
	}
	if s.err == nil {
		s.confirmed = now
	}
	s.pause = pause/2 + rand.N(max(pause/3, 1))
	l.current.Store(s)
	r := Reload{Rules: s.rules, Confirmed: s.confirmed, Changed: changed, Intervened: s.rules != was.rules && !changed, Err: s.err,
		Repeated: repeated}
	if r.Changed && len(l.observers) > 0 {
		r.Restarts, _ = rules.Moved(was.rules, s.rules)
	}
	for _, observe := range l.observers {
		observe(now, r)
	}
	l.pending.CompareAndSwap(a, nil)
}

// replace returns the rules that are in force after the source returned document d. changed reports whether they are of
// another document than the rules of was; the other results are those of judge.
func (l *Rules) replace(d Document, was *state) (r *rules.Rules, changed, repeated bool, err error) {
	before := l.accepted
	operators, mistake := intervene(d, was.rules)
	r, repeated, err = l.judge(d, was.rules, operators)
	changed = r != was.rules && (l.accepted.content != before.content || l.accepted.version != before.version)
	if r != nil && r.Interventions() != operators {
		r = r.With(operators)
	}
	if err == nil && mistake != nil {
		return r, changed, was.err != nil && was.err.Error() == mistake.Error(), mistake
	}
	return r, changed, repeated, err
}

// intervene returns the interventions of a document. Those of the rules was stay if the text was not read, has a mistake, or
// is older: a read of a table can be behind.
func intervene(d Document, was *rules.Rules) (v *rules.Interventions, err error) {
	if was != nil {
		v = was.Interventions()
	}
	if d.Unread != nil {
		return v, d.Unread
	}
	read, err := rules.ParseInterventions(d.Interventions)
	if err != nil || v == nil && read.Version == 0 || v != nil && (read.Version == v.Version || 0 < read.Version && read.Version < v.Version) {
		return v, err
	}
	return read, nil
}

// judge returns the rules that are in force after the source returned document d with the interventions of operators. was
// contains the previous rules. If d is rejected, err is the reason. repeated reports whether an earlier reload had the same
// result.
func (l *Rules) judge(d Document, was *rules.Rules, operators *rules.Interventions) (r *rules.Rules, repeated bool, err error) {
	of := digest{content: sha256.Sum256(d.Content), version: d.Version}
	if operators != nil {
		of.floor = operators.Floor
	}
	switch of {
	case l.accepted:
		return was, true, nil
	case l.rejected:
		return was, true, l.rejection
	}
	r, err = l.parse(d, was, of)
	if err != nil {
		repeated = of.content == l.rejected.content && err.Error() == l.rejection.Error()
		l.rejected, l.rejection = of, err
		return was, repeated, err
	}
	l.accepted = of
	return r, false, nil
}

// parse parses a document that may replace the rules was. of is its digest. A file that is rewritten without a change
// needs no new version.
func (l *Rules) parse(d Document, was *rules.Rules, of digest) (*rules.Rules, error) {
	o := l.options.Parse
	o.Version, o.RequireVersion, o.Floor = d.Version, true, of.floor
	r, err := rules.Parse(d.Content, o)
	switch {
	case err != nil:
		return nil, err
	case was == nil || r.Version() > was.Version():
		return r, nil
	case r.Version() < was.Version():
		return nil, fmt.Errorf("%w: got version %d, want more than %d", ErrOlder, r.Version(), was.Version())
	case of.content == l.accepted.content && of.floor == l.accepted.floor:
		return was, nil
	case of.content == l.accepted.content:
		return r, nil
	}
	return nil, rules.Problems{{Path: "version", Message: fmt.Sprintf("got %d, the version of the rules in force, for a different "+
		"document; give it a higher version", r.Version())}}
}
