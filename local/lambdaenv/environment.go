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
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The time limits of Lambda, and the time between SIGTERM and SIGKILL.
const (
	maxInit   = 10 * time.Second
	maxInvoke = 15 * time.Minute
	grace     = 500 * time.Millisecond
)

// Options are the options of an Environment.
type Options struct {
	// Bootstrap is the path of the program.
	Bootstrap string
	// Name is the name of the function.
	Name string
	// Variables are the variables of the function, each NAME=value.
	Variables []string
	// Concurrency is the number of events that the process handles at once, as on Lambda Managed
	// Instances. 0 means 1.
	Concurrency int
	// Output gets stdout and stderr of the process. Writes do not overlap. nil discards the output.
	Output io.Writer
}

// Environment is a process that waits for events. A process that handles one event at a time is frozen
// between them. An Environment is safe for concurrent use. Make one with Start.
type Environment struct {
	// Init is the time from the start of the process to its first request for an event.
	Init time.Duration
	// PID is the id of the process.
	PID int

	name    string
	command *exec.Cmd
	api     *http.Server

	concurrent bool            // the process handles several events at once
	turn       chan struct{}   // an invocation puts an element in and takes it out at its end
	ready      chan struct{}   // gets an element when the process requests an event; if concurrent, only for the first event
	events     chan invocation // events for the process
	mu         sync.Mutex
	pending    map[string]chan<- outcome // requests that have no outcome yet, by id

	ended chan struct{} // closed when the process has ended
	err   error         // why the process ended; valid after ended is closed
}

// ErrEnded is the error of an invocation whose process ended before or during it.
var ErrEnded = errors.New("the process has ended")

// Start starts the process and returns when the process requests its first event. Start waits at most
// ten seconds, and at most until ctx ends. After Start returns, ctx has no effect on the process. If the
// process reports why it cannot start, the error is a [FunctionError]. If the process ends without a
// report, the error is an [ErrEnded], and the output of the process has the reason.
func Start(ctx context.Context, o Options) (*Environment, error) {
	begun := time.Now()
	e, initialized, err := launch(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", o.Name, err)
	}
	if err := e.initialized(ctx, initialized); err != nil {
		return nil, errors.Join(fmt.Errorf("function %s: init: %w", o.Name, err), e.Close())
	}
	e.Init = time.Since(begun)
	return e, nil
}

