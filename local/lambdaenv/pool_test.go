package lambdaenv_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/local/lambdaenv"
)

// A Pool implements the handler interface of the local gateway.
var _ lambda.Handler = (*lambdaenv.Pool)(nil)

// called is the answer of the function "call": its process id and its number of invocations.
type called struct{ PID, Times int }

var times int

// call acts on its event: it exits, hangs, or requests a URL and waits for the response. Then it
// answers.
func call(ctx context.Context, event []byte) ([]byte, error) {
	times++
	var what string
	if err := json.Unmarshal(event, &what); err != nil {
		return nil, err
	}
	switch what {
	case "":
	case "exit":
		os.Exit(3)
	case "hang":
		fmt.Println("hanging", os.Getpid())
		select {}
	default:
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, what, http.NoBody)
		if err != nil {
			return nil, err
		}
		request.Header.Set("PID", strconv.Itoa(os.Getpid()))
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	return json.Marshal(called{os.Getpid(), times})
}

// ticks is a Lambda function that counts the milliseconds in which its process is not frozen. An
// invocation waits for the number of milliseconds in its event, and returns the count so far.
func ticks() {
	var count atomic.Int64
	more := make(chan struct{}, 1)
	go func() {
		for range time.Tick(time.Millisecond) {
			count.Add(1)
			select {
			case more <- struct{}{}:
			default:
			}
		}
	}()
	start(func(_ context.Context, event []byte) ([]byte, error) {
		n, err := strconv.ParseInt(string(event), 10, 64)
		for until := count.Load() + n; count.Load() < until; {
			<-more
		}
		return fmt.Append(nil, count.Load()), err
	})()
}

// pieces writes three lines byte by byte, and then an incomplete line.
func pieces() {
	for _, b := range []byte("one\ntwo\n\nhalf") {
		_, _ = os.Stdout.Write([]byte{b})
	}
}

// parent starts two environments, one busy and one idle. It prints their process ids and waits until
// the test kills it.
func parent() {
	busy := make(chan struct{})
	p, err := lambdaenv.NewPool(lambdaenv.PoolOptions{
		Bootstrap: os.Args[0], Name: "deaf", Variables: []string{"WEIR_TEST_FUNCTION=deaf"}, Max: 2, Logger: slog.New(slog.DiscardHandler),
		Line: func(_ string, line []byte) { fmt.Printf("%s\n", line); close(busy) },
	})
	if err != nil {
		panic(err)
	}
	go func() { _, _ = p.Invoke(context.Background(), []byte(`"hang"`)) }()
	<-busy
	answer, err := p.Invoke(context.Background(), []byte(`""`))
	if err != nil {
		panic(err)
	}
	fmt.Printf("idle %s\n", answer)
	select {}
}

// pool is a Pool of one function of the tests, with its log and output.
type pool struct {
	*lambdaenv.Pool
	t   *testing.T
	log *output

	mu    sync.Mutex
	lines []string
	line  chan string // receives each line, unless the buffer is full
}

func newPool(t *testing.T, name string, o lambdaenv.PoolOptions) *pool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments are frozen only on Linux")
	}
	p := &pool{t: t, log: &output{}, line: make(chan string, 100)}
	o.Bootstrap, o.Name, o.Variables = os.Args[0], name, []string{"WEIR_TEST_FUNCTION=" + name}
	o.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	o.Line = func(environment string, line []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines = append(p.lines, environment+" "+string(line))
		select {
		case p.line <- string(line):
		default:
		}
	}
	var err error
	if p.Pool, err = lambdaenv.NewPool(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *pool) call(ctx context.Context, what string) (c called, err error) {
	answer, err := p.Invoke(ctx, fmt.Appendf(nil, "%q", what))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(answer, &c)
}

func (p *pool) called(what string) called {
	p.t.Helper()
	c, err := p.call(p.t.Context(), what)
	if err != nil {
		p.t.Fatal(err, p.log)
	}
	return c
}

// logged checks that the log has n lines with a message.
func (p *pool) logged(n int, message string) {
	p.t.Helper()
	if got := strings.Count(p.log.String(), "msg="+strconv.Quote(message)); got != n {
		p.t.Errorf("log lines with %q: got %d, want %d:\n%s", message, got, n, p.log)
	}
}

// gate is a server. Functions wait for its response until the test opens the gate.
type gate struct {
	*httptest.Server
	arrived chan int // process ids
	open    chan struct{}
}

func newGate(t *testing.T) *gate {
	g := &gate{arrived: make(chan int, 100), open: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		pid, _ := strconv.Atoi(r.Header.Get("PID"))
		g.arrived <- pid
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// state returns the state of a process as a letter of proc(5). It returns "" if the process has ended.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ""
	} else if err != nil {
		t.Fatal(err)
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2])
}

