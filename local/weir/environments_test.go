package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
)

// bootstrapsAt is where the functions are built, if they are.
var bootstrapsAt string

func removeBootstraps() { _ = os.RemoveAll(bootstrapsAt) }

// bootstraps builds the functions for this machine, once, into a folder like dist.
var bootstraps = sync.OnceValues(func() (string, error) {
	dist, err := os.MkdirTemp("", "weir-test-dist-")
	if err != nil {
		return "", err
	}
	bootstrapsAt = dist
	for _, role := range []string{authorizerRole, handlerRole} {
		path := (&server{checkout: checkout{dist}}).bootstrapPath(role)
		build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", path, "github.com/weir-limits/weir/functions/"+role)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	return filepath.Join(dist, "dist"), nil
})

// built is a scratch checkout with bootstraps.
func built(t *testing.T) checkout {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments need Linux")
	}
	dist, err := bootstraps()
	if err != nil {
		t.Fatal(err)
	}
	c := scratch(t)
	if err := os.Symlink(dist, c.path("dist")); err != nil {
		t.Fatal(err)
	}
	return c
}

// Ten environments of each function over one store, and 64 clients of one caller: exactly
// the limit is admitted, by the authorizer and by the handler.
func TestEnvironments(t *testing.T) {
	rules, err := filepath.Abs("testdata/exact.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range stores[1:] {
		t.Run(store, func(t *testing.T) {
			storetest.Server(t, store, serverVariables[store])
			c, log := built(t), newOutput()
			s := &server{rules: rules, store: store, out: log, log: log, logger: slog.New(slog.NewTextHandler(log, nil)), clock: time.Now, namespace: namespace(), environments: 10}
			apis := s.serving(t)
			for i, function := range []string{"LimitsAuthorizer", "LimitsHandler"} {
				for _, tier := range []string{"sliding", "fixed"} {
					if admitted := admittedOf(t, c, apis[i].URL+"/api/v1/search", function, tier); admitted != 50 {
						t.Errorf("%s, %s: %d admitted of a limit of 50", function, tier, admitted)
					}
				}
				if n := strings.Count(log.String(), `msg="cold start" environment=`+function); n != 10 {
					t.Errorf("%s has %d environments, want 10:\n%s", function, n, log)
				}
			}
		})
	}
}

