package lambdaenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Times that Lambda gives a function, and grace, which is ours to give: a process that
// has been asked to end is killed after it.
const (
	maxInit   = 10 * time.Second
	maxInvoke = 15 * time.Minute
	grace     = 500 * time.Millisecond
)

// Options say what runs in an environment.
type Options struct {
	// Bootstrap is the path of the program.
	Bootstrap string
	// Name is that of the function.
	Name string
	// Variables are the function's own, each NAME=value.
	Variables []string
	// Output gets what the process writes, stdout and stderr alike, one write at a time;
	// nil: nobody gets it.
	Output io.Writer
}

// Environment is a process that waits for events, frozen until there is one. Make it with
// Start; it is safe for concurrent use.
type Environment struct {
	// Init is how long the process took from its start until it asked for an event. It
	// does not change.
	Init time.Duration
	// PID is the id of the process. It does not change.
	PID int

	name    string
	command *exec.Cmd
	api     *http.Server

	turn     chan struct{}   // held by the one invocation at a time
	ready    chan struct{}   // the process asks for an event
	events   chan invocation // and gets it
	outcomes chan outcome    // what became of it, or of the init
	mu       sync.Mutex
	pending  string // the request that has no outcome yet; empty if there is none

	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; read it after ended
}

// ErrEnded is the error of an invocation whose process has ended, before it or in it.
var ErrEnded = errors.New("the process has ended")

// Start starts the process and returns when it asks for its first event. It has ten
// seconds for that, or until the end of ctx, which bounds the init and nothing later.
// The error of a process that reports why it cannot start is a [FunctionError]; one
// that just ends is an [ErrEnded], with the reason in what it has written.
func Start(ctx context.Context, o Options) (*Environment, error) {
	begun := time.Now()
	e, err := launch(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", o.Name, err)
	}
	if err := e.initialized(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("function %s: init: %w", o.Name, err), e.Close())
	}
	e.Init = time.Since(begun)
	return e, nil
}

// launch starts the Runtime API and the process.
func launch(ctx context.Context, o Options) (*Environment, error) {
	bootstrap, err := filepath.Abs(o.Bootstrap)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &Environment{
		name: o.Name, command: exec.Command(bootstrap), //nolint:noctx // it outlives the start
		turn: make(chan struct{}, 1), ready: make(chan struct{}), events: make(chan invocation), outcomes: make(chan outcome, 1),
		pending: initRequest, ended: make(chan struct{}),
	}
	e.api = &http.Server{Handler: e.runtimeAPI(), ReadHeaderTimeout: maxInit}
	e.command.Dir = filepath.Dir(bootstrap)
	e.command.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(),
		"AWS_LAMBDA_FUNCTION_NAME=" + o.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"LAMBDA_TASK_ROOT=" + e.command.Dir,
		"_HANDLER=bootstrap",
		"TZ=:UTC",
	}, o.Variables...)
	e.command.Stdout, e.command.Stderr = o.Output, o.Output
	e.command.WaitDelay = grace // for what a child of its own still writes
	if err := e.run(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	e.PID = e.command.Process.Pid
	go func() { _ = e.api.Serve(listener) }() // until Close
	return e, nil
}

// run starts the process, and closes ended when it has ended.
func (e *Environment) run() error {
	endWithParent(e.command)
	started := make(chan error)
	go func() {
		// The kernel ends the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := e.command.Start()
		started <- err
		if err == nil {
			e.err = e.command.Wait()
			close(e.ended)
		}
	}()
	return <-started
}

// initialized waits until the process asks for its first event.
func (e *Environment) initialized(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxInit, fmt.Errorf("not done within %s", maxInit))
	defer cancel()
	select {
	case <-e.ready:
		if err := e.last(nil).err; err != nil { // it has told of an error, and goes on all the same
			return err
		}
		freeze(e.command)
		return nil
	case <-e.ended:
		return e.last(e.end()).err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Invoke hands event to the process and returns its answer, once the process has asked
// for the next one. Events wait for their turn. The end of ctx, or fifteen minutes, is
// the deadline that the function is told; at it the process is killed, as Lambda does:
// the error is then that of ctx. The error of a function that reports one is a
// [FunctionError].
//
// The request has the id and the ARN of the lambdacontext in ctx, if there is one.
// Invoke makes an Environment a lambda.Handler.
func (e *Environment) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxInvoke)
	defer cancel()
	o := e.exchange(ctx, newInvocation(ctx, e.name, event))
	if o.err != nil {
		return nil, fmt.Errorf("function %s: %w", e.name, o.err)
	}
	return o.answer, nil
}

// exchange hands i out, when it is its turn, and awaits what becomes of it. An event is
// not done with its answer: the process may still have something to do, and ends after a
// panic. What exchange leaves is a process that waits for another event, frozen, or none.
func (e *Environment) exchange(ctx context.Context, i invocation) outcome {
	const noAnswer = "no answer by its deadline: %w"
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-e.ended:
		return outcome{err: e.end()}
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("no turn by its deadline: %w", err)}
	}
	thaw(e.command)
	select {
	case e.events <- i:
	case <-e.ended:
		return outcome{err: e.end()}
	case <-ctx.Done(): // it has hung up, and asks no more
		e.kill()
		return outcome{err: fmt.Errorf(noAnswer, ctx.Err())}
	}
	select {
	case <-e.ready:
		freeze(e.command)
		return e.last(errors.New("it asked for the next event and did not answer this one"))
	case <-e.ended:
		return e.last(e.end())
	case <-ctx.Done():
		e.kill()
		return e.last(fmt.Errorf(noAnswer, ctx.Err()))
	}
}

// hasEnded reports whether the process has ended.
func (e *Environment) hasEnded() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// last returns what the process has said of its request; none if it has said nothing.
func (e *Environment) last(none error) outcome {
	select {
	case o := <-e.outcomes:
		return o
	default:
		return outcome{err: none}
	}
}

// end returns how the process has ended.
func (e *Environment) end() error {
	return fmt.Errorf("%w: %w", ErrEnded, cmp.Or(e.err, errors.New("exit status 0")))
}

// kill ends the process, and waits until it has.
func (e *Environment) kill() {
	_ = e.command.Process.Kill() // it has ended meanwhile, or it is killed
	<-e.ended
}

// Close ends the process, with SIGTERM and, if that does not help within half a second,
// with SIGKILL, and waits until it has. An invocation that is under way fails.
func (e *Environment) Close() error {
	_ = e.command.Process.Signal(syscall.SIGTERM) // or it has ended
	thaw(e.command)                               // or the signal waits
	select {
	case <-e.ended:
	case <-time.After(grace):
		e.kill()
	}
	return e.api.Close()
}
