package boot_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// fault is a fault of the server or of the network.
type fault = string

const (
	healthy     fault = "none"
	silent      fault = "requests get no answer"
	stalled     fault = "requests are not read"
	slowed      fault = "answers take 700 ms"
	trickling   fault = "answers come byte by byte"
	resetting   fault = "connections are reset"
	truncated   fault = "answers are truncated"
	garbled     fault = "answers are invalid"
	refusing    fault = "dials are refused"
	unreachable fault = "dials get no answer"
	lostPeers   fault = "old connections lose all packets"
	resetOld    fault = "old connections are reset"
)

// line simulates a server and the network to it. It uses the clock of the test.
type line struct {
	speak func(net.Conn, *bufio.Reader) (answer string, err error) // reads one request and returns the answer

	mu    sync.Mutex
	fault fault
	since int // number of connections at the start of the fault; the faults lostPeers and resetOld affect only these connections
	dials int
	far   time.Duration // time to open a connection
}

func (l *line) inject(a fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.since = a, l.dials
}

// state returns the current fault of connection n.
func (l *line) state(n int) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case (l.fault == lostPeers || l.fault == resetOld) && n > l.since:
		return healthy
	case l.fault == resetOld:
		return resetting
	case l.fault == lostPeers:
		return stalled
	}
	return l.fault
}

func (l *line) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	n := l.dials
	l.mu.Unlock()
	switch l.state(n) {
	case refusing:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case unreachable:
		select { // net/http continues a dial after the request has ended
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ETIMEDOUT}
		}
	}
	time.Sleep(l.far)
	ours, theirs := net.Pipe()
	go l.serve(n, theirs)
	return pipe{ours}, nil
}

// pipe is a connection that behaves like TCP. After the server has closed it, reads and writes fail,
// but SetReadDeadline does not.
type pipe struct{ net.Conn }

func (p pipe) SetReadDeadline(t time.Time) error {
	_ = p.Conn.SetReadDeadline(t)
	return nil
}

// serve answers the requests of a connection until it is closed.
func (l *line) serve(n int, c net.Conn) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		answer, err := l.speak(c, r)
		if err != nil {
			return
		}
		switch l.state(n) {
		case resetting, refusing:
			return
		case silent, unreachable:
			_, _ = io.Copy(io.Discard, r)
			return
		case stalled:
			l.recover(n)
			return
		case slowed:
			time.Sleep(700 * time.Millisecond)
		case trickling:
			for i := range len(answer) {
				if _, err := io.WriteString(c, answer[i:i+1]); err != nil {
					return
				}
				time.Sleep(200 * time.Millisecond)
			}
			continue
		case truncated:
			answer = answer[:3]
		case garbled:
			answer = "\x00\xff7\r\n\r\n"
		}
		if _, err := io.WriteString(c, answer); err != nil || len(answer) == 3 {
			return
		}
	}
}

// recover waits until the server reads connection n again.
func (l *line) recover(n int) {
	for l.state(n) == stalled {
		time.Sleep(time.Second)
	}
}

// speakHTTP answers like a DynamoDB with an empty table.
func speakHTTP(_ net.Conn, r *bufio.Reader) (string, error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return "", err
	}
	body := `{}`
	if strings.HasSuffix(request.Header.Get("X-Amz-Target"), ".UpdateItem") {
		body = `{"Attributes":{"pk":{"S":"k"}}}`
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body), nil
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	args := make([]string, n)
	for i := range args {
		n, err = number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:n])
	}
	return args, err
}

// speakRedis answers like an empty Redis, or a Redis Cluster of one node, but answers every script with BUSY.
func speakRedis(c net.Conn, r *bufio.Reader) (string, error) {
	for {
		args, err := readCommand(r)
		if err != nil {
			return "", err
		}
		first := "%0\r\n"
		switch strings.ToLower(args[0]) {
		case "hello":
		case "time": // TIME shares a round trip with the next command
			first = "-NOPERM\r\n"
		case "get":
			return "$-1\r\n", nil
		case "cluster":
			return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$5\r\nstore\r\n:6379\r\n$4\r\nnode\r\n", nil
		default:
			return "-BUSY\r\n", nil
		}
		if _, err := io.WriteString(c, first); err != nil {
			return "", err
		}
	}
}

