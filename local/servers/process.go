package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Server is a server that [Start] has started. Stop ends it.
type Server struct {
	// Name is the name of the server, such as redis.
	Name string
	// URL is the address that the server listens on.
	URL string

	command *exec.Cmd
	after   []func() // what Stop calls after the end
	output  *tail
	stop    sync.Once
	stopped chan struct{} // closed by Stop
	done    chan struct{} // closed when the process has ended
	err     error         // how the process ended; valid after done is closed
}

// Timeouts for the start and the end of a server.
const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second // Docker needs time to end its containers
	outputDelay  = time.Second      // longest wait for output of child processes after the end of the server
	pollInterval = 20 * time.Millisecond
)

// Start starts the command and waits until the server answers at address. If command.Stderr is set, the
// output of the server also goes there.
func Start(ctx context.Context, name, address string, command *exec.Cmd, answers func(context.Context) error) (*Server, error) {
	s := &Server{Name: name, URL: address, command: command, output: &tail{}, stopped: make(chan struct{}), done: make(chan struct{})}
	var output io.Writer = s.output
	if command.Stderr != nil {
		output = io.MultiWriter(output, command.Stderr)
	}
	command.Stdout, command.Stderr, command.WaitDelay = output, output, outputDelay
	endWithParent(command)
	started := make(chan error)
	go func() {
		// endWithParent makes the kernel end the child when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			s.err = command.Wait()
		}
		close(s.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := s.await(ctx, answers); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s: %w%s", name, err, s.output)
	}
	return s, nil
}

func (s *Server) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	for answers(ctx) != nil {
		select {
		case <-s.done:
			return fmt.Errorf("the process ended (%w)", s.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// Watch calls died on another goroutine if the server ends before Stop and before the end of
// ctx.
func (s *Server) Watch(ctx context.Context, died func(error)) {
	go func() {
		<-s.done
		select {
		case <-s.stopped:
		case <-ctx.Done():
		default:
			died(cmp.Or(s.err, errors.New("exit status 0")))
		}
	}()
}

// Stop ends the server and waits until it has ended.
func (s *Server) Stop() {
	s.stop.Do(func() { close(s.stopped) })
	interrupt(s.command)
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		_ = s.command.Process.Kill() // the only error is that the process has ended
		<-s.done
	}
	for _, f := range s.after {
		f()
	}
}

// FreePort returns a free port of loopback.
func FreePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// OnStop adds a function that Stop calls after the end of the server, such as one that removes its files.
func (s *Server) OnStop(f func()) { s.after = append(s.after, f) }

// tail keeps the last lines of an output.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, b...)
	t.bytes = t.bytes[max(0, len(t.bytes)-2000):]
	return len(b), nil
}

// String returns a colon and, below it, the indented lines; "" if there was no output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(bytes.ToValidUTF8(t.bytes, nil)))
	if text == "" {
		return ""
	}
	return ":\n  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// ErrMissing means that a program is not installed.
var ErrMissing = errors.New("not found")
