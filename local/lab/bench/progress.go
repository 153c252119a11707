package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints the name of the current measurement for the user.
type progress struct {
	to   io.Writer
	mu   sync.Mutex
	last time.Time
}

// often is the minimum time between two progress lines.
const often = 2 * time.Second

// step prints the current measurement, unless progress printed a line shortly before.
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < often {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.to, "bench: "+format+"\n", args...)
}

// say always prints the line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	fmt.Fprintf(p.to, "bench: "+format+"\n", args...)
}
