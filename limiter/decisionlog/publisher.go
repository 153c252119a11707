package decisionlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const (
	interval = time.Second // time between the starts of two batches while the number of waiting events is below full
	full     = maxPending / 2
	// DefaultBudget is the longest time that a request in Lambda waits for a batch. A broker in the same
	// network answers in a few milliseconds, most of which pass during the store call. A batch that
	// needs a new connection lasts for two or three requests.
	DefaultBudget = 20 * time.Millisecond
	maxWaits      = 5 // one batch delays at most this number of requests
	// The Publisher cancels a batch that takes longer than patience, if more than minRequests requests arrived in
	// that time. The time alone proves nothing, because it also passes while Lambda freezes the process.
	patience    = 5 * time.Second
	minRequests = 3
	// After a failure the Publisher pauses for one second. The pause doubles with each further failure,
	// up to maxPause.
	maxPause = 30 * time.Second
)

// Sink sends events to a broker. A [Publisher] calls it from one goroutine at a time.
type Sink interface {
	// Send sends a batch of events and returns how many were lost. Each event is a line of JSON
	// without the newline. Send must return soon after ctx ends, and must not keep the batch.
	Send(ctx context.Context, batch [][]byte) (lost int, err error)
}

// Options are the options of a Publisher. Namespace, Hash and Sink are required.
type Options struct {
	// Namespace is the namespace of the deployment, which is also part of the keys in its store.
	Namespace string
	// Hash returns the hash of a caller. It can be a telemetry.SubjectHash.
	Hash func(subject limiter.Subject) string
	Sink Sink
	// OneIn sets the sample of allowed requests: one in OneIn is kept. 100 keeps 1 %, 1 keeps all, and 0
	// keeps none.
	OneIn int
	// Budget bounds the duration of Wait. Use DefaultBudget in Lambda, and 0 in a process that also
	// runs between requests.
	Budget time.Duration
	// The Publisher calls Dropped with the number of lost events, at most once a second. Dropped may be
	// nil.
	Dropped func(now time.Time, events int64)
	// Logger gets the reasons of losses. nil means slog.Default().
	Logger *slog.Logger
}

// Publisher turns outcomes into events and sends them in batches. Create it with New. A nil Publisher
// does nothing. It is safe for concurrent use.
type Publisher struct {
	o           Options
	environment string

	mu       sync.Mutex
	tally    tally
	sequence int64
	flight   *flight
	begun    time.Time     // time at which the last batch began, or at which its failure was noticed
	pause    time.Duration // time from begun to the next batch, after a failure
	reported time.Time     // time of the last report of lost events
	dropped  int64         // number of events lost since that report
	cause    error
}

// flight is a batch that the Publisher is sending. lost and err are valid after done is closed.
type flight struct {
	cancel   context.CancelFunc
	done     chan struct{}
	begun    time.Time
	requests int // number of requests since the batch began
	waits    int // number of requests that may still wait for the batch
	lost     int
	err      error
}

// New returns a Publisher.
func New(o Options) *Publisher {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Publisher{o: o, environment: rand.Text()}
}

// Record adds a request. Call it once for each request after the decision.
func (p *Publisher) Record(o telemetry.Outcome) {
	if p == nil || o.Class() == telemetry.ClassDirect { // any address can be direct, so these events could displace others
		return
	}
	plain := isPlain(&o)
	if plain && !sampled(p.o.OneIn) {
		return
	}
	k := newKey(&o)
	k.subject = p.o.Hash(o.Caller.Subject())
	p.mu.Lock()
	defer p.mu.Unlock()
	if plain {
		p.tally.addSample(k, &o, int64(p.o.OneIn))
	} else {
		p.tally.add(k, &o)
	}
}

// Settled adds the costs that exceeded the max debt of a limit.
func (p *Publisher) Settled(s telemetry.Settlement) {
	if p == nil || len(s.Excess) == 0 {
		return
	}
	subject := p.o.Hash(s.Caller.Subject())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range s.Excess {
		if s.Voucher { // the caller of a voucher is unknown
			subject = p.o.Hash(e.Subject)
		}
		k := key{second: s.Time.Unix(), outcome: telemetry.ClassAllowed, subject: subject, rule: e.Limit.Rule, limit: e.Limit.Name, settled: true}
		if event := p.tally.event(k, s.Time); event != nil {
			event.Count++
			event.seen++
			event.Excess += e.Cost
		}
	}
}

// ErrFull means that there is no room for an event.
var ErrFull = errors.New("decisionlog: too many events wait")

