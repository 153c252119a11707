package lambdaenv_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/local/lambdaenv"
)

// extensions maps the name of a file to an extension of the tests. TestMain runs it if this program has
// that name.
var extensions = map[string]func(){
	"observer":   func() { extend("observer", `{"events":["INVOKE","SHUTDOWN"]}`) },
	"second":     func() { extend("second", `{"events":["INVOKE"]}`) },
	"terminator": func() { extend("terminator", `{"events":["SHUTDOWN"]}`) },
	"deafened":   func() { extend("deafened", `{"events":["INVOKE","SHUTDOWN"]}`) },
	"early":      func() { fmt.Println("no configuration"); os.Exit(4) },
	"unready":    func() { register("unready", `{}`); os.Exit(5) },
	"reporting": func() {
		id := register("reporting", `{}`)
		fmt.Println(callExtension("POST", "init/error", `{"errorMessage":"no luck","errorType":"x"}`, "Lambda-Extension-Identifier", id, "Lambda-Extension-Function-Error-Type", "Extension.NoLuck").StatusCode)
		wait()
	},
	"intruder": intrude,
	"guard":    guard,
}

// callExtension calls the Extensions API with headers, which are names and values in turn.
func callExtension(method, path, body string, headers ...string) *http.Response {
	request, err := http.NewRequestWithContext(context.Background(), method, "http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+"/2020-01-01/extension/"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	return r
}

func register(name, body string) (id string) {
	r := callExtension("POST", "register", body, "Lambda-Extension-Name", name)
	text, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		fmt.Printf("%s: register: %d %s\n", name, r.StatusCode, text)
		os.Exit(6)
	}
	return r.Header.Get("Lambda-Extension-Identifier")
}

// extend is an extension that prints its events. The id of a request can be an instruction for it.
func extend(name, events string) {
	id := register(name, events)
	fmt.Printf("%s: registered %d OWN=%s _HANDLER=%s\n", name, os.Getpid(), os.Getenv("OWN"), os.Getenv("_HANDLER"))
	for {
		r := callExtension("GET", "event/next", "", "Lambda-Extension-Identifier", id)
		var event struct {
			EventType, RequestID, InvokedFunctionArn, ShutdownReason string
			DeadlineMs                                               int64
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			panic(err)
		}
		_ = r.Body.Close()
		fmt.Printf("%s: %s %s%s %t\n", name, event.EventType, event.RequestID, event.ShutdownReason, event.DeadlineMs > 0)
		switch {
		case event.EventType == "SHUTDOWN" && name == "deafened":
			select {}
		case event.EventType == "SHUTDOWN":
			os.Exit(0)
		case event.RequestID == "crash":
			os.Exit(2)
		case event.RequestID == "report":
			_ = callExtension("POST", "exit/error", "no JSON", "Lambda-Extension-Identifier", id, "Lambda-Extension-Function-Error-Type", "Extension.Broken").Body.Close()
			os.Exit(0)
		case strings.HasPrefix(event.RequestID, "gate-"):
			address, err := hex.DecodeString(strings.TrimPrefix(event.RequestID, "gate-"))
			if err != nil {
				panic(err)
			}
			for _, path := range []string{"/working/" + strconv.Itoa(os.Getpid()), "/finished"} {
				r, err := http.Get(string(address) + path) //nolint:noctx // the test opens its gate
				if err != nil {
					panic(err)
				}
				_ = r.Body.Close()
			}
		}
	}
}

// intrude prints the answers to requests that the Extensions API must reject.
func intrude() {
	for _, r := range []*http.Response{
		callExtension("POST", "register", `{}`, "Lambda-Extension-Name", "stranger"),
		callExtension("POST", "register", `{"events":["LOGS"]}`, "Lambda-Extension-Name", "intruder"),
		callExtension("POST", "register", `{"events":`, "Lambda-Extension-Name", "intruder"),
		callExtension("POST", "register", `{"events":["`+strings.Repeat("x", 64<<10)+`"]}`, "Lambda-Extension-Name", "intruder"),
		callExtension("GET", "event/next", ""),
	} {
		fmt.Println(r.StatusCode)
	}
	id := register("intruder", `{}`)
	fmt.Println(callExtension("POST", "register", `{}`, "Lambda-Extension-Name", "intruder").StatusCode)
	callExtension("GET", "event/next", "", "Lambda-Extension-Identifier", id)
}

