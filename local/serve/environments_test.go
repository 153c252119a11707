package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
	"github.com/weir-limits/weir/local/why"
)

// Ten environments of each function share one store. 64 concurrent clients of one caller get
// exactly the limit, whether the authorizer or the handler charges it.
func TestEnvironments(t *testing.T) {
	rules, err := filepath.Abs("testdata/exact.json")
	if err != nil {
		t.Fatal(err)
	}
	for store, tiers := range map[string][]string{"dynamodb": {"sliding", "fixed"}, "redis": {"fixed", "sliding"}} {
		t.Run(store, func(t *testing.T) {
			storetest.Server(t, store, servers.Variables[store])
			c, log := checkouttest.Built(t), commandtest.NewOutput()
			s := &Server{Options: Options{Rules: rules, Store: store, Out: log, Log: log, Logger: slog.New(slog.NewTextHandler(log, nil)), Clock: time.Now, Namespace: checkouttest.Namespace(), Environments: 10}}
			apis := s.serving(t)
			for i, function := range []string{"LimitsAuthorizer", "LimitsHandler"} {
				if admitted := admittedOf(t, c, apis[i].URL+"/api/v1/search", function, tiers[i]); admitted != 50 {
					t.Errorf("%s, %s: got %d admitted, want the limit of 50", function, tiers[i], admitted)
				}
				if n := strings.Count(log.String(), `msg="cold start" environment=`+function); n != 10 {
					t.Errorf("%s: got %d environments, want 10:\n%s", function, n, log)
				}
			}
		})
	}
}

// serving runs the APIs of s until the test ends. Decisions have longer timeouts than on AWS,
// because many processes share this machine.
func (s *Server) serving(t *testing.T) (apis []*httptest.Server) {
	t.Helper()
	t.Cleanup(s.Close)
	template, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.prepare(t.Context()), s.openMetrics()); err != nil {
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

// admittedOf returns how many of 256 requests by 64 clients of one caller are admitted. If the
// machine is too busy to decide each in time, it repeats the round with a new caller and fewer
// clients.
func admittedOf(t *testing.T, c checkout.Checkout, url, user, tier string) int64 {
	t.Helper()
	for round, clients := 0, 64; ; round, clients = round+1, max(2, clients/2) {
		token, err := c.Token(fmt.Sprintf("%s-%s-%d", user, tier, round), tier, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		admitted, late := crowd(t, url, token, clients)
		if late == 0 || round == 20 {
			return admitted
		}
		t.Logf("%s: %d of 256 requests by %d clients were not decided in time", tier, late, clients)
	}
}

// crowd sends requests by this many clients until 256 are decided. It returns how many were
// admitted, and how many were not decided in time. If no environment is free, a client waits for
// another client's answer and retries.
func crowd(t *testing.T, url, token string, clients int) (admitted, late int64) {
	t.Helper()
	var n, undecided atomic.Int64
	var group sync.WaitGroup
	answered := make(chan struct{}, clients)
	for range clients {
		group.Go(func() {
			for decided := 0; decided < 256/clients; {
				r := commandtest.Send(t, http.MethodGet, url, token)
				switch degraded := r.Header.Get("Weir-Degraded"); {
				case degraded != "":
					undecided.Add(1)
				case r.StatusCode == http.StatusOK:
					n.Add(1)
				case r.StatusCode == http.StatusTooManyRequests:
				case r.StatusCode == http.StatusInternalServerError && r.Header.Get("x-amzn-ErrorType") != "":
					n.Add(1) // the authorizer admitted the request, but every environment of the handler was busy
				case r.StatusCode == http.StatusServiceUnavailable, r.StatusCode == http.StatusInternalServerError:
					<-answered
					continue
				default:
					t.Errorf("answer: got %s %s, want 200 or 429", r.Status, r.Text)
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

// Environments use the checkout's keys. With a memory store, each environment counts separately.
// Each writes a log and metrics.
func TestEnvironments_memory(t *testing.T) {
	checkouttest.Built(t)
	var out bytes.Buffer
	log := commandtest.NewOutput()
	s := &Server{Options: Options{Port: 8080, Out: &out, Log: log, Logger: slog.New(slog.NewTextHandler(log, nil)), Clock: time.Now, Environments: 2}}
	apis := s.serving(t)
	token, err := s.checkout.Token("alice", "free", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The first number is from the authorizer's environment, and the other two are from the
	// handler's.
	for i, remaining := range []string{"19", "19", "18"} {
		if r := commandtest.Send(t, http.MethodGet, apis[min(i, 1)].URL+"/api/v1/search", token); r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Remaining") != remaining {
			t.Errorf("request %d: got %s %v, want 200 and %s remaining", i+1, r.Status, r.Header, remaining)
		}
	}
	if r := commandtest.Send(t, http.MethodGet, apis[0].URL+"/api/v1/search", token+"x"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("bad token: got %s, want 401", r.Status)
	}
	s.greet(nil)
	for _, want := range []string{"state  in memory of each environment; environments count separately\n", "log    metrics and notices in " + s.checkout.MetricsFile() + "\n", "each function has up to 2 environments\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output: got\n%s\nwant it to contain %q", &out, want)
		}
	}
	s.Close()
	metrics, err := os.ReadFile(s.checkout.MetricsFile())
	if err != nil || !regexp.MustCompile(`(?m)^LimitsHandler\w+/1  \{.*"_aws".*\}$`).Match(metrics) {
		t.Errorf("metrics: got %s, error %v, want a line of LimitsHandler/1 with _aws", metrics, err)
	}
}

// JSON lines go to the metrics file. Other lines go to the log, each in one write.
func TestServer_line(t *testing.T) {
	var log, metrics bytes.Buffer
	s := &Server{Options: Options{Log: &log}, record: why.NewRecord(&metrics)}
	s.line("f/1", []byte("level=WARN"))
	s.line("f/2", []byte(`{"_aws":1}`))
	s.line("f/3", nil)
	if log.String() != "f/1  level=WARN\nf/3  \n" || metrics.String() != "f/2  {\"_aws\":1}\n" {
		t.Errorf("got log %q and metrics %q, want the metrics of f/2 in the metrics file and the other lines in the log", &log, &metrics)
	}
}

// Two runs of a checkout write to one metrics file without losing lines. A new run removes a file
// that is too large.
func TestServer_openMetrics(t *testing.T) {
	c := checkouttest.Scratch(t)
	write := func(text string) {
		s := &Server{checkout: c}
		if err := s.openMetrics(); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := io.WriteString(s.record, text); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	write("b")
	if got, err := os.ReadFile(c.MetricsFile()); err != nil || string(got) != "ab" {
		t.Errorf("metrics file: got %q, error %v, want the lines of both runs", got, err)
	}
	if err := os.Truncate(c.MetricsFile(), maxMetrics+1); err != nil {
		t.Fatal(err)
	}
	write("c")
	if got, err := os.ReadFile(c.MetricsFile()); err != nil || string(got) != "c" {
		t.Errorf("metrics file: got %d bytes, error %v, want only the line of the new run", len(got), err)
	}
}