// Notice adds an event for a notice. If there is no room, it returns ErrFull.
func (p *Publisher) Notice(n limiter.Notice) error {
	if p == nil {
		return nil
	}
	subject := p.o.Hash(n.Subject)
	event := newPending(key{outcome: telemetry.ClassAllowed, subject: subject, rule: n.Limit.Rule, limit: n.Limit.Name}, n.Time)
	notice := telemetry.NewNotice(&n, subject)
	event.Count, event.seen, event.Notice, event.Remaining = 1, 1, &notice, max(0, n.Capacity-n.Used)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tally.events) >= maxPending {
		return ErrFull
	}
	p.tally.events = append(p.tally.events, event)
	return nil
}

// Begin starts to send the waiting events if a batch is due. Call it at the start of a request, so
// that the batch is sent during the store call.
func (p *Publisher) Begin(now time.Time) {
	if p == nil {
		return
	}
	now = now.Round(0) // use the wall clock: the monotonic clock can stop while Lambda freezes the process
	p.mu.Lock()
	if p.landed(now) && p.due(now) {
		p.start(now)
	}
	dropped, cause := p.losses(now)
	p.mu.Unlock()
	p.report(now, dropped, cause)
}

// Wait waits for the batch that is being sent, for at most Options.Budget. Call it when the answer is
// ready. At most five requests wait for one batch.
func (p *Publisher) Wait(ctx context.Context) {
	if p == nil || p.o.Budget == 0 {
		return
	}
	p.mu.Lock()
	f := p.flight
	waits := f != nil && f.waits > 0
	if waits {
		f.waits--
	}
	p.mu.Unlock()
	if !waits {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Budget)
	defer cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// Close sends the waiting events at the time now, until ctx ends. Do not call Record after Close.
func (p *Publisher) Close(ctx context.Context, now time.Time) {
	if p == nil {
		return
	}
	// If a batch is being sent, wait for it. Then send the events that still wait as the last batch.
	for range 2 {
		p.mu.Lock()
		if p.landed(now) && len(p.tally.events) > 0 {
			p.start(now)
		}
		f := p.flight
		p.mu.Unlock()
		if f == nil {
			break
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			f.cancel()
			<-f.done
		}
	}
	p.mu.Lock()
	p.landed(now)
	dropped, cause := p.dropped, p.cause
	p.dropped = 0
	p.mu.Unlock()
	p.report(now, dropped, cause)
}

// landed reports whether no batch is being sent. If a batch has ended, landed records its result. p.mu
// is held.
func (p *Publisher) landed(now time.Time) bool {
	f := p.flight
	if f == nil {
		return true
	}
	select {
	case <-f.done:
	default:
		f.requests++
		if f.requests > minRequests && now.Sub(f.begun) >= patience {
			f.cancel()
		}
		return false
	}
	p.flight = nil
	if f.err == nil && f.lost == 0 {
		p.pause = 0
	} else {
		p.begun, p.pause = now, max(interval, min(2*p.pause, maxPause)) // the pause begins now, when the failure is noticed, and not when the batch began
	}
	p.dropped += int64(f.lost)
	p.cause = f.err
	return true
}

// due reports whether a batch must be sent. It compares the absolute time since the last batch, so that
// a clock that was set back does not stop the batches. The caller holds p.mu.
func (p *Publisher) due(now time.Time) bool {
	since := now.Sub(p.begun).Abs()
	n := len(p.tally.events)
	return n > 0 && since >= p.pause && (since >= interval || n >= full)
}

// start sends the waiting events on another goroutine. The caller holds p.mu.
func (p *Publisher) start(now time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{cancel: cancel, done: make(chan struct{}), begun: now, waits: maxWaits}
	taken, first := p.tally.events, p.sequence+1
	p.sequence += int64(len(taken))
	p.dropped += p.tally.dropped
	p.tally, p.flight, p.begun = tally{}, f, now
	go func() {
		defer close(f.done)
		defer cancel()
		f.lost, f.err = p.o.Sink.Send(ctx, p.lines(taken, first))
	}()
}

func (p *Publisher) lines(taken []*pending, first int64) [][]byte {
	batch := make([][]byte, 0, len(taken))
	for i, each := range taken {
		line, err := json.Marshal(each.event(p.o.Namespace, p.environment, first+int64(i)))
		if err != nil {
			panic("decisionlog: " + err.Error()) // Marshal never fails for strings and numbers
		}
		batch = append(batch, line)
	}
	return batch
}

// losses returns the losses since the last report if a report is due. The caller holds p.mu.
func (p *Publisher) losses(now time.Time) (dropped int64, cause error) {
	if p.dropped == 0 || now.Sub(p.reported).Abs() < interval {
		return 0, nil
	}
	dropped, p.dropped, p.reported = p.dropped, 0, now
	return dropped, p.cause
}

func (p *Publisher) report(now time.Time, dropped int64, cause error) {
	if dropped == 0 {
		return
	}
	if p.o.Dropped != nil {
		p.o.Dropped(now, dropped)
	}
	p.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "events dropped", slog.Int64("events", dropped), slog.Any("err", cause))
}
