package decisionlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/outcome"
)

const (
	interval = time.Second // between two batches
	full     = maxPending / 2
	// DefaultBudget is what a request in Lambda waits for a batch at most. A broker near by
	// takes one in a few milliseconds, and the most of them pass beside the store call; a
	// new connection takes two or three requests.
	DefaultBudget = 20 * time.Millisecond
	maxWaits      = 5 // requests that wait for one batch
	// A batch is given up after patience, and not before it has lived through some requests:
	// time in which Lambda freezes the process is no time that a broker had.
	patience    = 5 * time.Second
	minRequests = 3
	// After a failure nothing is sent for a second, then for two, four and so on.
	maxPause = 30 * time.Second
)

// Sink takes events to a broker. A [Publisher] makes one call at a time.
type Sink interface {
	// Send delivers a batch of events, each one line of JSON without its end, and returns how
	// many of them are lost. With ctx it ends soon; it does not keep the batch.
	Send(ctx context.Context, batch [][]byte) (lost int, err error)
}

// Options are what [New] is told. Namespace, Hash and Sink must be there.
type Options struct {
	// Namespace is that of the deployment, as in the keys of its store.
	Namespace string
	// Hash returns what stands for a caller in events; a telemetry.SubjectHash fits.
	Hash func(subject limiter.Subject) string
	Sink Sink
	// OneIn is how many allowed requests an event of one of them stands for: 100 keeps 1 %,
	// 1 keeps all. 0: none is kept.
	OneIn int
	// Budget is how long Wait waits; DefaultBudget in Lambda. 0: it does not, because the
	// process runs between requests too.
	Budget time.Duration
	// Dropped, if not nil, is told of events that were lost, at most once a second.
	Dropped func(now time.Time, events int64)
	// Logger is told why; nil means slog.Default().
	Logger *slog.Logger
}

// Publisher makes events of decisions and sends them in batches. Make one with New; nil
// does nothing. It is safe for concurrent use.
type Publisher struct {
	o           Options
	environment string

	mu       sync.Mutex
	tally    tally
	sequence int64
	flight   *flight
	begun    time.Time     // when the last batch was, or was found to have failed
	pause    time.Duration // after a failure, from then on
	told     time.Time     // when losses were told last
	dropped  int64         // since then
	cause    error
}

// flight is a batch on its way. Its result is read after done.
type flight struct {
	cancel   context.CancelFunc
	done     chan struct{}
	begun    time.Time
	requests int // that it has lived through
	waits    int // requests that may still wait for it
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

// Record adds a request. Call it once for each request, after the decision.
func (p *Publisher) Record(o outcome.Outcome) {
	if p == nil {
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

// Begin begins to send what earlier requests have left, if it is time to. Call it at the start
// of a request, so that a batch goes out beside the store call.
func (p *Publisher) Begin(now time.Time) {
	if p == nil {
		return
	}
	now = now.Round(0) // the monotonic clock may stand still while Lambda freezes the process
	p.mu.Lock()
	if p.landed(now) && p.due(now) {
		p.start(now)
	}
	dropped, cause := p.losses(now)
	p.mu.Unlock()
	p.tell(now, dropped, cause)
}

// Wait waits for a batch on its way, for Options.Budget at most. Call it when the answer is
// ready, where nothing runs after it. Five requests wait for one batch at most.
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

// Close sends, at now, what is left, until ctx ends. Nothing may be recorded any more.
func (p *Publisher) Close(ctx context.Context, now time.Time) {
	if p == nil {
		return
	}
	for range 2 { // a batch on its way, and the last one
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
	p.tell(now, dropped, cause)
}

// landed reports whether no batch is on its way, and reads the result of one that has
// arrived. p.mu is held.
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
		p.begun, p.pause = now, max(interval, min(2*p.pause, maxPause)) // a slow broker rests too
	}
	p.dropped += int64(f.lost)
	p.cause = f.err
	return true
}

// due reports whether a batch is to be sent. A clock that was set back changes nothing for
// long. p.mu is held.
func (p *Publisher) due(now time.Time) bool {
	since := now.Sub(p.begun).Abs()
	n := len(p.tally.events)
	return n > 0 && since >= p.pause && (since >= interval || n >= full)
}

// start sends what is pending, on another goroutine. p.mu is held.
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

// lines returns events as JSON.
func (p *Publisher) lines(taken []*pending, first int64) [][]byte {
	batch := make([][]byte, 0, len(taken))
	for i, each := range taken {
		line, err := json.Marshal(each.event(p.o.Namespace, p.environment, first+int64(i)))
		if err != nil {
			panic("events: " + err.Error()) // text and numbers always marshal
		}
		batch = append(batch, line)
	}
	return batch
}

// losses returns what was lost since it was told last, if it is time to tell. p.mu is held.
func (p *Publisher) losses(now time.Time) (dropped int64, cause error) {
	if p.dropped == 0 || now.Sub(p.told).Abs() < interval {
		return 0, nil
	}
	dropped, p.dropped, p.told = p.dropped, 0, now
	return dropped, p.cause
}

func (p *Publisher) tell(now time.Time, dropped int64, cause error) {
	if dropped == 0 {
		return
	}
	if p.o.Dropped != nil {
		p.o.Dropped(now, dropped)
	}
	p.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "events dropped", slog.Int64("events", dropped), slog.Any("err", cause))
}
