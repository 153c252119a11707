package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints what is being measured, for a person who waits.
type progress struct {
	to   io.Writer
	mu   sync.Mutex
	last time.Time
}

// often is how long nothing may be heard of a run.
const often = 2 * time.Second

// step says what is measured now, unless something was said just before.
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < often {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.to, "bench: "+format+"\n", args...)
}

// say says something that must be heard.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	fmt.Fprintf(p.to, "bench: "+format+"\n", args...)
}
