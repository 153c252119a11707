package lambdaenv_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// An Environment implements the handler interface of the local gateway.
var _ lambda.Handler = (*lambdaenv.Environment)(nil)

// TestMain runs an extension or a function instead of the tests if a test starts this program as one.
func TestMain(m *testing.M) {
	if extension := extensions[filepath.Base(os.Args[0])]; extension != nil {
		extension()
		return
	}
	if name := os.Getenv("WEIR_TEST_FUNCTION"); name != "" {
		functions[name]()
		return
	}
	os.Exit(m.Run())
}

type handler func(ctx context.Context, event []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, event []byte) ([]byte, error) { return h(ctx, event) }

func start(h handler) func() { return func() { lambda.Start(h) } }

var echo = start(func(_ context.Context, event []byte) ([]byte, error) { return event, nil })

var functions = map[string]func(){
	"echo": echo,
	"ok":   start(func(context.Context, []byte) ([]byte, error) { return []byte(`{"statusCode":200}`), nil }),
	"context": start(func(ctx context.Context, _ []byte) ([]byte, error) {
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		return json.Marshal([]any{lc.AwsRequestID, lc.InvokedFunctionArn, deadline.UnixMilli(), lambdacontext.FunctionName, os.Getenv("OWN"), os.Getenv("HOME"), os.Getenv("TZ")})
	}),
	"error": start(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("Unauthorized") }),
	"panic": start(func(context.Context, []byte) ([]byte, error) { panic("at the disco") }),
	"foreign trace": func() {
		next := func() string {
			r, err := http.Get(api("invocation/next"))
			if err != nil {
				os.Exit(0)
			}
			_ = r.Body.Close()
			return r.Header.Get("Lambda-Runtime-Aws-Request-Id")
		}
		for {
			r, err := http.Post(api("invocation/"+next()+"/error"), "application/json", strings.NewReader(`{"errorMessage":"no such order","errorType":"TypeError","stackTrace":["File app.py"]}`))
			if err == nil {
				_ = r.Body.Close()
			}
		}
	},
	"exit":     start(func(context.Context, []byte) ([]byte, error) { os.Exit(3); return nil, nil }),
	"large":    start(func(context.Context, []byte) ([]byte, error) { return make([]byte, 6<<20+101), nil }),
	"hang":     start(func(context.Context, []byte) ([]byte, error) { fmt.Println("waiting"); select {} }),
	"hanging":  func() { fmt.Println("starting", os.Getpid()); wait() },
	"stubborn": func() { signal.Ignore(syscall.SIGTERM); echo() },
	"silent":   func() { next(); next() },
	"foreign": func() {
		fmt.Println(post("invocation/1/response"))
		next()
		fmt.Println(post("init/error"), post("invocation/2/response"))
	},
	"call":    start(call),
	"deaf":    func() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP); start(call)() },
	"ticks":   ticks,
	"pieces":  pieces,
	"parent":  parent,
	"bare":    func() { fmt.Println(api("invocation/next")); wait() },
	"mistake": func() { fmt.Println("STORE: got"); os.Exit(1) },
	"report":  func() { post("init/error"); os.Exit(1) },
	"defiant": func() { post("init/error"); next(); wait() },
	"twice":   twice,
	"stream":  streamed,
	"announced": func() {
		fmt.Println("function: started with", os.Args[1])
		lambda.StartWithOptions(handler(func(_ context.Context, event []byte) ([]byte, error) { return event, nil }),
			lambda.WithEnableSIGTERM(func() { fmt.Println("function: terminated") }))
	},
	"meet": start(meet),

	contract.Authorizer: func() { boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamostore.Open}) },
	contract.Handler: func() {
		boot.Start(func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }, boot.Clients{DynamoDB: dynamostore.Open})
	},
}

func api(path string) string {
	return "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/" + path
}

// twice sends two answers to the first event, and one answer to the next event.
func twice() {
	for i := range 2 {
		r, err := http.Get(api("invocation/next")) //nolint:noctx // a runtime waits for an event without a deadline
		if err != nil {
			return
		}
		_ = r.Body.Close()
		path := "invocation/" + r.Header.Get("Lambda-Runtime-Aws-Request-Id") + "/response"
		post(path)
		if i == 0 {
			fmt.Println(post(path))
		}
	}
	next()
}

func wait() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
}

func next() {
	if r, err := http.Get(api("invocation/next")); err == nil { //nolint:noctx // a runtime waits for an event without a deadline
		_ = r.Body.Close()
	}
}

