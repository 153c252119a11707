package limiter

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// parallel are calls that run at the same time. A panic in another goroutine would end the process, because the recover of
// a server reaches only the goroutine of the request.
type parallel struct {
	calls    []func()
	group    sync.WaitGroup
	panicked atomic.Pointer[storePanic]
}

func (p *parallel) add(call func()) { p.calls = append(p.calls, call) }

// run makes all calls, one of them in the goroutine of the caller, and returns after the last one. If a call panics, run
// then panics too. If clock is not nil, it runs the calls.
func (p *parallel) run(clock ConcurrentClock) {
	calls := p.calls
	p.calls = calls[:0]
	switch {
	case len(calls) == 0:
		return
	case clock != nil:
		guarded := make([]func(), len(calls))
		for i, call := range calls {
			guarded[i] = func() { p.guard(call) }
		}
		clock.Together(guarded)
	default:
		for _, call := range calls[1:] {
			p.group.Go(func() { p.guard(call) })
		}
		p.guard(calls[0])
	}
	p.group.Wait()
	clear(calls)
	if v := p.panicked.Load(); v != nil {
		panic(v)
	}
}

// guard makes a call, and keeps its panic.
func (p *parallel) guard(call func()) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked.CompareAndSwap(nil, panicOf(v))
		}
	}()
	call()
}

// storePanic is a panic in another goroutine, with its stack.
type storePanic struct {
	value any
	stack []byte
}

// panicOf returns the panic that recover returned.
func panicOf(v any) *storePanic {
	if p, ok := v.(*storePanic); ok {
		return p
	}
	return &storePanic{v, debug.Stack()}
}

// Error returns the value and the stack.
func (p *storePanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *storePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