// system is an environment that reaches its store through a line. It is created like the environment
// of a function.
type system struct {
	*line
	config boot.Config
	store  limiter.Store
	app    *lambdahttp.Environment
	close  func() error
}

// openRedis opens the store of a system on Redis.
var openRedis func(t *testing.T, w *system, variables []string, cluster bool)

func newSystem(t *testing.T, store string) *system {
	t.Helper()
	file := write(t, "rules.json", `{"version":1,"rules":[{"endpoint":"/a","limits":{"*":{"requests":20,"window":"1m"}}},
		{"endpoint":"/b","limits":{"*":{"requests":20,"window":"1m"},"global":{"requests":20,"window":"1m"}}}]}`)
	w := &system{line: &line{fault: healthy}, close: func() error { return nil }}
	variables := []string{"RULES_FILE=" + file, "WEIR_LOCAL=true", "DYNAMODB_ENDPOINT=http://store", "RECORDS_TABLE=records"}
	var err error
	redisLike := store != "dynamodb"
	if redisLike {
		openRedis(t, w, variables, store == "cluster")
	} else {
		w.speak = speakHTTP
		w.config = load(t, append(variables, "STORE=dynamodb://counters")...)
	}
	// The records table is in DynamoDB, whatever store holds the counters.
	client := storetest.Must(w.config.DynamoDBClient(t.Context()))
	http := client.Options().HTTPClient.(resilient.HTTPClient).Doer.(*awshttp.BuildableClient).WithTransportOptions(
		func(t *http.Transport) { t.DialContext = w.dial })
	w.config.Share(dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.HTTPClient = resilient.HTTPClient{Doer: http} }))
	if !redisLike {
		w.store, _, err = w.config.OpenStore(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	w.app, err = w.config.Environment(t.Context(), w.store, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// end closes the connections and waits until all goroutines have ended.
func (w *system) end(t *testing.T) {
	t.Helper()
	w.inject(healthy)
	if err := w.close(); err != nil {
		t.Error(err)
	}
	time.Sleep(10 * time.Second) // HTTP drops idle connections and ends pending dials
}

// decide decides a request: /a charges one subject, and /b two.
func (w *system) decide(t *testing.T, path string) (limiter.Decision, time.Duration) {
	t.Helper()
	return w.timed(t, path, w.app.Limiter.Take)
}

// look returns a decision without a charge. It runs no script, so the fake Redis can answer it.
func (w *system) look(t *testing.T, path string) (limiter.Decision, time.Duration) {
	t.Helper()
	return w.timed(t, path, w.app.Limiter.Peek)
}

func (w *system) timed(t *testing.T, path string, decide func(context.Context, time.Time, []limiter.Charge) (limiter.Decision,
	error)) (limiter.Decision, time.Duration) {
	t.Helper()
	begun := time.Now()
	d, err := decide(t.Context(), begun, w.app.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath(path), caller.Caller{User: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	return d, time.Since(begun)
}

var deadlines = map[string]time.Duration{"redis": 50 * time.Millisecond, "cluster": 50 * time.Millisecond,
	"dynamodb": 100 * time.Millisecond}

// For any fault of the store, a decision waits at most until its deadline. The deadline is 900 ms for
// the first decision. Later deadlines are 50 ms (Redis) or 100 ms (DynamoDB). If calls fail at once,
// the decision does not wait. The start of an environment reads the key of subject hashes and waits
// at most 900 ms. The test uses the clients of the functions and a fake clock.
func TestDeadline(t *testing.T) {
	for _, store := range []string{"dynamodb", "redis", "cluster"} {
		for _, c := range []struct {
			fault  fault
			reason limiter.Reason
			waits  bool // whether calls wait until the deadline; otherwise they fail at once
			first  time.Duration
		}{
			{silent, limiter.ReasonTimeout, true, 900 * time.Millisecond},
			{stalled, limiter.ReasonTimeout, true, 900 * time.Millisecond},
			{slowed, limiter.ReasonTimeout, true, 700 * time.Millisecond},
			{trickling, limiter.ReasonTimeout, true, 900 * time.Millisecond},
			{unreachable, limiter.ReasonTimeout, true, 900 * time.Millisecond},
			{resetting, limiter.ReasonUnavailable, false, 0},
			{truncated, limiter.ReasonUnavailable, false, 0},
			{garbled, limiter.ReasonUnavailable, false, 0},
			{refusing, limiter.ReasonUnavailable, false, 0},
		} {
			for _, path := range []string{"/a", "/b"} {
				t.Run(store+" "+c.fault+" "+path, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newSystem(t, store)
						defer w.end(t)
						w.config.Warm(t.Context(), w.store, w.app)
						w.inject(c.fault)
						for i := range 3 {
							want := time.Duration(0)
							if c.waits {
								want = deadlines[store]
							}
							if i == 0 {
								want = c.first
							}
							d, took := w.decide(t, path)
							if took != want {
								t.Errorf("decision %d took %s, want %s: %+v", i+1, took, want, d)
							}
							answered := c.fault == slowed && i == 0
							opened := d.Reason == limiter.ReasonBreaker && i == 2 && path == "/b" // the breaker opens between the two subjects
							if d.Reason != c.reason && !answered && !opened {
								t.Errorf("decision %d: got reason %v, want %v: %+v", i+1, d.Reason, c.reason, d)
							}
						}
					})
				})
			}
			t.Run(store+" "+c.fault+" at the start", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSystem(t, store)
					defer w.end(t)
					w.inject(c.fault)
					begun := time.Now()
					// metrics need the key of subject hashes
					e, err := w.config.StartOver(t.Context(), w.store, boot.Options{Logger: quiet.Logger, Metrics: io.Discard})
					if err != nil {
						t.Fatal(err)
					}
					w.app = e
					took := time.Since(begun)
					if took > 900*time.Millisecond || c.waits != (took > 0) {
						t.Errorf("start took %s, want at most 900ms, and 0s if calls fail at once", took)
					}
				})
			})
		}
	}
}