func post(path string) int {
	r, err := http.Post(api(path), "application/json", strings.NewReader(`{"errorType":"Extension.Crash","errorMessage":"no luck"}`)) //nolint:noctx // as above
	if err != nil {
		return 0
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// output collects the output of a function. It calls written with each piece.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	written func(string)
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written != nil {
		o.written(string(b))
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// open starts the function with the given name.
func open(t *testing.T, name string, o *output) (*lambdaenv.Environment, error) {
	t.Helper()
	e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{
		Bootstrap: os.Args[0], Name: name, Variables: []string{"WEIR_TEST_FUNCTION=" + name, "OWN=a value"}, Output: o,
	})
	if err == nil {
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return e, err
}

func opened(t *testing.T, name string) *lambdaenv.Environment {
	t.Helper()
	var o output
	e, err := open(t, name, &o)
	if err != nil {
		t.Fatal(err, &o)
	}
	return e
}

func TestEnvironment_Invoke(t *testing.T) {
	e := opened(t, "echo")
	if e.Init <= 0 {
		t.Errorf("init duration: got %s, want more than 0", e.Init)
	}
	large := bytes.Repeat([]byte("0"), 6<<20)
	for _, event := range [][]byte{[]byte(`{}`), large, []byte(`"again"`)} {
		if answer, err := e.Invoke(t.Context(), event); err != nil || !bytes.Equal(answer, event) {
			t.Errorf("event of %d bytes: got an answer of %d bytes, error %v, want the event", len(event), len(answer), err)
		}
	}
	// A concurrent invocation waits for the first one.
	var group sync.WaitGroup
	for n := range 16 {
		group.Go(func() {
			event := fmt.Sprint(n)
			if answer, err := e.Invoke(t.Context(), []byte(event)); err != nil || string(answer) != event {
				t.Errorf("event %s: got %s, error %v, want the event", event, answer, err)
			}
		})
	}
	group.Wait()
}

// The function gets the environment variables of Lambda, but no variables of this process.
func TestEnvironment_Invoke_context(t *testing.T) {
	e := opened(t, "context")
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "a-1", InvokedFunctionArn: "arn:x"})
	want := fmt.Sprintf(`["a-1","arn:x",%d,"context","a value","",":UTC"]`, deadline.UnixMilli())
	if answer, err := e.Invoke(ctx, []byte(`{}`)); err != nil || string(answer) != want {
		t.Errorf("answer:\n got %s, error %v\nwant %s", answer, err, want)
	}
}

// A failed invocation returns the reason. The error is ErrEnded if the process has ended.
func TestEnvironment_Invoke_failure(t *testing.T) {
	for name, want := range map[string]struct{ first, second string }{
		"error":         {"function error: errorString: Unauthorized", "function error: errorString: Unauthorized"},
		"foreign trace": {"function foreign trace: TypeError: no such order", "function foreign trace: TypeError: no such order"},
		"panic":         {"function panic: string: at the disco", "function panic: the process has ended: exit status 1"},
		"exit":          {"function exit: the process has ended: exit status 3", "function exit: the process has ended: exit status 3"},
		"large":         {"function large: Function.ResponseSizeTooLarge: Response payload size exceeded maximum allowed payload size (6291556 bytes).", "function large: the process has ended: exit status 1"},
		"silent":        {"function silent: the function requested the next event without an answer to this one", "function silent: the process has ended: exit status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := opened(t, name)
			for _, want := range []string{want.first, want.second} {
				_, err := e.Invoke(t.Context(), []byte(`{}`))
				if err == nil || err.Error() != want {
					t.Errorf("error:\n got %v\nwant %s", err, want)
				}
				if errors.Is(err, lambdaenv.ErrEnded) != strings.Contains(want, "has ended") {
					t.Errorf("%v: got ErrEnded %t, want %t", err, errors.Is(err, lambdaenv.ErrEnded), strings.Contains(want, "has ended"))
				}
			}
		})
	}
}

// A function in a separate process returns the same error as a function in the caller's process.
func TestFunctionError(t *testing.T) {
	_, err := opened(t, "error").Invoke(t.Context(), []byte(`{}`))
	if own, ok := errors.AsType[messages.InvokeResponse_Error](err); !ok || own.Message != "Unauthorized" {
		t.Errorf("error: got %v, want the error of aws-lambda-go", err)
	}
}

