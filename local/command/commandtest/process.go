// Package commandtest runs a test binary as the program under test, in a separate process.
package commandtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// mainVariable makes a test binary run the program under test.
const mainVariable = "WEIR_TEST_MAIN=1"

// Main runs program if [Command] started this process, and reports whether it ran. TestMain must call
// it first.
func Main(program func()) bool {
	if os.Getenv("WEIR_TEST_MAIN") == "" {
		return false
	}
	program()
	return true
}

// Command returns a command that runs the program with arguments.
func Command(t *testing.T, args []string, environment ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(append(os.Environ(), mainVariable), environment...)
	return c
}

// Script returns a shell script that runs the program. Tests of documents install it as
// .bin/weir.
func Script(program string) string {
	return fmt.Sprintf("#!/bin/sh\n%s exec '%s' \"$@\"\n", mainVariable, program)
}

// Process is a running program that serves two APIs.
type Process struct {
	*exec.Cmd
	Port   int    // port of the first API
	URL    string // URL of the first API
	Output *Output
}

// Output collects the standard error of a process. It can be read while the process writes.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	Written chan struct{} // receives a value after each write
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{Written: make(chan struct{}, 1)} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.Written <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Start runs the program on free ports and waits until it prints its greeting.
func Start(t *testing.T, args []string, environment ...string) *Process {
	t.Helper()
	for range 10 {
		p, ready := try(t, args, environment)
		if ready {
			return p
		}
		if err := p.Wait(); !strings.Contains(p.Output.String(), InUse) {
			t.Fatalf("program ended before its greeting: got error %v, want a running program\n%s", err, p.Output)
		}
	}
	t.Fatal("free ports: got none, want two")
	return nil
}

func try(t *testing.T, args, environment []string) (p *Process, ready bool) {
	t.Helper()
	port := FreePorts(t)
	c := Command(t, append(args, "--port", strconv.Itoa(port)), environment...)
	p = &Process{c, port, fmt.Sprintf("http://127.0.0.1:%d", port), NewOutput()}
	p.Stderr = p.Output
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Try:") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p, true
		}
	}
	return p, false
}

// InUse is part of an error message. It means that another process took a port after FreePorts
// returned it.
const InUse = "address already in use"

// FreePorts returns a port p. When it returns, p and p+1 are free. If another process takes one of them
// first, the use fails with [InUse]. Then call FreePorts again.
func FreePorts(t *testing.T) int {
	t.Helper()
	port, next := PortBesideTaken(t)
	_ = next.Close()
	return port
}

// PortBesideTaken returns a port that was free, and a listener on the next port.
func PortBesideTaken(t *testing.T) (port int, next net.Listener) {
	t.Helper()
	for range 100 {
		first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		next, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		_ = first.Close()
		if err == nil {
			return port, next
		}
	}
	t.Fatal("free ports: got no two adjacent ports, want them")
	return 0, nil
}
