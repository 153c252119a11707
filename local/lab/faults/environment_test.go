package faults

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
)

// document has one limit for each policy, and a daily limit without on_error. The windows are so long
// that none ends during a test.
const document = `{"version":1,"rules":[
	{"endpoint":"/allow","on_error":"allow","limits":{"*":{"requests":20,"window":"100d","algorithm":"fixed_window"}}},
	{"endpoint":"/deny","on_error":"deny","limits":{"*":{"requests":20,"window":"100d","algorithm":"fixed_window"}}},
	{"endpoint":"/local","on_error":"local","local_processes":5,"limits":{"*":{"requests":20,"window":"100d","algorithm":"fixed_window"}}},
	{"endpoint":"/default","limits":{"*":{"requests":57,"window":"100d","algorithm":"fixed_window"}}},
	{"endpoint":"/plenty","limits":{"*":{"requests":3000,"window":"100d","algorithm":"fixed_window"}}},
	{"endpoint":"/pair","limits":{"*":{"requests":3000,"window":"100d","algorithm":"fixed_window"},"global":{"requests":3000,"window":"100d",
		"algorithm":"fixed_window"}}}
]}`

// The numbers of requests that the rules in document allow. requests is the limit of each policy. share
// is the number that an environment admits with on_error local. plenty is the limit of the endpoint
// /plenty.
const (
	requests = 20
	share    = requests/5 - 1 // a fifth for each of 5 processes; 1 is used before the fault
	plenty   = 3000
)

// policies are the values of on_error. Each value is also the name of its endpoint in the document.
var policies = []string{"allow", "deny", "local"}

// lookup reads variables from a list of NAME=value.
func lookup(variables ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range variables {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

// environment has the values that a function builds once. Its methods send requests.
type environment struct {
	variables []string
	app       *lambdahttp.Environment
	store     limiter.Store
	handler   http.Handler
	close     func() error
}

// newEnvironment builds an environment as a function does. The environment logs to the test.
func newEnvironment(t testing.TB, document string, variables ...string) *environment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	variables = append(slices.Clone(variables), "WEIR_LOCAL=true", "RULES_FILE="+file)
	e, err := buildEnvironment(variables, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func buildEnvironment(variables []string, logger *slog.Logger) (*environment, error) {
	e, reached, err := startEnvironment(variables, logger)
	if err != nil {
		return nil, err
	}
	return e, reached
}

// startEnvironment builds an environment as a function does. It returns no error if it cannot reach
// the store.
func startEnvironment(variables []string, logger *slog.Logger) (e *environment, reached, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limiter.DefaultTimeout)
	defer cancel()
	c, err := clients.Load(lookup(variables...))
	if err != nil {
		return nil, nil, err
	}
	store, closeStore, err := c.OpenStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	built, err := c.Environment(ctx, store, boot.Options{Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	reached = c.Probe(ctx, store)
	return &environment{variables: variables, app: built, store: store, handler: built.Serve(served), close: closeStore}, reached, nil
}

type answer struct {
	status   int
	retry    string // Retry-After
	degraded limiter.Reason
	took     time.Duration
}

// served is the API that the limits protect.
var served = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// ask sends a request to the endpoint of a policy. caller is its source address.
func (e *environment) ask(caller, policy string) answer {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/"+policy, nil)
	r.RemoteAddr = caller + ":1024"
	w, begun := httptest.NewRecorder(), time.Now()
	e.handler.ServeHTTP(w, r)
	return answer{w.Code, w.Header().Get(httplimit.RetryAfterField), limiter.Reason(w.Header().Get(httplimit.DegradedField)),
		time.Since(begun)}
}

// charge returns the charge of a request to the endpoint of a policy. from is the address of the caller.
func (e *environment) charge(from, policy string) limiter.Charge {
	return e.app.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/"+policy), caller.Caller{IP: address(from)})[0]
}

func address(caller string) netip.Prefix { return netip.PrefixFrom(netip.MustParseAddr(caller), 32) }

// counted returns the number of a caller's requests that the store has counted.
func (e *environment) counted(t *testing.T, caller, policy string) int {
	t.Helper()
	c, now := e.charge(caller, policy), algo.InstantOf(time.Now())
	entries, err := e.store.Inspect(context.Background(), c.Subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.ID == c.Limit.ID {
			return int(entry.Machine.Capacity() - entry.Machine.Remaining(entry.State, now))
		}
	}
	return 0
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !holds() {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%s: got false after 10 s, want true", what)
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}
