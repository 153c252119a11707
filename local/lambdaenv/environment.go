package lambdaenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/functions/contract"
)

// The time limits of Lambda, and the time between SIGTERM and SIGKILL of a process without extensions.
const (
	maxInit   = 10 * time.Second
	maxInvoke = 15 * time.Minute
	grace     = 500 * time.Millisecond
)

// Options are the options of an Environment.
type Options struct {
	// Bootstrap is the path of the program.
	Bootstrap string
	// Arguments are the arguments of the program.
	Arguments []string
	// Extensions are the paths of external extensions. Each one registers under the name of its file.
	Extensions []string
	// Name is the name of the function.
	Name string
	// Variables are the variables of the function and its extensions, each NAME=value.
	Variables []string
	// Concurrency is the number of events that the process handles at once, as on Lambda Managed
	// Instances. 0 means 1.
	Concurrency int
	// Output gets stdout and stderr of all processes. Writes do not overlap. nil discards the output.
	Output io.Writer
}

// Environment is a process that waits for events, with its extensions. If it handles one event at a time,
// all its processes are frozen between events. An Environment is safe for concurrent use. Make one with Start.
type Environment struct {
	// Init is the time from the start of the first process to the end of the init.
	Init time.Duration
	// PID is the id of the process, not of an extension.
	PID int

	name       string
	runtime    *process
	extensions []*extension
	temporary  string // folder of the temporary files of a function with extensions
	api        *http.Server

	concurrent bool            // the process handles several events at once
	turn       chan struct{}   // an invocation puts an element in and takes it out at its end
	ready      chan struct{}   // gets an element when the process requests an event; if concurrent, only for the first event
	events     chan invocation // events for the process
	mu         sync.Mutex
	pending    map[string]request // requests that have no outcome yet, by id

	timedOut atomic.Bool // a missed deadline ended the environment
	failed   sync.Once
	ended    chan struct{} // closed when a process has ended or an extension has reported an error
	err      error         // why the environment ended; valid after ended is closed
}

// ErrEnded is the error of an invocation if a process of its environment ended before or during it.
var ErrEnded = errors.New("the process has ended")

// Start starts the extensions. When all have registered, it starts the process. It returns when the process
// and every extension have requested their first event. Start waits at most ten seconds, and at most until
// ctx ends. After Start returns, ctx has no effect on the processes. If a process reports why it cannot start,
// the error is a [FunctionError]. If a process ends without a report, the error is an [ErrEnded], and the
// output of the process has the reason.
func Start(ctx context.Context, o Options) (*Environment, error) {
	begun := time.Now()
	e, err := newEnvironment(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", o.Name, err)
	}
	if err := e.initialize(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("function %s: init: %w", o.Name, err), e.Close())
	}
	e.Init = time.Since(begun)
	return e, nil
}

// newEnvironment returns an environment that serves its Runtime API and whose processes have not started.
func newEnvironment(ctx context.Context, o Options) (*Environment, error) {
	bootstrap, err := filepath.Abs(o.Bootstrap)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &Environment{
		name: o.Name, concurrent: o.Concurrency > 1, turn: make(chan struct{}, max(o.Concurrency, 1)), ready: make(chan struct{}), events: make(chan invocation),
		pending: map[string]request{}, ended: make(chan struct{}),
	}
	if e.concurrent {
		e.ready = make(chan struct{}, 1)
	}
	variables := append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(),
		"AWS_LAMBDA_FUNCTION_NAME=" + o.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=" + version,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1024",
		"TZ=:UTC",
	}, o.Variables...)
	if e.concurrent {
		variables = append(variables, contract.VariableInit+"="+contract.ManagedInstances)
	}
	if len(o.Extensions) > 0 { // they can exchange files with the process, and Lambda gives each environment its own /tmp
		if e.temporary, err = os.MkdirTemp("", "lambdaenv-"); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		variables = append(variables, contract.VariableLayerFolder+"="+e.temporary)
	}
	own := append([]string{
		"LAMBDA_TASK_ROOT=" + filepath.Dir(bootstrap), "_HANDLER=" + handler, "AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + o.Name, "AWS_LAMBDA_LOG_STREAM_NAME=local",
	}, variables...)
	if e.concurrent { // extensions do not get this variable
		own = append(own, "AWS_LAMBDA_MAX_CONCURRENCY="+strconv.Itoa(o.Concurrency))
	}
	output := &shared{w: cmp.Or(o.Output, io.Discard)}
	e.runtime = newProcess(bootstrap, o.Arguments, own, output)
	for _, path := range o.Extensions {
		e.extensions = append(e.extensions, newExtension(path, variables, output))
	}
	e.api = &http.Server{Handler: e.runtimeAPI(), ReadHeaderTimeout: maxInit}
	go func() { _ = e.api.Serve(listener) }() // serves until Close
	return e, nil
}

// initialize starts all processes and waits until they have requested their first event.
func (e *Environment) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxInit, fmt.Errorf("not done within %s", maxInit))
	defer cancel()
	if err := e.startExtensions(ctx); err != nil {
		return err
	}
	reported := e.expect(initRequest, nil)
	if err := e.runtime.start(e.fail); err != nil {
		return err
	}
	e.PID = e.runtime.command.Process.Pid
	err := e.await(ctx, e.ready)
	if err := last(reported, err).err; err != nil { // a process that reported an error may also request an event
		return err
	}
	for _, x := range e.extensions {
		if err := e.await(ctx, x.ready); err != nil {
			return err
		}
	}
	e.freeze()
	return nil
}

