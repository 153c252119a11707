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

// PoolOptions are the options of a Pool.
type PoolOptions struct {
	// Bootstrap, Name, Arguments, Extensions and Variables are as in Options, for each environment.
	Bootstrap, Name                  string
	Arguments, Extensions, Variables []string
	// Max is the maximum number of environments, at least 1.
	Max int
	// Idle is the time after which an idle environment is ended; 0 means never.
	Idle time.Duration
	// Line gets each line that a process writes, without the newline. Calls do not overlap.
	// environment is the name of the function, a slash, and a number that starts at 1. A line
	// of more than 64 KiB is split. nil discards the lines.
	Line func(environment string, line []byte)
	// Logger gets a line for each cold start, crash, timeout and expired environment. It gets at
	// most one line a second for throttled events. nil means slog.Default().
	Logger *slog.Logger
}

// ErrThrottled is the error of an invocation if all environments are busy. Lambda's API
// then answers with status 429.
var ErrThrottled = errors.New("TooManyRequestsException: Rate Exceeded")

// ErrClosed is the error of an invocation of a closed Pool.
var ErrClosed = errors.New("the environments are closed")

// Pool has the environments of one function. It is safe for concurrent use. Create it with
// NewPool.
type Pool struct {
	o      PoolOptions
	ctx    context.Context // context of all cold starts; Close cancels it while it holds mu
	cancel context.CancelFunc
	ended  sync.WaitGroup // counts environments, including those that are about to start

	output  sync.Mutex // held while Line is called
	mu      sync.Mutex
	started int       // number of environments so far
	all     []*member // idle or busy
	idle    []*member // the most recently used is last
	refused int       // throttled events since the last log line about them
	logged  time.Time // time of the last log line about throttled events
}

type member struct {
	*Environment

	name   string
	output lines
	timer  *time.Timer // ends the environment after the idle time; nil without an idle time
	since  time.Time   // when the environment became idle
}

// NewPool returns a Pool without environments. The first invocation starts one.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Max < 1 {
		return nil, fmt.Errorf("function %s: Max: got %d, want 1 or more", o.Name, o.Max)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Pool{o: o}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Invoke sends event to the most recently used idle environment, or to a new one. It returns the same
// answers and errors as [Environment.Invoke]. There are two more errors: [ErrThrottled] if the maximum
// number of environments is busy, and [ErrClosed] after Close. If a process ends, or is killed at the
// deadline of ctx, a later invocation starts another process.
//
// A cold start is part of the invocation. If the deadline passes during the cold start, the
// environment still starts and serves later invocations.
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
	p.logEnd(m, cmp.Or(err, m.end()))
	p.drop(m)
	return answer, err
}

// take returns an idle environment, or a new one that the caller must start. It logs and
// removes environments that ended while idle.
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
		p.logEnd(m, m.end())
		p.forget(m)
		p.end(m)
	}
	return nil, ErrClosed
}

// add returns a new environment that the caller must start, unless the maximum is reached. The
// caller must hold mu.
func (p *Pool) add() (*member, error) {
	if len(p.all) >= p.o.Max {
		p.refuse()
		return nil, ErrThrottled
	}
	p.started++
	m := &member{name: fmt.Sprintf("%s/%d", p.o.Name, p.started)}
	if p.o.Line != nil {
		m.output.handle = func(line []byte) {
			p.output.Lock()
			defer p.output.Unlock()
			p.o.Line(m.name, line)
		}
	}
	p.all = append(p.all, m)
	p.ended.Add(1)
	return m, nil
}

// refuse counts a throttled event and logs the count at most once a second. The caller must
// hold mu.
func (p *Pool) refuse() {
	p.refused++
	if now := time.Now(); now.Sub(p.logged) >= time.Second {
		p.o.Logger.Warn("throttled: all environments are busy", "function", p.o.Name, "environments", p.o.Max, "events", p.refused)
		p.refused, p.logged = 0, now
	}
}

// start starts an environment. The start has the deadline of an init. The deadline of the invocation that
// needs the environment does not apply.
func (p *Pool) start(m *member) error {
	e, err := Start(p.ctx, Options{
		Bootstrap: p.o.Bootstrap, Arguments: p.o.Arguments, Extensions: p.o.Extensions,
		Name: p.o.Name, Variables: p.o.Variables, Output: &m.output,
	})
	p.mu.Lock()
	m.Environment = e
	closed := p.ctx.Err() != nil // Close ran before m had its Environment, so Close did not end it
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
		p.o.Logger.Error("cold start failed", "environment", m.name, "err", err, "last", m.output.lastLine())
		return err
	}
	p.o.Logger.Info("cold start", "environment", m.name, "pid", e.PID, "init", e.Init)
	return nil
}

func (p *Pool) put(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil { // Close has run, and ends the environment
		return
	}
	p.idle = append(p.idle, m)
	if p.o.Idle > 0 {
		m.since = time.Now()
		m.timer = time.AfterFunc(p.o.Idle, func() { p.expire(m) })
	}
}

// expire ends an environment that has been idle for too long. It does nothing if the
// environment has been used since its timer started.
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

// logEnd logs why a process has ended, unless Close ended it.
func (p *Pool) logEnd(m *member, err error) {
	if p.ctx.Err() != nil {
		return
	}
	message := "environment crashed"
	if errors.Is(err, context.DeadlineExceeded) {
		message = "environment timed out"
	}
	p.o.Logger.Error(message, "environment", m.name, "pid", m.PID, "err", err, "last", m.output.lastLine())
}

func (p *Pool) drop(m *member) {
	p.mu.Lock()
	known := p.forget(m)
	p.mu.Unlock()
	if known {
		p.end(m)
	}
}

// forget removes m from the pool and reports whether the pool contained it. The caller must
// hold mu.
func (p *Pool) forget(m *member) bool {
	i := slices.Index(p.all, m)
	if i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
	return i >= 0
}

// end ends an environment that forget has removed, if it was started.
func (p *Pool) end(m *member) {
	if m.Environment != nil {
		_ = m.Close() // the process has ended; the error is about the listener
	}
	m.output.close()
	p.ended.Done()
}

// Close ends all environments and waits for them. Current and later invocations fail.
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
