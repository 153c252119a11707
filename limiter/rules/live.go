package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// Source is where a document is kept. It is safe for concurrent use.
type Source interface {
	// Document returns the document as it is there now. The error says that it could not be
	// read, or that there is none. ctx has a deadline.
	Document(ctx context.Context) (Document, error)
}

// Document is a document that has not been parsed.
type Document struct {
	Content []byte
	Version int64 // under which it is kept, as Options.Version; 0 if the document alone says it
}

// LiveOptions are those of a Live.
type LiveOptions struct {
	// Parse is how documents are parsed; its Version is that of the Document.
	Parse Options
	// Every is the time after which no request is decided by rules that the Source was not
	// asked for again, unless it fails; 0 means a minute.
	Every time.Duration
}

// How long is waited for a Source.
const (
	readTimeout = time.Second            // by a reading
	patience    = 100 * time.Millisecond // by a request
	retry       = 10 * time.Second       // after a failure, until it is asked again
	firstRetry  = time.Second            // while it has never answered
)

// Live are the rules in force, which change with the document at a Source. Make one with
// NewLive or Fixed. It is safe for concurrent use, and takes no lock while it need not read.
//
// Nothing runs in the background, for Lambda freezes it. A request that comes when half to
// five sixths of LiveOptions.Every have passed begins a reading, which goes on beside it
// (Settle waits for it at the end), and the next request has what it brought. One that
// comes later than Every after the last reading waits for a new one, up to 100 ms, before it
// is decided: so does the first after a quiet time. The share is drawn anew each time, so
// that environments do not ask together.
//
// A document with mistakes is not put into force: the rules stay as they are. So they do
// while the Source fails, however long, and is then asked about every seven seconds. Versions
// only grow: a document with a lower one than that in force is not put into force, nor is
// another one with the same, for the state in the stores is decided by the highest version
// that it has met. To go back, give the old document a new version.
type Live struct {
	source   Source
	options  LiveOptions
	standing atomic.Pointer[standing]
	observer atomic.Pointer[func(time.Time, News)]
	begin    sync.Mutex // held to begin a reading
	reading  atomic.Pointer[reading]

	judging        sync.Mutex // held by a reading that has an answer; guards:
	taken, refused digest
	verdict        error // on the document that was refused
}

// digest tells documents apart.
type digest struct {
	content [sha256.Size]byte
	version int64
}

// standing is what is known of the source after a reading. It does not change.
type standing struct {
	rules     *Rules
	confirmed time.Time     // when the source last had them; zero if it never had
	tried     int64         // when it was last asked, in Unix nanoseconds
	pause     time.Duration // after which it is asked again
	err       error         // why what it has is not in force
	failed    bool          // it could not be read
}

// age returns how long ago the source was asked. Requests that come together do not come in
// the order of their clocks.
func (s *standing) age(now time.Time) time.Duration { return between(now, s.tried) }

func between(now time.Time, then int64) time.Duration {
	return time.Duration(now.UnixNano() - then).Abs()
}

// reading is one of the source.
type reading struct {
	begun int64 // in Unix nanoseconds
	done  chan struct{}
}

// News is what came of a reading.
type News struct {
	Rules     *Rules    // in force after it
	Confirmed time.Time // when the source last had them; zero if it never had
	Changed   bool      // they are in force since this reading
	Restarts  []string  // counts that began anew with them; see [Restarts]
	// Err is why what the source has is not in force: Problems, which are the document's
	// mistakes; an error that wraps ErrOlder; or that it could not be read.
	Err error
	// Repeated says that Err is no news: it was told of this document before, or the reading
	// before failed too.
	Repeated bool
}

// ErrOlder is a document whose version is lower than that of the rules in force.
var ErrOlder = errors.New("the document is older than the rules in force")

// NewLive returns rules that change with the document at source. initial is in force until
// there has been a reading, and goes before no document if its version is 0. Without it
// Refresh must succeed before the first request.
func NewLive(initial *Rules, source Source, o LiveOptions) *Live {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	l := &Live{source: source, options: o}
	l.standing.Store(&standing{rules: initial})
	return l
}

// Fixed returns rules that do not change.
func Fixed(r *Rules) *Live { return NewLive(r, nil, LiveOptions{}) }

// Observe has f told what comes of each reading that begins from now on, at the instant at
// which it began, in place of whoever was told before. A reading is over when f returns.
func (l *Live) Observe(f func(now time.Time, n News)) { l.observer.Store(&f) }

// Current returns the rules in force, and asks nobody.
func (l *Live) Current() *Rules { return l.standing.Load().rules }