// serving runs the APIs of s until the test ends. Decisions have more time than at AWS: so
// many processes at once are slow here.
func (s *server) serving(t *testing.T) (apis []*httptest.Server) {
	t.Helper()
	t.Cleanup(s.close)
	template, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.variables["STORE_TIMEOUT"] = "999ms"
	g, err := s.gateway(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range g.APIs() {
		apis = append(apis, httptest.NewServer(api))
		t.Cleanup(apis[len(apis)-1].Close)
	}
	return apis
}

// admittedOf returns how many of 256 requests are admitted, which 64 clients of one caller
// send. A round in which the server had no time for a decision, as it may on a busy machine,
// says nothing. Then another caller tries, with fewer clients at once.
func admittedOf(t *testing.T, c checkout, url, user, tier string) int64 {
	t.Helper()
	for clients := 64; ; clients /= 2 {
		token, err := makeToken(c, fmt.Sprintf("%s-%s-%d", user, tier, clients), tier, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		admitted, late := crowd(t, url, token, clients)
		if late == 0 || clients <= 2 {
			return admitted
		}
		t.Logf("%s: %d of 256 requests by %d clients were not decided in time", tier, late, clients)
	}
}

// crowd sends requests from so many clients until 256 have been decided. It returns how many
// were admitted, and how many let through undecided, because the time was up. Where there
// is no environment left, a client tries again when another one is answered.
func crowd(t *testing.T, url, token string, clients int) (admitted, late int64) {
	t.Helper()
	var n, undecided atomic.Int64
	var group sync.WaitGroup
	answered := make(chan struct{}, clients)
	for range clients {
		group.Go(func() {
			for decided := 0; decided < 256/clients; {
				r := send(t, http.MethodGet, url, token)
				switch degraded := r.Header.Get("Weir-Degraded"); {
				case degraded != "" && degraded != "none": // which the REST API's 429 has
					undecided.Add(1)
				case r.StatusCode == http.StatusOK:
					n.Add(1)
				case r.StatusCode == http.StatusTooManyRequests:
				case r.StatusCode == http.StatusInternalServerError && r.Header.Get("x-amzn-ErrorType") != "":
					n.Add(1) // the authorizer has admitted it, and then no handler was free
				case r.StatusCode == http.StatusServiceUnavailable, r.StatusCode == http.StatusInternalServerError:
					<-answered
					continue
				default:
					t.Errorf("%s: %s", r.Status, r.body)
				}
				decided++
				select {
				case answered <- struct{}{}:
				default:
				}
			}
		})
	}
	group.Wait()
	return n.Load(), undecided.Load()
}

// Environments know the keys of the checkout, and what they count and write is their own.
func TestEnvironments_memory(t *testing.T) {
	built(t)
	var out bytes.Buffer
	log := newOutput()
	s := &server{port: 8080, out: &out, log: log, logger: slog.New(slog.NewTextHandler(log, nil)), clock: time.Now, environments: 2}
	apis := s.serving(t)
	token, err := makeToken(s.checkout, "alice", "free", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, remaining := range []string{"19", "19", "18"} { // of the authorizer, and twice of the handler
		if r := send(t, http.MethodGet, apis[min(i, 1)].URL+"/api/v1/search", token); r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Remaining") != remaining {
			t.Errorf("%s %v, want %s to remain", r.Status, r.Header, remaining)
		}
	}
	if r := send(t, http.MethodGet, apis[0].URL+"/api/v1/search", token+"x"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a bad token: %s", r.Status)
	}
	s.greet(nil)
	for _, want := range []string{"state  in memory of each environment: each counts for itself\n", "each function has up to 2 environments of its own; their metrics are in " + s.checkout.metricsFile() + "\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	s.close()
	metrics, err := os.ReadFile(s.checkout.metricsFile())
	if err != nil || !regexp.MustCompile(`(?m)^LimitsHandler\w+/1  \{.*"_aws".*\}$`).Match(metrics) {
		t.Errorf("%v, %s", err, metrics)
	}
}

// What is for people is in the log, line by line.
func TestServer_line(t *testing.T) {
	var log, metrics bytes.Buffer
	s := &server{log: &log, metrics: &metrics}
	s.line("f/1", []byte("level=WARN"))
	s.line("f/2", []byte(`{"_aws":1}`))
	s.line("f/3", nil)
	if log.String() != "f/1  level=WARN\nf/3  \n" || metrics.String() != "f/2  {\"_aws\":1}\n" {
		t.Errorf("log %q, metrics %q", &log, &metrics)
	}
}

// No environment survives the gateway, however that ends.
func TestEnvironments_end(t *testing.T) {
	built(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p := startProcess(t, []string{"serve", "--environments", "2"})
		if r := send(t, http.MethodGet, p.url+"/api/v1/search", ""); r.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", r.Status, r.body)
		}
		children := childrenOf(t, p.Process.Pid)
		if len(children) != 2 { // an authorizer and a handler
			t.Errorf("%d processes were started, want 2", len(children))
		}
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); (err == nil) != (signal == syscall.SIGTERM) {
			t.Errorf("ended with %v: %s", err, p.output)
		}
		for _, child := range children {
			deadline := time.Now().Add(30 * time.Second)
			for running(child) {
				if signal == syscall.SIGTERM || time.Now().After(deadline) { // killed, it waits for nobody
					t.Errorf("%s: process %d is still there", signal, child)
					break
				}
				runtime.Gosched()
			}
		}
	}
}

// running reports whether there is a process that has not ended. What a killed one has left
// behind is a zombie until somebody asks for it.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) && !bytes.Contains(stat, []byte(") Z "))
}

// Without bootstraps there is no environment, and who misses them is told.
func TestEnvironments_notBuilt(t *testing.T) {
	c := scratch(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments need Linux")
	}
	code, errs := serveInVain(t, "--environments", "2")
	if code != 1 || !strings.HasPrefix(errs, "weir: "+c.path("dist")) || !strings.Contains(errs, "/bootstrap is not there: make functions ARCH=") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// Two runs of a checkout write into one file, and neither loses what the other wrote; one that
// has become large is begun anew.
func TestServer_openMetrics(t *testing.T) {
	c := scratch(t)
	write := func(text string) {
		s := &server{checkout: c}
		if err := s.openMetrics(); err != nil {
			t.Fatal(err)
		}
		defer s.close()
		if _, err := io.WriteString(s.metrics, text); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	write("b")
	if got, err := os.ReadFile(c.metricsFile()); err != nil || string(got) != "ab" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Truncate(c.metricsFile(), maxMetrics+1); err != nil {
		t.Fatal(err)
	}
	write("c")
	if got, err := os.ReadFile(c.metricsFile()); err != nil || string(got) != "c" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