func link(t *testing.T, name string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func extended(t *testing.T, function string, o *output, names ...string) (*lambdaenv.Environment, error) {
	t.Helper()
	options := lambdaenv.Options{Bootstrap: os.Args[0], Arguments: []string{"argument"}, Name: function, Variables: []string{"WEIR_TEST_FUNCTION=" + function, "OWN=a value"}, Output: o}
	for _, name := range names {
		options.Extensions = append(options.Extensions, link(t, name))
	}
	e, err := lambdaenv.Start(t.Context(), options)
	if err == nil {
		t.Cleanup(func() { _ = e.Close() })
	}
	return e, err
}

// withID returns a context of a request with an id, which instructs an extension of the tests.
func withID(ctx context.Context, id string) context.Context {
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: id, InvokedFunctionArn: "arn:x"})
}

// pidOf returns the process id that an extension of the tests prints before its first event.
func pidOf(t *testing.T, o *output, name string) (pid int) {
	t.Helper()
	for {
		if _, after, found := strings.Cut(o.String(), name+": registered "); found && strings.Contains(after, "\n") {
			if _, err := fmt.Sscan(after, &pid); err != nil {
				t.Fatal(err, o)
			}
			return pid
		}
		runtime.Gosched() // the output arrives after the event
	}
}

// The process starts after all extensions have registered. Each event goes to the extensions that registered
// for it. At the end, the process gets SIGTERM before the extensions get SHUTDOWN.
func TestStart_extensions(t *testing.T) {
	var o output
	e, err := extended(t, "announced", &o, "observer", "terminator")
	if err != nil {
		t.Fatal(err, &o)
	}
	for _, id := range []string{"a-1", "a-2"} {
		if answer, err := e.Invoke(withID(t.Context(), id), []byte(`{}`)); err != nil || string(answer) != `{}` {
			t.Errorf("answer: got %s, error %v, want the event", answer, err)
		}
	}
	pids := map[string]int{"observer": pidOf(t, &o, "observer"), "terminator": pidOf(t, &o, "terminator")}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	text := o.String()
	position := func(line string) int {
		at := strings.Index(text, line+"\n")
		if at < 0 {
			t.Errorf("output: got\n%s\nwant the line %q", text, line)
		}
		return at
	}
	for name, pid := range pids {
		if registered, started := position(fmt.Sprintf("%s: registered %d OWN=a value _HANDLER=", name, pid)), position("function: started with argument"); registered > started {
			t.Errorf("output: got\n%s\nwant the registration of %s before the start of the function", text, name)
		}
		if terminated, shutdown := position("function: terminated"), position(name+": SHUTDOWN spindown true"); terminated > shutdown {
			t.Errorf("output: got\n%s\nwant the end of the function before SHUTDOWN", text)
		}
	}
	position("observer: INVOKE a-1 true")
	position("observer: INVOKE a-2 true")
	if strings.Contains(text, "terminator: INVOKE") {
		t.Errorf("output: got\n%s\nwant no INVOKE for an extension that registered for SHUTDOWN", text)
	}
}

// An invocation ends when the extensions have requested the next event. Then they are frozen, too.
func TestEnvironment_Invoke_extensions(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1, Extensions: []string{link(t, "observer"), link(t, "second")}})
	working, open := make(chan int), make(chan struct{})
	var finished atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var pid int
		if _, err := fmt.Sscanf(r.URL.Path, "/working/%d", &pid); err != nil {
			finished.Add(1)
			return
		}
		working <- pid
		<-open
	}))
	t.Cleanup(s.Close)
	done := make(chan error)
	go func() {
		_, err := p.call(withID(t.Context(), "gate-"+hex.EncodeToString([]byte(s.URL))), "")
		done <- err
	}()
	pids := []int{<-working, <-working}
	close(open)
	if err := <-done; err != nil || finished.Load() != 2 {
		t.Errorf("invocation: got error %v after %d extensions finished, want 2", err, finished.Load())
	}
	for _, pid := range pids {
		await(t, pid, "T")
	}
}

