package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
)

// Two gateways share a store. For every algorithm, 64 concurrent clients of one caller get exactly
// the limit. A request that one limit refuses charges no other limit.
func TestServe_twoProcesses(t *testing.T) {
	for store, tiers := range map[string][]string{"dynamodb": {"bucket", "sliding", "three"}, "redis": {"fixed", "three"}} {
		t.Run(store, func(t *testing.T) {
			storetest.Server(t, store, servers.Variables[store])
			rules, err := filepath.Abs("../serve/testdata/exact.json")
			if err != nil {
				t.Fatal(err)
			}
			c := checkouttest.Scratch(t)
			name := checkouttest.Namespace()
			args := []string{"serve", "--store", store, "--rules", rules, "--namespace", name}
			gateways := []*commandtest.Process{commandtest.Start(t, args), commandtest.Start(t, args)}
			var user string
			for _, tier := range tiers {
				// On a slow machine a gateway can fail to decide a request in time, or can lose too
				// many races for the item. Such a round checks only that the limit is not exceeded.
				// The next round has a new caller and half the clients.
				for round, clients := 0, 64; ; round, clients = round+1, max(2, clients/2) {
					user = fmt.Sprintf("hammer-%s-%d", tier, round)
					token, err := c.Token(user, tier, time.Hour, nil)
					if err != nil {
						t.Fatal(err)
					}
					admitted, least, late := hammer(t, gateways, token, clients)
					if late > 0 && round < 20 {
						if admitted > 50 {
							t.Errorf("%s: got %d admitted, want at most 50, with %d not decided", tier, admitted, late)
						}
						t.Logf("%s: %d of 256 requests by %d clients were not decided in time", tier, late, clients)
						continue
					}
					if admitted != 50 || late > 0 {
						t.Errorf("%s: got %d admitted and %d not decided, want the limit of 50 and 0", tier, admitted, late)
					}
					if least != 0 {
						t.Errorf("%s: last admitted request: got %d remaining, want 0", tier, least)
					}
					break
				}
			}
			if got, want := remaining(t, store, name, rules, user), "bucket 10, sliding 0, fixed 20"; got != want {
				t.Errorf("three limits: got %s remaining, want %s, because a refusal by one limit must not charge another", got, want)
			}
		})
	}
}

// remaining reads from the store what remains of the caller's three limits.
func remaining(t *testing.T, store, namespace, rulesFile, user string) string {
	t.Helper()
	c := boot.Config{Store: store, Namespace: namespace, Table: checkout.Table, DynamoDBEndpoint: os.Getenv("DYNAMODB_ENDPOINT"), RedisURL: os.Getenv("REDIS_URL"), Local: true, Clients: clients.Default()}
	s, closeStore, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeStore() }()
	document, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rules.Parse(document, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	charges := r.Charges(nil, http.MethodGet, rules.EncodedPath("/api/v1/search"), caller.Caller{User: user, Tier: "three"})
	for i := range charges {
		charges[i].Cost = 0
	}
	now, results := algo.InstantOf(time.Now()), make([]algo.Result, len(charges))
	if _, err := s.Take(t.Context(), now, charges[0].Subject, charges, results); err != nil {
		t.Fatal(err)
	}
	var left []string
	for i, c := range charges {
		left = append(left, fmt.Sprintf("%s %d", c.Limit.Name, results[i].Machine.Remaining(results[i].State, now)))
	}
	return strings.Join(left, ", ")
}

// hammer sends 256 requests from some concurrent clients. least is the smallest remaining quota in an
// admitted answer. late counts requests that were not decided: after a timeout, an open breaker, or too
// many lost races.
func hammer(t *testing.T, gateways []*commandtest.Process, token string, clients int) (admitted, least, late int64) {
	t.Helper()
	var n, low, undecided atomic.Int64
	low.Store(1 << 30)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range 256 / clients {
				r := commandtest.Send(t, http.MethodGet, gateways[i%2].URL+"/api/v1/search", token)
				switch degraded := r.Header.Get("Weir-Degraded"); degraded {
				case "":
				// Not decided: the call timed out, late answers had opened the breaker, or the subject was busy.
				case string(limiter.ReasonTimeout), string(limiter.ReasonBreaker), string(limiter.ReasonBusy):
					if undecided.Add(1); degraded == string(limiter.ReasonBusy) && r.StatusCode != http.StatusTooManyRequests {
						t.Errorf("undecided: got status %s, want 429", r.Status)
					}
					continue
				default:
					t.Errorf("undecided: got reason %s, want timeout, breaker or busy", degraded)
				}
				switch r.StatusCode {
				case http.StatusOK:
					n.Add(1)
					remaining, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Remaining"), 10, 64)
					if err != nil {
						t.Error(err)
					}
					for old := low.Load(); remaining < old && !low.CompareAndSwap(old, remaining); old = low.Load() {
					}
				case http.StatusTooManyRequests:
				default:
					t.Errorf("answer: got %s %s, want 200 or 429", r.Status, r.Text)
				}
			}
		})
	}
	wg.Wait()
	return n.Load(), low.Load(), undecided.Load()
}

