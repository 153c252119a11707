// Package parallel makes calls at the same time. A panic in another goroutine would end the process, because the recover of
// a server reaches only the goroutine of the request.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Calls are calls that run at the same time.
type Calls struct {
	calls    []func()
	group    sync.WaitGroup
	panicked atomic.Pointer[Panic]
}

// Add adds a call.
func (p *Calls) Add(call func()) { p.calls = append(p.calls, call) }

// Run makes all calls, one of them in the goroutine of the caller, and returns after the last one. If a call panics, Run
// then panics too. If clock is not nil, it runs the calls.
func (p *Calls) Run(clock domain.ConcurrentClock) {
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
func (p *Calls) guard(call func()) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked.CompareAndSwap(nil, PanicOf(v))
		}
	}()
	call()
}

// Panic is a panic in another goroutine, with its stack.
type Panic struct {
	value any
	stack []byte
}

// PanicOf returns the panic that recover returned.
func PanicOf(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{v, debug.Stack()}
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