// During an outage of up to 20 seconds, no decision exceeds its deadline. The deadline is longer after a
// pause: 250 ms. Few decisions wait. After the outage, the limiter calls the store again within half a
// second plus one deadline.
func TestDeadline_outage(t *testing.T) {
	for _, store := range []string{"dynamodb", "redis"} {
		for i, a := range []fault{silent, stalled, slowed, resetting, garbled, unreachable, unreachable, unreachable, refusing, refusing,
			refusing} {
			length := 20*time.Second - time.Duration(i)*150*time.Millisecond
			t.Run(store+" "+a, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSystem(t, store)
					defer w.end(t)
					w.config.Warm(t.Context(), w.store, w.app)
					if d, took := w.look(t, "/b"); d.Reason != limiter.ReasonNone || took != 0 {
						t.Fatalf("before the outage: decision took %s, want 0s and no failure: %+v", took, d)
					}
					w.inject(a)
					begun, waited, most := time.Now(), 0, deadlines[store]
					for time.Since(begun) < length {
						d, took := w.look(t, "/b")
						if took > most || d.Reason == limiter.ReasonNone {
							t.Fatalf("%s after the start of the outage: decision took %s, want at most %s and a failure: %+v", time.Since(begun), took, most, d)
						}
						if took > 0 {
							waited++
						}
						pause := 10 * time.Millisecond
						most = deadlines[store]
						if waited == 10 { // a pause that is longer than the life of idle connections
							pause, waited, most = 6*time.Second, 11, 250*time.Millisecond
						}
						time.Sleep(pause)
					}
					// At most 3 decisions wait until the breaker opens. After that, 2 probes a second
					// wait, for at most 20 s.
					if waited > 3+20*2 {
						t.Errorf("%d decisions waited, want at most 43", waited)
					}
					w.inject(healthy)
					begun = time.Now()
					for d, _ := w.look(t, "/b"); d.Reason != limiter.ReasonNone; d, _ = w.look(t, "/b") {
						time.Sleep(time.Millisecond)
					}
					if took := time.Since(begun); took > 500*time.Millisecond+deadlines[store] {
						t.Errorf("the store was used again after %s, want at most 500ms and one deadline", took)
					}
				})
			})
		}
	}
}