// If the store does not answer, weir serve prints exactly one error line. The Redis client must
// print nothing.
func TestServe_oneErrorLine(t *testing.T) {
	checkouttest.Scratch(t)
	for range 10 {
		c := commandtest.Command(t, []string{"serve", "--store", "redis", "--port", strconv.Itoa(commandtest.FreePorts(t))}, "REDIS_URL=redis://user:hunter2@127.0.0.1:1")
		var output bytes.Buffer
		c.Stdout, c.Stderr = &output, &output
		err := c.Run()
		if strings.Contains(output.String(), commandtest.InUse) {
			continue
		}
		status, ok := errors.AsType[*exec.ExitError](err)
		if !ok || status.ExitCode() != 1 || strings.Count(output.String(), "\n") != 1 || !strings.HasPrefix(output.String(), "weir: Redis at redis://127.0.0.1:1 does not answer") {
			t.Errorf("serve without its store: got error %v, output %s, want exit 1 with one line", err, &output)
		}
		return
	}
	t.Fatal("free ports: got none in ten attempts, want two")
}

// If the Redis server that weir serve started ends, weir serve reports it once.
func TestServe_serverDies(t *testing.T) {
	storetest.Server(t, "redis", servers.Variables["redis"]) // skip the test if the server cannot run here
	checkouttest.Scratch(t)
	p := commandtest.Start(t, []string{"serve", "--store", "redis"}, "REDIS_URL=")
	for _, child := range childrenOf(t, p.Process.Pid) {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	const want = `the server of the store has ended`
	for !strings.Contains(p.Output.String(), want) {
		select {
		case <-p.Output.Written:
		case <-time.After(30 * time.Second):
			t.Fatalf("output after 30 s: got %s, want a report that the server ended", p.Output)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("end of serve: got error %v, want none: %s", err, p.Output)
	}
	if n := strings.Count(p.Output.String(), want); n != 1 {
		t.Errorf("got %d reports, want 1: %s", n, p.Output)
	}
}

// If weir serve ends by SIGTERM, by Ctrl-C or with its terminal, the processes that it started end
// too.
func TestServe_ends(t *testing.T) {
	for _, c := range []struct {
		store  string
		signal os.Signal
	}{{"memory", syscall.SIGHUP}, {"redis", os.Interrupt}, {"dynamodb", syscall.SIGTERM}} {
		t.Run(c.store+" "+c.signal.String(), func(t *testing.T) {
			if c.store != "memory" { // skip the test if the server cannot run here
				storetest.Server(t, c.store, servers.Variables[c.store])
			}
			checkouttest.Scratch(t)
			// A child inherits an ignored SIGHUP, for example if the test runs under nohup. It does
			// not inherit a handled one.
			handled := make(chan os.Signal, 1)
			signal.Notify(handled, syscall.SIGHUP)
			defer signal.Stop(handled)
			p := commandtest.Start(t, []string{"serve", "--store", c.store}, "REDIS_URL=", "DYNAMODB_ENDPOINT=")
			r := commandtest.Send(t, http.MethodGet, p.URL+"/api/v1/search", "")
			for tries := 1; tries < 10 && r.Header.Get("Weir-Degraded") == string(limiter.ReasonTimeout); tries++ {
				// A request is repeated until it succeeds, because a server is slow just after its
				// start.
				r = commandtest.Send(t, http.MethodGet, p.URL+"/api/v1/search", "")
			}
			if r.StatusCode != http.StatusOK || r.Header.Get("Weir-Degraded") != "" {
				t.Fatalf("answer: got %s %v, want 200 from the store", r.Status, r.Header)
			}
			children := childrenOf(t, p.Process.Pid)
			if want := map[bool]int{true: 0, false: 1}[c.store == "memory"]; len(children) != want {
				t.Errorf("got %d child processes, want %d", len(children), want)
			}
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("end of serve: got error %v, want none: %s", err, p.Output)
			}
			for _, child := range children {
				if err := syscall.Kill(child, 0); err == nil {
					t.Errorf("process %d: got a running process, want an ended one", child)
				}
			}
		})
	}
}

// After the first interrupt, weir serve waits for requests in progress. The second interrupt ends
// it at once.
func TestServe_interruptedTwice(t *testing.T) {
	checkouttest.Scratch(t)
	p := commandtest.Start(t, []string{"serve"})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprint(c, "POST /api/v1/data HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// The server sends 100 Continue when a handler begins to read the body. The request is in
	// progress from then on.
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("answer to the header of the request: got %q, error %v, want 100 Continue", line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	for p.Process.Signal(os.Interrupt) == nil {
		runtime.Gosched()
	}
	var status *exec.ExitError
	if err := <-ended; !errors.As(err, &status) || !status.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("second interrupt: got error %v, want the end by a signal: %s", err, p.Output)
	}
}

var remoteStores = []string{"dynamodb", "redis"}

func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "pid=", "--ppid", strconv.Itoa(pid)).Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	return children
}
