package limiter

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// parallel is a group of calls that run at the same time. If a call panics, wait panics in the goroutine of the
// request, after all calls have returned. A panic in another goroutine would end the process, because the recover of
// a server reaches only the goroutine of the request.
type parallel struct {
	calls    sync.WaitGroup
	held     []func() // the calls that wait gives to a ConcurrentClock
	panicked atomic.Pointer[storePanic]
}

// keep keeps the panic of a call. Each call MUST defer it.
func (p *parallel) keep() {
	if v := recover(); v != nil {
		p.panicked.CompareAndSwap(nil, panicOf(v))
	}
}

// start runs a call in a goroutine of its own. If clock is not nil, wait gives the call to clock, which runs it.
func (p *parallel) start(clock ConcurrentClock, call func()) {
	if clock != nil {
		p.held = append(p.held, call)
		return
	}
	p.calls.Go(call)
}

// wait waits for all calls, and then repeats the first panic. clock is the same as in start.
func (p *parallel) wait(clock ConcurrentClock) {
	if held := p.held; len(held) > 0 {
		p.held = nil
		clock.Together(held)
	}
	p.calls.Wait()
	if v := p.panicked.Load(); v != nil {
		panic(v)
	}
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