// An extension that ends, or reports an error, fails the invocation and ends the environment.
func TestEnvironment_Invoke_extensionFailure(t *testing.T) {
	for id, want := range map[string]struct{ kind, message string }{
		"crash":  {"Extension.Crash", "extension observer: exit status 2"},
		"report": {"Extension.ExitError", "extension observer: Extension.Broken: "},
	} {
		var o output
		e, err := extended(t, "hang", &o, "observer", "terminator")
		if err != nil {
			t.Fatal(err, &o)
		}
		for range 20 { // more than the events that the extension can leave unread
			_, err := e.Invoke(withID(t.Context(), id), []byte(`{}`))
			if want := "function hang: the process has ended: " + want.kind + ": " + want.message; err == nil || err.Error() != want || !errors.Is(err, lambdaenv.ErrEnded) {
				t.Errorf("error:\n got %v\nwant %s, which is ErrEnded", err, want)
			}
			if f, ok := errors.AsType[lambdaenv.FunctionError](err); !ok || f.Type != want.kind {
				t.Errorf("error: got %v, want a FunctionError of type %s", err, want.kind)
			}
			gone(t, e.PID)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(o.String(), "terminator: SHUTDOWN failure true\n") {
			t.Errorf("output: got\n%s\nwant the event SHUTDOWN for the other extension", &o)
		}
	}
}

// After the crash of an extension, the pool starts another environment. No other invocation fails.
func TestPool_extensionCrash(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1, Extensions: []string{link(t, "observer")}})
	first := p.called("")
	if _, err := p.call(withID(t.Context(), "crash"), "hang"); !errors.Is(err, lambdaenv.ErrEnded) || !strings.Contains(err.Error(), "Extension.Crash") {
		t.Errorf("invocation whose extension ends: got error %v, want Extension.Crash", err)
	}
	gone(t, first.PID)
	for n := range 2 {
		if c := p.called(""); c.PID == first.PID || c.Times != n+1 {
			t.Errorf("answer: got %+v, want invocation %d of a new process", c, n+1)
		}
	}
	p.logged(1, "environment crashed")
	p.logged(2, "cold start")
}

// The event SHUTDOWN has the reason why the environment ends.
func TestPool_shutdownReason(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1, Extensions: []string{link(t, "observer")}})
	ctx := expiring{t.Context(), make(chan struct{})}
	go func() {
		for !strings.Contains(<-p.line, "hanging") {
		}
		close(ctx.done)
	}()
	if _, err := p.call(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("invocation that hangs: got error %v, want context.DeadlineExceeded", err)
	}
	if _, err := p.call(t.Context(), "exit"); !errors.Is(err, lambdaenv.ErrEnded) {
		t.Errorf("invocation that exits: got error %v, want ErrEnded", err)
	}
	p.called("")
	_ = p.Close()
	for i, reason := range []string{"timeout", "failure", "spindown"} {
		if line, text := fmt.Sprintf("call/%d observer: SHUTDOWN %s true", i+1, reason), strings.Join(p.lines, "\n"); !strings.Contains(text, line) {
			t.Errorf("output: got\n%s\nwant %q", text, line)
		}
	}
}

// Close kills an extension that does not end after SHUTDOWN, and one that did not register for SHUTDOWN.
func TestEnvironment_Close_extensions(t *testing.T) {
	var o output
	e, err := extended(t, "echo", &o, "deafened", "second")
	if err != nil {
		t.Fatal(err, &o)
	}
	deaf, second := pidOf(t, &o, "deafened"), pidOf(t, &o, "second")
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		gone(t, deaf)
		gone(t, second)
	}
	if text := o.String(); !strings.Contains(text, "deafened: SHUTDOWN spindown true\n") || strings.Contains(text, "second: SHUTDOWN") {
		t.Errorf("output: got\n%s\nwant SHUTDOWN for the extension that registered for it", text)
	}
}

func TestStart_extensionFailure(t *testing.T) {
	for name, want := range map[string]string{
		"early":     "function echo: init: the process has ended: Extension.Crash: extension early: exit status 4",
		"unready":   "function echo: init: the process has ended: Extension.Crash: extension unready: exit status 5",
		"reporting": "function echo: init: the process has ended: Extension.InitError: extension reporting: Extension.NoLuck: no luck",
		"absent":    "function echo: init: Extension.LaunchError: extension absent: fork/exec /nowhere/absent: no such file or directory",
	} {
		options := lambdaenv.Options{Bootstrap: os.Args[0], Name: "echo", Variables: []string{"WEIR_TEST_FUNCTION=echo"}, Extensions: []string{"/nowhere/absent"}}
		if name != "absent" {
			options.Extensions = []string{link(t, "observer"), link(t, name)}
		}
		if _, err := lambdaenv.Start(t.Context(), options); err == nil || err.Error() != want {
			t.Errorf("error:\n got %v\nwant %s", err, want)
		}
	}
}

