package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
)

// If the store does not answer, weir serve prints exactly one error line. The Redis client must
// print nothing.
func TestServe_oneErrorLine(t *testing.T) {
	checkouttest.Scratch(t)
	for range 10 {
		c := commandtest.Command(t, []string{"serve", "--store", "redis", "--port", strconv.Itoa(commandtest.FreePorts(t))},
			"REDIS_URL=redis://user:hunter2@127.0.0.1:1")
		var output bytes.Buffer
		c.Stdout, c.Stderr = &output, &output
		err := c.Run()
		if strings.Contains(output.String(), commandtest.InUse) {
			continue
		}
		status, ok := errors.AsType[*exec.ExitError](err)
		if !ok || status.ExitCode() != 1 || strings.Count(output.String(), "\n") != 1 || !strings.HasPrefix(output.String(),
			"weir: the store at redis://127.0.0.1:1 does not answer") {
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