// launch starts the Runtime API and the process. initialized gets the outcome of the init, if the process
// reports one.
func launch(ctx context.Context, o Options) (e *Environment, initialized <-chan outcome, err error) {
	bootstrap, err := filepath.Abs(o.Bootstrap)
	if err != nil {
		return nil, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	e = &Environment{
		name: o.Name, command: exec.Command(bootstrap), //nolint:noctx // the process outlives ctx
		concurrent: o.Concurrency > 1, turn: make(chan struct{}, max(o.Concurrency, 1)), ready: make(chan struct{}), events: make(chan invocation),
		pending: map[string]chan<- outcome{}, ended: make(chan struct{}),
	}
	if e.concurrent {
		e.ready = make(chan struct{}, 1)
	}
	initialized = e.expect(initRequest)
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
	if e.concurrent {
		e.command.Env = append(e.command.Env, "AWS_LAMBDA_MAX_CONCURRENCY="+strconv.Itoa(o.Concurrency))
	}
	e.command.Stdout, e.command.Stderr = o.Output, o.Output
	e.command.WaitDelay = grace // longest wait for output of child processes that are left behind
	if err := e.run(); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	e.PID = e.command.Process.Pid
	go func() { _ = e.api.Serve(listener) }() // serves until Close
	return e, initialized, nil
}

// run starts the process. It closes ended when the process has ended.
func (e *Environment) run() error {
	endWithParent(e.command)
	started := make(chan error)
	go func() {
		// endWithParent makes the kernel end the process when the thread that started it ends.
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

// initialized waits until the process requests its first event.
func (e *Environment) initialized(ctx context.Context, reported <-chan outcome) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxInit, fmt.Errorf("not done within %s", maxInit))
	defer cancel()
	select {
	case <-e.ready:
		if err := last(reported, nil).err; err != nil { // the process reported an error, but did not end
			return err
		}
		e.freeze()
		return nil
	case <-e.ended:
		return last(reported, e.end()).err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Invoke sends event to the process and waits until the process requests the next event. It
// returns the answer to event. Further concurrent events wait for their turn. The deadline of the
// function is the deadline of ctx, but at most fifteen minutes after the call. At the deadline,
// Invoke kills the process, as Lambda does, and returns the error of ctx. If the function reports
// an error, Invoke returns a [FunctionError].
//
// If the process handles several events at once, Invoke returns when the process has answered. At the
// deadline the process continues, because it has other events.
//
// If ctx has a lambdacontext, the request has the id and the ARN of the lambdacontext. Environment
// implements lambda.Handler.
func (e *Environment) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxInvoke)
	defer cancel()
	o := e.exchange(ctx, newInvocation(ctx, e.name, event))
	if o.err != nil {
		return nil, fmt.Errorf("function %s: %w", e.name, o.err)
	}
	return o.answer, nil
}

// exchange sends i to the process and waits for the outcome. The outcome alone does not end the
// invocation: after an answer the process can continue its work, and after the report of a panic the
// process ends. So exchange waits until the process has requested another event and is frozen, or has
// ended.
func (e *Environment) exchange(ctx context.Context, i invocation) outcome {
	const noAnswer = "no answer by the deadline: %w"
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-e.ended:
		return outcome{err: e.end()}
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("busy until the deadline: %w", err)}
	}
	answered := e.expect(i.id)
	defer e.forget(i.id)
	thaw(e.command)
	select {
	case e.events <- i:
	case <-e.ended:
		return outcome{err: e.end()}
	case <-ctx.Done(): // the process has not requested another event
		if !e.concurrent {
			e.kill()
		}
		return outcome{err: fmt.Errorf(noAnswer, ctx.Err())}
	}
	if e.concurrent {
		select {
		case o := <-answered:
			return o
		case <-e.ended:
			return last(answered, e.end())
		case <-ctx.Done():
			return last(answered, fmt.Errorf(noAnswer, ctx.Err()))
		}
	}
	select {
	case <-e.ready:
		e.freeze()
		return last(answered, errors.New("the function requested the next event without an answer to this one"))
	case <-e.ended:
		return last(answered, e.end())
	case <-ctx.Done():
		e.kill()
		return last(answered, fmt.Errorf(noAnswer, ctx.Err()))
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

// freeze stops the process, unless it handles several events at once.
func (e *Environment) freeze() {
	if !e.concurrent {
		freeze(e.command)
	}
}

// last returns the outcome that the process has reported. If the process has reported no outcome,
// last returns one with the given error.
func last(reported <-chan outcome, none error) outcome {
	select {
	case o := <-reported:
		return o
	default:
		return outcome{err: none}
	}
}

// end returns an error with the exit status of the process, which must have ended.
func (e *Environment) end() error {
	return fmt.Errorf("%w: %w", ErrEnded, cmp.Or(e.err, errors.New("exit status 0")))
}

// kill kills the process and waits for its end.
func (e *Environment) kill() {
	_ = e.command.Process.Kill() // an error means that the process has ended
	<-e.ended
}

// Close sends SIGTERM to the process, and SIGKILL after half a second. It waits until the
// process has ended. A current invocation fails.
func (e *Environment) Close() error {
	_ = e.command.Process.Signal(syscall.SIGTERM) // an error means that the process has ended
	thaw(e.command)                               // a frozen process does not handle signals
	select {
	case <-e.ended:
	case <-time.After(grace):
		e.kill()
	}
	return e.api.Close()
}