// At returns the rules for a request that comes at now. Call it once for each request, for
// the next call may have others.
func (l *Live) At(ctx context.Context, now time.Time) *Rules {
	s := l.standing.Load()
	if l.source == nil || s.age(now) < s.pause {
		return s.rules
	}
	r := l.read(ctx, now, false)
	if s.age(now) >= l.options.Every && r != nil {
		r.wait()
		s = l.standing.Load()
	}
	return s.rules
}

// Settle waits for the reading that is under way, if there is one, for up to 100 ms. A function
// calls it when a request is decided: what is not done then is frozen.
func (l *Live) Settle() {
	if r := l.reading.Load(); r != nil {
		r.wait()
	}
}

func (r *reading) wait() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// Refresh reads the document at now, whether it is time or not, and waits for it as long as
// ctx lives. The error is why what the source has is not in force, as that of News.
func (l *Live) Refresh(ctx context.Context, now time.Time) error {
	if l.source == nil {
		return nil
	}
	select {
	case <-l.read(ctx, now, true).done:
		return l.standing.Load().err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Charges is Rules.Charges of the rules that At returns.
func (l *Live) Charges(ctx context.Context, now time.Time, method string, path Path, caller limiter.Caller) []limiter.Charge {
	return l.At(ctx, now).Charges(nil, method, path, caller)
}

// read returns the reading that is under way. If there is none it begins one, if it is time
// or has to be; nil if it is not. One that should have ended was frozen, and its connection
// may be dead: another one takes its place.
func (l *Live) read(ctx context.Context, now time.Time, must bool) *reading {
	l.begin.Lock()
	defer l.begin.Unlock()
	r := l.reading.Load()
	if r != nil && between(now, r.begun) <= readTimeout {
		return r
	}
	if s := l.standing.Load(); r == nil && !must && s.age(now) < s.pause { // another request was faster
		return nil
	}
	r = &reading{now.UnixNano(), make(chan struct{})}
	l.reading.Store(r)
	go l.finish(context.WithoutCancel(ctx), now, r)
	return r
}

// finish makes a reading. What comes of it counts unless another one has taken its place.
func (l *Live) finish(ctx context.Context, now time.Time, r *reading) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer close(r.done)
	document, err := l.source.Document(ctx)
	l.judging.Lock()
	defer l.judging.Unlock()
	if l.reading.Load() != r {
		return
	}
	was := l.standing.Load()
	s := &standing{rules: was.rules, confirmed: was.confirmed, tried: now.UnixNano()}
	pause, repeated := l.options.Every, was.failed
	switch {
	case err == nil:
		s.rules, repeated, s.err = l.judge(document, was.rules)
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
	l.standing.Store(s)
	if observe := l.observer.Load(); observe != nil {
		n := News{Rules: s.rules, Confirmed: s.confirmed, Changed: s.rules != was.rules, Err: s.err, Repeated: repeated}
		if n.Changed {
			n.Restarts = Restarts(was.rules, s.rules)
		}
		(*observe)(now, n)
	}
	l.reading.CompareAndSwap(r, nil)
}

// judge returns the rules in force when the source has had a document, where was are those
// before. The error is why they are not the document's, and repeated says whether that is
// known already.
func (l *Live) judge(d Document, was *Rules) (r *Rules, repeated bool, err error) {
	of := digest{sha256.Sum256(d.Content), d.Version}
	switch of {
	case l.taken:
		return was, true, nil
	case l.refused:
		return was, true, l.verdict
	}
	r, err = l.parse(d, was, of.content == l.taken.content)
	if err != nil {
		repeated = of.content == l.refused.content && err.Error() == l.verdict.Error()
		l.refused, l.verdict = of, err
		return was, repeated, err
	}
	l.taken = of
	return r, false, nil
}

// parse reads a document that may go before was. same says that it is the text of was, which
// need not have another version only because its file was written again.
func (l *Live) parse(d Document, was *Rules, same bool) (*Rules, error) {
	o := l.options.Parse
	o.Version = d.Version
	r, err := Parse(d.Content, o)
	switch {
	case err != nil:
		return nil, err
	case r.version == 0: // a change would never act on state that is there already
		return nil, Problems{{"version", "is missing: want one that grows with every change, such as Unix seconds"}}
	case was == nil || r.version > was.version:
		return r, nil
	case r.version < was.version:
		return nil, fmt.Errorf("%w: version %d, and %d is in force: give it a higher one", ErrOlder, r.version, was.version)
	case same:
		return was, nil
	}
	return nil, Problems{{"version", fmt.Sprintf("is %d, that of the rules in force, which are others: give a changed document a higher one", r.version)}}
}