// await waits for c, the end of the environment or the end of ctx.
func (e *Environment) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-e.ended:
		return e.end()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Invoke sends event to the process and to the extensions that registered for INVOKE. It waits until
// all of them request the next event, and returns the answer to event. Further concurrent events wait for
// their turn. The deadline of the function is the deadline of ctx, but at most fifteen minutes after the
// call. At the deadline, Invoke kills the process, as Lambda does, and returns the error of ctx. If the
// function reports an error, Invoke returns a [FunctionError]. If an extension ends, the error is an
// [ErrEnded] and a [FunctionError] of the type Extension.Crash.
//
// If the process handles several events at once, Invoke returns when the process has answered. At the
// deadline the process continues, because it has other events.
//
// If ctx has a lambdacontext, the request has the id and the ARN of the lambdacontext. Environment
// implements lambda.Handler.
func (e *Environment) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	return e.invoke(ctx, event, nil)
}

// Stream is like Invoke, but writes the answer to w. If the function streams its answer, Stream writes each
// part when it arrives. After an error, w can have the first parts of the answer.
func (e *Environment) Stream(ctx context.Context, event []byte, w io.Writer) error {
	parts := &stream{w: w}
	defer parts.close()
	answer, err := e.invoke(ctx, event, parts)
	if err == nil && len(answer) > 0 {
		_, err = parts.Write(answer)
	}
	return err
}

func (e *Environment) invoke(ctx context.Context, event []byte, parts io.Writer) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxInvoke)
	defer cancel()
	o := e.exchange(ctx, newInvocation(ctx, e.name, event), parts)
	if o.err != nil {
		return nil, fmt.Errorf("function %s: %w", e.name, o.err)
	}
	return o.answer, nil
}

// exchange sends i to the process and waits for the outcome. The outcome alone does not end the
// invocation: after an answer the process can continue its work, and after the report of a panic the
// process ends. So exchange waits until all processes have requested another event and are frozen, or the
// environment has ended.
func (e *Environment) exchange(ctx context.Context, i invocation, parts io.Writer) outcome {
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
	if e.hasEnded() { // no extension reads another event
		return outcome{err: e.end()}
	}
	answered := e.expect(i.id, parts)
	defer e.forget(i.id)
	extensions := e.announce(i)
	e.thaw()
	select {
	case e.events <- i:
	case <-e.ended:
		return e.crashed(answered)
	case <-ctx.Done(): // the process has not requested another event
		return e.late(ctx, answered)
	}
	if e.concurrent {
		select {
		case o := <-answered:
			return o
		case <-e.ended:
			return e.crashed(answered)
		case <-ctx.Done():
			return e.late(ctx, answered)
		}
	}
	for _, ready := range append(extensions, e.ready) {
		select {
		case <-ready:
		case <-e.ended:
			return e.crashed(answered)
		case <-ctx.Done():
			return e.late(ctx, answered)
		}
	}
	e.freeze()
	return last(answered, errors.New("the function requested the next event without an answer to this one"))
}

// crashed returns the outcome of an invocation whose environment has ended. If an extension has ended, the
// process still runs, and crashed kills it.
func (e *Environment) crashed(answered <-chan outcome) outcome {
	e.runtime.kill()
	o := last(answered, e.end())
	if f, ok := errors.AsType[FunctionError](o.err); ok && f.Type == truncated { // a consequence of the end
		o.err = e.end()
	}
	return o
}

// late returns the outcome of an invocation at its deadline. It kills a process that has no other events.
func (e *Environment) late(ctx context.Context, answered <-chan outcome) outcome {
	o := last(answered, fmt.Errorf("no answer by the deadline: %w", ctx.Err()))
	if !e.concurrent {
		e.timedOut.Store(true)
		e.runtime.kill()
	}
	return o
}

func (e *Environment) hasEnded() bool { return closed(e.ended) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// freeze stops all processes, unless they handle several events at once.
func (e *Environment) freeze() {
	if e.concurrent {
		return
	}
	for p := range e.processes() {
		freeze(p.command)
	}
}

func (e *Environment) thaw() {
	for p := range e.processes() {
		thaw(p.command)
	}
}

func (e *Environment) processes() iter.Seq[*process] {
	return func(yield func(*process) bool) {
		for _, x := range e.extensions {
			if x.started() && !yield(x.process) {
				return
			}
		}
		if e.runtime.started() {
			yield(e.runtime)
		}
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

// fail ends the environment. Only the first call has an effect.
func (e *Environment) fail(err error) {
	e.failed.Do(func() {
		e.err = err
		close(e.ended)
	})
}

// end returns an error with the reason why the environment, which must have ended, has ended.
func (e *Environment) end() error {
	return fmt.Errorf("%w: %w", ErrEnded, cmp.Or(e.err, errors.New("exit status 0")))
}

// Close sends SIGTERM to the process, and SIGKILL after half a second. It waits until the process has ended. A
// current invocation fails. If there are extensions, SIGKILL follows after 300 milliseconds. Then each extension that
// registered for the event SHUTDOWN gets it, and SIGKILL two seconds after the call of Close. Other extensions get
// SIGKILL at once.
func (e *Environment) Close() error {
	reason := "spindown"
	if e.timedOut.Load() {
		reason = "timeout"
	} else if e.hasEnded() {
		reason = "failure"
	}
	deadline := time.Now().Add(maxShutdown)
	e.thaw()
	if len(e.extensions) == 0 {
		e.runtime.terminate(grace)
	} else {
		e.runtime.terminate(runtimeGrace)
		e.shutDown(reason, deadline)
	}
	return errors.Join(e.api.Close(), os.RemoveAll(e.temporary))
}