// await waits until a process is in one of the given states.
func await(t *testing.T, pid int, states ...string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s := state(t, pid); !slices.Contains(states, s); s = state(t, pid) {
		if time.Now().After(deadline) {
			t.Fatalf("state of process %d: got %q, want %q", pid, s, states)
		}
		runtime.Gosched()
	}
}

// gone checks that the process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: got error %v, want no such process", pid, err)
	}
}

// The pool throttles an invocation if all environments are busy. Each admitted invocation has a
// separate process, which is frozen before and after the invocation.
func TestPool_Invoke(t *testing.T) {
	const most = 3
	p, g := newPool(t, "call", lambdaenv.PoolOptions{Max: most}), newGate(t)
	results := make(chan called, most)
	refused := make(chan error, most+1)
	for range most + 1 {
		go func() {
			c, err := p.call(t.Context(), g.URL)
			if err != nil {
				refused <- err
				return
			}
			results <- c
		}()
	}
	var pids []int
	for range most {
		pids = append(pids, <-g.arrived)
	}
	if err := <-refused; !errors.Is(err, lambdaenv.ErrThrottled) || err.Error() != "function call: TooManyRequestsException: Rate Exceeded" {
		t.Errorf("invocation above the maximum: got error %v, want ErrThrottled", err)
	}
	for _, pid := range pids {
		if s := state(t, pid); s == "T" {
			t.Errorf("process %d during its invocation: got state T (frozen), want another state", pid)
		}
	}
	close(g.open)
	for range most {
		if c := <-results; !slices.Contains(pids, c.PID) || c.Times != 1 {
			t.Errorf("answer: got %+v, want the first invocation of one of %v", c, pids)
		}
	}
	slices.Sort(pids)
	if len(slices.Compact(pids)) != most {
		t.Errorf("processes: got %v, want %d", pids, most)
	}
	for _, pid := range pids {
		await(t, pid, "T")
	}
	p.logged(most, "cold start")
	p.logged(1, "throttled: all environments are busy")
}

// The pool sends an event to the most recently used environment.
func TestPool_Invoke_recent(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 2})
	first, second := newGate(t), newGate(t)
	results := map[*gate]chan called{first: make(chan called), second: make(chan called)}
	for _, g := range []*gate{first, second} {
		go func() { results[g] <- p.called(g.URL) }()
		<-g.arrived
	}
	for _, g := range []*gate{second, first} {
		close(g.open)
		done := <-results[g]
		for n := range 3 {
			if c := p.called(""); c.PID != done.PID || c.Times != n+2 {
				t.Errorf("answer: got %+v, want the next invocation of the process of %+v", c, done)
			}
		}
	}
	p.logged(2, "cold start")
}

// A process does not run between events: while another process counts n ticks, the first one counts few.
func TestPool_frozen(t *testing.T) {
	const n = 500
	frozen, running := newPool(t, "ticks", lambdaenv.PoolOptions{Max: 1}), newPool(t, "ticks", lambdaenv.PoolOptions{Max: 1})
	count := func(p *pool, n int) int {
		answer, err := p.Invoke(t.Context(), fmt.Append(nil, n))
		if err != nil {
			t.Fatal(err)
		}
		total, err := strconv.Atoi(string(answer))
		if err != nil {
			t.Fatal(err)
		}
		return total
	}
	before := count(frozen, 0)
	count(running, n)
	if passed := count(frozen, 0) - before; passed >= n/2 {
		t.Errorf("running time of the frozen process: got %d of %d ms, want less than half", passed, n)
	}
}

// The pool replaces a process that has ended, even if the process was idle.
func TestPool_crash(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1})
	first := p.called("")
	if _, err := p.call(t.Context(), "exit"); !errors.Is(err, lambdaenv.ErrEnded) || err.Error() != "function call: the process has ended: exit status 3" {
		t.Errorf("invocation whose process exits: got error %v, want exit status 3", err)
	}
	gone(t, first.PID)
	p.logged(1, "environment crashed")
	second := p.called("")
	if second.PID == first.PID || second.Times != 1 {
		t.Errorf("answer: got %+v, want the first invocation of a process other than that of %+v", second, first)
	}
	if err := syscall.Kill(second.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, second.PID, "")
	third, err := p.call(t.Context(), "")
	if errors.Is(err, lambdaenv.ErrEnded) { // the pool had not yet detected that the process ended
		third, err = p.call(t.Context(), "")
	}
	if err != nil || third.PID == second.PID || third.Times != 1 {
		t.Errorf("answer: got %+v, error %v, want the first invocation of a process other than that of %+v", third, err, second)
	}
	p.logged(2, "environment crashed")
	p.logged(3, "cold start")
}

// The pool kills and replaces a process that does not answer before the deadline.
func TestPool_timeout(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1})
	ctx := expiring{t.Context(), make(chan struct{})}
	go func() {
		<-p.line
		close(ctx.done)
	}()
	if _, err := p.call(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("invocation that hangs: got error %v, want context.DeadlineExceeded", err)
	}
	var pid int
	if _, err := fmt.Sscanf(p.lines[0], "call/1 hanging %d", &pid); err != nil {
		t.Fatal(err, p.lines)
	}
	gone(t, pid)
	p.logged(1, "environment timed out")
	if c := p.called(""); c.PID == pid || c.Times != 1 {
		t.Errorf("answer: got %+v, want the first invocation of a new process", c)
	}
}