// In this test, a new connection takes longer than a deadline. After a pause, 16 concurrent requests
// wait for their connections and succeed. If one request arrives every 10 s, only the request during
// the fault fails.
func TestDeadline_slowConnection(t *testing.T) {
	for store, far := range map[string]time.Duration{"dynamodb": 120 * time.Millisecond, "redis": 60 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := newSystem(t, store)
			defer w.end(t)
			w.far = far
			w.config.Warm(t.Context(), w.store, w.app)
			time.Sleep(10 * time.Second)
			var together sync.WaitGroup
			for range 16 {
				together.Go(func() {
					if d, took := w.look(t, "/a"); d.Reason != limiter.ReasonNone || took > far {
						t.Errorf("%s: one of 16 requests: got %+v after %s, want success", store, d, took)
					}
				})
			}
			together.Wait()
			reasons := map[limiter.Reason]int{}
			for i := range 360 {
				time.Sleep(10 * time.Second)
				if i == 10 {
					w.inject(silent)
				}
				d, _ := w.look(t, "/a")
				reasons[d.Reason]++
				w.inject(healthy)
			}
			if reasons[limiter.ReasonTimeout] != 1 || reasons[limiter.ReasonNone] != 359 {
				t.Errorf("%s: got reasons %v, want one timeout and 359 successes", store, reasons)
			}
		})
	}
}

// A dead connection that was idle for more than a second does not make a frequent caller wait until its deadline. The client
// repeats the call and waits at most 250 ms for a new connection. It does not repeat a call on a connection that was used
// since then, because the server may have charged it.
func TestDeadline_deadConnection(t *testing.T) {
	for _, store := range []string{"dynamodb", "redis", "cluster"} {
		synctest.Test(t, func(t *testing.T) {
			w := newSystem(t, store)
			defer w.end(t)
			w.config.Warm(t.Context(), w.store, w.app)
			w.look(t, "/a")
			for _, c := range []struct {
				pause, far, took time.Duration
				reason           limiter.Reason
			}{
				{time.Second, 60 * time.Millisecond, 0, limiter.ReasonUnavailable},
				{time.Second + 1, 60 * time.Millisecond, 60 * time.Millisecond, limiter.ReasonNone},
				{2 * time.Second, 260 * time.Millisecond, 250 * time.Millisecond, limiter.ReasonTimeout},
			} {
				w.far = 0
				w.look(t, "/a")
				time.Sleep(c.pause)
				w.far = c.far
				w.inject(resetOld)
				if d, took := w.look(t, "/a"); d.Reason != c.reason || took != c.took {
					t.Errorf("%s, %s after the last use: got %+v after %s, want %q after %s", store, c.pause, d, took, c.reason, c.took)
				}
			}
		})
	}
}

// The client ends an abandoned dial after 900 ms, because nothing else ends the dialing goroutine.
func TestDeadline_dial(t *testing.T) {
	const want = 900 * time.Millisecond
	c := load(t, "STORE=dynamodb://counters", "WEIR_LOCAL=true", "DYNAMODB_ENDPOINT=http://store")
	dynamo := storetest.Must(c.DynamoDBClient(t.Context()))
	if got := dynamo.Options().HTTPClient.(resilient.HTTPClient).Doer.(*awshttp.BuildableClient).GetDialer().Timeout; got != want {
		t.Errorf("dynamodb: dial timeout: got %s, want 900ms", got)
	}
}
