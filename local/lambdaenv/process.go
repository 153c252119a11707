package lambdaenv

import (
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a program of an environment: the function, or an extension.
type process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

func newProcess(path string, arguments, variables []string, output io.Writer) *process {
	p := &process{command: exec.Command(path, arguments...), ended: make(chan struct{})} //nolint:noctx // the process outlives the context of its start
	p.command.Dir = filepath.Dir(path)
	p.command.Env = variables
	p.command.Stdout, p.command.Stderr = output, output
	p.command.WaitDelay = grace // longest wait for output of child processes that are left behind
	return p
}

// start starts the process. When the process has ended, it calls the function ended with the exit status.
func (p *process) start(ended func(error)) error {
	endWithParent(p.command)
	started := make(chan error)
	go func() {
		// endWithParent makes the kernel end the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			ended(p.command.Wait())
			close(p.ended)
		}
	}()
	return <-started
}

// started reports whether start has succeeded. It must not run at the same time as start.
func (p *process) started() bool { return p.command.Process != nil }

// kill kills the process, which must have started, and waits for its end.
func (p *process) kill() {
	_ = p.command.Process.Kill() // an error means that the process has ended
	<-p.ended
}

// terminate sends SIGTERM to the process if it has started, and SIGKILL after the given time. It waits for
// the end of the process.
func (p *process) terminate(after time.Duration) {
	if !p.started() {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGTERM) // an error means that the process has ended
	p.killAfter(after)
}

// killAfter waits for the end of the process, and kills it after the given time.
func (p *process) killAfter(d time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(d):
		p.kill()
	}
}

type shared struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