// If the deadline of the first invocation passes during a cold start, the environment still starts and
// serves later invocations.
func TestPool_start_late(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.call(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("invocation during the cold start: got error %v, want context.Canceled", err)
	}
	if c := p.called(""); c.Times != 1 {
		t.Errorf("answer: got %+v, want the first invocation of its process", c)
	}
	p.logged(1, "cold start")
}

// A failed start returns the reason and leaves no environment in the pool.
func TestPool_start(t *testing.T) {
	p := newPool(t, "mistake", lambdaenv.PoolOptions{Max: 1})
	for range 2 {
		if _, err := p.Invoke(t.Context(), nil); err == nil || err.Error() != "function mistake: init: the process has ended: exit status 1" {
			t.Errorf("cold start that fails: got error %v, want exit status 1", err)
		}
	}
	p.logged(2, "cold start failed")
	if !strings.Contains(p.log.String(), `last="STORE: got"`) {
		t.Errorf("log: got\n%s\nwant the output of the function", p.log)
	}
	if _, err := lambdaenv.NewPool(lambdaenv.PoolOptions{Name: "f"}); err == nil || err.Error() != "function f: Max: got 0, want 1 or more" {
		t.Errorf("pool without Max: got error %v, want 1 or more", err)
	}
}

// Close ends every process, whether it is idle, busy or starting.
func TestPool_Close(t *testing.T) {
	p, g := newPool(t, "call", lambdaenv.PoolOptions{Max: 2}), newGate(t)
	failed := make(chan error)
	go func() {
		_, err := p.call(t.Context(), g.URL)
		failed <- err
	}()
	busy, idle := <-g.arrived, p.called("").PID
	await(t, idle, "T")
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		gone(t, busy)
		gone(t, idle)
	}
	if err := <-failed; !errors.Is(err, lambdaenv.ErrEnded) {
		t.Errorf("pending invocation: got error %v, want ErrEnded", err)
	}
	if _, err := p.call(t.Context(), ""); !errors.Is(err, lambdaenv.ErrClosed) {
		t.Errorf("invocation after Close: got error %v, want ErrClosed", err)
	}
	p.logged(0, "environment crashed")
}

func TestPool_Close_start(t *testing.T) {
	p := newPool(t, "hanging", lambdaenv.PoolOptions{Max: 1})
	failed := make(chan error)
	go func() {
		_, err := p.Invoke(t.Context(), nil)
		failed <- err
	}()
	var pid int
	if _, err := fmt.Sscanf(<-p.line, "starting %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
	if err := <-failed; !errors.Is(err, lambdaenv.ErrClosed) {
		t.Errorf("cold start during Close: got error %v, want ErrClosed", err)
	}
}

// The pool ends an environment that is idle for too long.
func TestPool_idle(t *testing.T) {
	p := newPool(t, "call", lambdaenv.PoolOptions{Max: 1, Idle: time.Millisecond})
	first := p.called("")
	await(t, first.PID, "")
	second := p.called("")
	if second.PID == first.PID {
		t.Errorf("answer: got %+v, want a process other than that of %+v", second, first)
	}
	await(t, second.PID, "")
	_ = p.Close()
	p.logged(2, "idle environment ended")
	p.logged(0, "environment crashed")
}

// The pool joins the parts of a line before it calls Line. Each call has the name of the environment.
func TestPool_Line(t *testing.T) {
	p := newPool(t, "pieces", lambdaenv.PoolOptions{Max: 4})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _, _ = p.Invoke(t.Context(), nil) })
	}
	group.Wait()
	want := map[string]int{"one": 4, "two": 4, "": 4, "half": 4}
	for _, line := range p.lines {
		name, text, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, "pieces/") {
			t.Errorf("line %q: got no environment name, want one", line)
		}
		want[text]--
	}
	for text, n := range want {
		if n != 0 {
			t.Errorf("line %q: got %d lines, want 4", text, 4-n)
		}
	}
}

// Every process ends with its parent, even a frozen process.
func TestPool_killed(t *testing.T) {
	newPool(t, "call", lambdaenv.PoolOptions{Max: 1}) // skips the test if the system cannot freeze processes
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "WEIR_TEST_FUNCTION=parent")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [2]int
	if _, err := fmt.Fscanf(out, "hanging %d\nidle {\"PID\":%d,", &pids[0], &pids[1]); err != nil || pids[0] == pids[1] {
		t.Fatal(pids, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = c.Wait() // the test killed the process
	for _, pid := range pids {
		await(t, pid, "", "Z") // Z: its new parent may not have waited for it yet
	}
}