// The Extensions API rejects unknown extensions and events, invalid or large bodies, and a second
// registration.
func TestStart_extensionRequests(t *testing.T) {
	var o output
	e, err := extended(t, "echo", &o, "intruder")
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
	if want := "403\n400\n400\n400\n403\n403\n"; o.String() != want {
		t.Errorf("statuses: got %q, want %q", &o, want)
	}
}

// Where a process handles several events at once, extensions can register for SHUTDOWN only, as on Lambda
// Managed Instances.
func TestStart_extensionsConcurrency(t *testing.T) {
	for name, want := range map[string]string{"observer": `observer: register: 400 {"errorMessage":"cannot register for the event \"INVOKE\"","errorType":"Extension.InvalidEventType"}`, "terminator": "terminator: SHUTDOWN spindown true"} {
		var o output
		e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{
			Bootstrap: os.Args[0], Name: "echo", Variables: []string{"WEIR_TEST_FUNCTION=echo"}, Output: &o, Concurrency: 2, Extensions: []string{link(t, name)},
		})
		if (err == nil) != (name == "terminator") {
			t.Errorf("start with %s: got error %v", name, err)
		}
		if err == nil {
			if _, err := e.Invoke(t.Context(), []byte(`{}`)); err != nil {
				t.Error(err)
			}
			_ = e.Close()
		}
		if !strings.Contains(o.String(), want+"\n") {
			t.Errorf("output: got\n%s\nwant %s", &o, want)
		}
	}
}

// sink is a writer that sends each part to a channel.
type sink chan string

func (s sink) Write(b []byte) (int, error) { s <- string(b); return len(b), nil }

// The parts of a streamed answer arrive before its end.
func TestEnvironment_Stream(t *testing.T) {
	e, g := opened(t, "stream"), newGate(t)
	parts := make(sink)
	done := make(chan error)
	go func() { done <- e.Stream(t.Context(), []byte(g.URL), parts) }()
	if part := <-parts; part != "first " {
		t.Errorf("part: got %q, want the first one", part)
	}
	<-g.arrived
	close(g.open)
	if part := <-parts; part != "second" {
		t.Errorf("part: got %q, want the second one", part)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if answer, err := e.Invoke(t.Context(), []byte(g.URL)); err != nil || string(answer) != "first second" {
		t.Errorf("answer: got %q, error %v, want both parts", answer, err)
	}
	var whole bytes.Buffer
	if err := opened(t, "echo").Stream(t.Context(), []byte(`"an event"`), &whole); err != nil || whole.String() != `"an event"` {
		t.Errorf("answer in one part: got %q, error %v, want the event", &whole, err)
	}
}

// A streamed answer fails if its trailers report an error, if it is too large, or if it has no end.
func TestEnvironment_Stream_failure(t *testing.T) {
	e := opened(t, "stream")
	for event, want := range map[string]string{
		"trailers":  "function stream: Function.Broken: too late",
		"plain":     "function stream: Function.Broken: no base64",
		"large":     "function stream: Function.ResponseSizeTooLarge: Response payload size exceeded maximum allowed payload size (209715200 bytes).",
		"truncated": "function stream: Runtime.TruncatedResponse: unexpected EOF",
	} {
		if err := e.Stream(t.Context(), []byte(event), io.Discard); err == nil || err.Error() != want {
			t.Errorf("error:\n got %v\nwant %s", err, want)
		}
	}
}

// At the deadline the parts end, even if the process sends more.
func TestEnvironment_Stream_deadline(t *testing.T) {
	e, g := opened(t, "stream"), newGate(t)
	ctx, parts := expiring{t.Context(), make(chan struct{})}, make(sink)
	done := make(chan error)
	go func() { done <- e.Stream(ctx, []byte(g.URL), parts) }()
	<-parts
	<-g.arrived
	close(ctx.done)
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: got %v, want context.DeadlineExceeded", err)
	}
}
