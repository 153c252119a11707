package lambdaenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// PoolOptions say what runs in the environments of a Pool, and in how many.
type PoolOptions struct {
	// Bootstrap, Name and Variables are those of each environment, as in Options.
	Bootstrap, Name string
	Variables       []string
	// Max is how many environments there are at most; at least 1.
	Max int
	// Idle is how long an environment waits for an event before it is ended; 0: as long
	// as the Pool lives.
	Idle time.Duration
	// Line gets each line that a process writes, without its end, by one call at a time.
	// The environment is the function's name, a slash, and a number from 1 up. A line of
	// more than 64 KiB comes in parts. Nil: nobody gets them.
	Line func(environment string, line []byte)
	// Logger gets a line for each cold start, crash and timeout, for each environment that
	// was idle for too long, and once a second at most for events that were refused; nil
	// means slog.Default().
	Logger *slog.Logger
}

// ErrThrottled is the error of an invocation for which there is no environment left, which
// Lambda's API answers with a status of 429.
var ErrThrottled = errors.New("TooManyRequestsException: Rate Exceeded")

// ErrClosed is the error of an invocation of a Pool that is closed.
var ErrClosed = errors.New("the environments are closed")

// Pool is the environments of one function, as Lambda has them. Make it with NewPool; it
// is safe for concurrent use.
type Pool struct {
	o      PoolOptions
	ctx    context.Context // of the starts; ends with Close, which holds mu then
	cancel context.CancelFunc
	ended  sync.WaitGroup // of the environments, from before their start

	output  sync.Mutex // held while Line is called
	mu      sync.Mutex
	started int       // how many there were
	all     []*member // whether idle or not
	idle    []*member // the one used most recently comes last
	refused int       // events, since told
	told    time.Time
}

// member is an environment of a Pool.
type member struct {
	*Environment

	name   string
	output lines
	timer  *time.Timer // ends it when it was idle for too long; nil if nothing does
	since  time.Time   // when it became idle
}

// NewPool returns a Pool without environments: the first invocation starts one.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Max < 1 {
		return nil, fmt.Errorf("function %s: got %d environments at most, want 1 or more", o.Name, o.Max)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Pool{o: o}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Invoke hands event to the idle environment that was used most recently, or to one that
// it starts, and returns its answer, as [Environment.Invoke] does. The error is an
// [ErrThrottled] if there are as many as there may be and all are busy, and an
// [ErrClosed] after Close. A process that ends, or is killed at the deadline of ctx, is
// gone; who comes next finds another.
//
// A cold start is a part of the invocation. If the deadline passes meanwhile, the
// environment starts nevertheless and is there for others.
func (p *Pool) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	m, err := p.take()
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", p.o.Name, err)
	}
	if m.Environment == nil {
		if err := p.start(m); err != nil {
			return nil, err
		}
	}
	answer, err := m.Invoke(ctx, event)
	if !m.hasEnded() {
		p.put(m)
		return answer, err
	}
	p.tell(m, cmp.Or(err, m.end()))
	p.drop(m)
	return answer, err
}

// take returns an idle environment, or one that is to be started. One that has ended while
// it was idle is told of and forgotten.
func (p *Pool) take() (*member, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.ctx.Err() == nil {
		n := len(p.idle) - 1
		if n < 0 {
			return p.add()
		}
		m := p.idle[n]
		p.idle = p.idle[:n]
		if m.timer != nil {
			m.timer.Stop()
		}
		if !m.hasEnded() {
			return m, nil
		}
		p.tell(m, m.end())
		p.forget(m)
		p.end(m)
	}
	return nil, ErrClosed
}