// expiring is a context whose deadline the test controls.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The environment kills a function that does not answer by its deadline.
func TestEnvironment_Invoke_deadline(t *testing.T) {
	ctx := expiring{t.Context(), make(chan struct{})}
	o := &output{written: func(text string) {
		if text == "waiting\n" {
			close(ctx.done)
		}
	}}
	e, err := open(t, "hang", o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Invoke(ctx, []byte(`{}`))
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "function hang: no answer by the deadline: context deadline exceeded" {
		t.Errorf("invocation of a function that hangs: got error %v, want no answer by the deadline", err)
	}
	if _, err := e.Invoke(t.Context(), []byte(`{}`)); !errors.Is(err, lambdaenv.ErrEnded) || !strings.HasSuffix(err.Error(), "signal: killed") {
		t.Errorf("invocation after the kill: got %v, want ErrEnded", err)
	}
}

// An event that times out in the queue does not affect the process.
func TestEnvironment_Invoke_queueTimeout(t *testing.T) {
	e := opened(t, "echo")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, err := e.Invoke(ctx, []byte(`{}`)); err == nil || err.Error() != "function echo: busy until the deadline: context canceled" {
			t.Errorf("invocation that waits for its turn: got error %v, want busy until the deadline", err)
		}
	}
	if _, err := e.Invoke(t.Context(), []byte(`{}`)); err != nil {
		t.Error(err)
	}
}

func TestStart_failure(t *testing.T) {
	for name, want := range map[string]string{
		"mistake": "function mistake: init: the process has ended: exit status 1",
		"report":  "function report: init: Extension.Crash: no luck",
		"defiant": "function defiant: init: Extension.Crash: no luck",
	} {
		var o output
		_, err := open(t, name, &o)
		if err == nil || err.Error() != want {
			t.Errorf("error:\n got %v\nwant %s", err, want)
		}
		if name == "mistake" && o.String() != "STORE: got\n" {
			t.Errorf("output: got %q, want %q", &o, "STORE: got\n")
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for want, bootstrap := range map[string]string{"function f: init: enough": os.Args[0], "function f: init: fork/exec /nowhere: no such file or directory": "/nowhere"} {
		_, err := lambdaenv.Start(ctx, lambdaenv.Options{Bootstrap: bootstrap, Name: "f", Variables: []string{"WEIR_TEST_FUNCTION=hanging"}})
		if err == nil || err.Error() != want {
			t.Errorf("error:\n got %v\nwant %s", err, want)
		}
	}
}

// The Runtime API rejects an answer with an unknown request id. The answer has no effect.
func TestEnvironment_unknownRequest(t *testing.T) {
	var o output
	e, err := open(t, "foreign", &o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Invoke(t.Context(), []byte(`{}`)); !errors.Is(err, lambdaenv.ErrEnded) {
		t.Error(err)
	}
	if o.String() != "403\n403 403\n" {
		t.Errorf("statuses of the Runtime API: got %q, want 403 three times", &o)
	}
}

// After the first request for an event, the Runtime API rejects an init error.
func TestEnvironment_initialized(t *testing.T) {
	asked := make(chan string, 1)
	o := &output{written: func(text string) {
		asked <- strings.TrimSpace(text)
		go func() {
			if r, err := http.Get(strings.TrimSpace(text)); err == nil { //nolint:noctx // the request ends with the environment
				_ = r.Body.Close()
			}
		}()
	}}
	if _, err := open(t, "bare", o); err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(strings.TrimSuffix(<-asked, "invocation/next")+"init/error", "application/json", strings.NewReader("{}")) //nolint:noctx // the server answers at once
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("status of the init error: got %s, want 403", r.Status)
	}
}

// Close kills a process that ignores SIGTERM.
func TestEnvironment_Close(t *testing.T) {
	for name, want := range map[string]string{"echo": "signal: terminated", "stubborn": "signal: killed"} {
		e := opened(t, name)
		for range 2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := e.Invoke(t.Context(), nil); !errors.Is(err, lambdaenv.ErrEnded) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// The Runtime API rejects a second answer to a request. The next request does not get that answer.
func TestEnvironment_Invoke_twice(t *testing.T) {
	var o output
	e, err := open(t, "twice", &o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 {
		if answer, err := e.Invoke(ctx, []byte(`{}`)); err != nil || !strings.Contains(string(answer), "no luck") {
			t.Errorf("answer: got %s, error %v, want %q in the answer", answer, err, "no luck")
		}
	}
	if o.String() != "403\n" {
		t.Errorf("status of the second answer: got %q, want 403", &o)
	}
}