// add returns an environment that is to be started, if there may be one more. It requires
// that mu is held.
func (p *Pool) add() (*member, error) {
	if len(p.all) >= p.o.Max {
		p.refuse()
		return nil, ErrThrottled
	}
	p.started++
	m := &member{name: fmt.Sprintf("%s/%d", p.o.Name, p.started)}
	if p.o.Line != nil {
		m.output.each = func(line []byte) {
			p.output.Lock()
			defer p.output.Unlock()
			p.o.Line(m.name, line)
		}
	}
	p.all = append(p.all, m)
	p.ended.Add(1)
	return m, nil
}

// refuse counts an event that is refused, and logs how many there were, now and then. It
// requires that mu is held.
func (p *Pool) refuse() {
	p.refused++
	if now := time.Now(); now.Sub(p.told) >= time.Second {
		p.o.Logger.Warn("throttled: all environments are busy", "function", p.o.Name, "environments", p.o.Max, "events", p.refused)
		p.refused, p.told = 0, now
	}
}

// start starts an environment. Its deadline is that of an init, and not of the invocation
// that needs it.
func (p *Pool) start(m *member) error {
	e, err := Start(p.ctx, Options{Bootstrap: p.o.Bootstrap, Name: p.o.Name, Variables: p.o.Variables, Output: &m.output})
	p.mu.Lock()
	m.Environment = e
	closed := p.ctx.Err() != nil // Close has not seen it
	if err != nil || closed {
		p.forget(m)
	}
	p.mu.Unlock()
	switch {
	case closed:
		p.end(m)
		return fmt.Errorf("function %s: %w", p.o.Name, ErrClosed)
	case err != nil:
		p.end(m)
		p.o.Logger.Error("cold start failed", "environment", m.name, "err", err, "last", string(m.output.last))
		return err
	}
	p.o.Logger.Info("cold start", "environment", m.name, "pid", e.PID, "init", e.Init)
	return nil
}

// put makes an environment idle.
func (p *Pool) put(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil { // Close ends it
		return
	}
	p.idle = append(p.idle, m)
	if p.o.Idle > 0 {
		m.since = time.Now()
		m.timer = time.AfterFunc(p.o.Idle, func() { p.expire(m) })
	}
}

// expire ends an environment that is idle for too long, unless it was used meanwhile.
func (p *Pool) expire(m *member) {
	p.mu.Lock()
	i := slices.Index(p.idle, m)
	if i < 0 || time.Since(m.since) < p.o.Idle {
		p.mu.Unlock()
		return
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	known := p.forget(m)
	p.mu.Unlock()
	if known {
		p.o.Logger.Info("idle environment ended", "environment", m.name, "pid", m.PID)
		p.end(m)
	}
}

// tell logs why a process has ended, unless it was by Close.
func (p *Pool) tell(m *member, err error) {
	if p.ctx.Err() != nil {
		return
	}
	message := "environment crashed"
	if errors.Is(err, context.DeadlineExceeded) {
		message = "environment timed out"
	}
	p.o.Logger.Error(message, "environment", m.name, "pid", m.PID, "err", err, "last", string(m.output.last))
}

// drop ends an environment, if it has not ended, and forgets it: at once, as a process
// that is about to end does nothing for anybody.
func (p *Pool) drop(m *member) {
	p.mu.Lock()
	known := p.forget(m)
	p.mu.Unlock()
	if known {
		p.end(m)
	}
}

// forget reports whether m was known until now. It requires that mu is held.
func (p *Pool) forget(m *member) bool {
	i := slices.Index(p.all, m)
	if i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
	return i >= 0
}

// end ends an environment that is forgotten, if it has not ended or was never there.
func (p *Pool) end(m *member) {
	if m.Environment != nil {
		_ = m.Close() // the error is the listener's: the process has ended
	}
	m.output.close()
	p.ended.Done()
}

// Close ends all environments and waits until they have ended. Invocations that are under
// way fail, and so do later ones.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.cancel()
	for _, m := range p.all {
		if m.Environment != nil {
			go p.drop(m)
		}
	}
	p.mu.Unlock()
	p.ended.Wait()
	return nil
}
