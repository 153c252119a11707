package verify_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/servers"
	"github.com/weir-limits/weir/local/verify"
)

// local lists the rows that pass for the local gateway with the sample rules. The command "make run"
// starts this gateway.
var local = []string{
	"rest-answers", "http-answers", "store-decides", "rest-allowed-fields", "rest-unauthorized", "http-allowed-fields", "http-unauthorized", "rest-not-cached", "limit-exact",
	"rest-refused-status", "rest-refused-fields", "rest-refused-content-type", "rest-refused-body", "rest-missing-value", "http-refused", "retry-after",
}

// tries is the maximum number of runs with a store. On a busy machine, the store can miss its deadline.
const tries = 3

// Behind each API of make run, with each store, all rows that apply pass.
func TestRun_serve(t *testing.T) {
	for _, store := range []string{serve.Memory, "dynamodb", "redis"} {
		t.Run(store, func(t *testing.T) {
			for try := 1; ; try++ {
				problem := twice(t, served(t, store, "functions/rules.json"))
				if problem == "" {
					return
				}
				if try == tries || !strings.Contains(problem, string(limiter.ReasonTimeout)) {
					t.Fatal(problem)
				}
			}
		})
	}
}

// With the rules of make e2e, the row about settlements passes too.
func TestRun_serve_prove(t *testing.T) {
	results := verified(t, served(t, serve.Memory, "local/lab/e2e/rules.json"))
	want := slices.Insert(slices.Clone(local), slices.Index(local, "rest-not-cached"), "settlement")
	if passed := ids(results, verify.Pass); !slices.Equal(passed, want) || len(ids(results, verify.Fail)) > 0 {
		t.Errorf("got passed rows %q, want %q and no failed rows\n%s", passed, want, failures(results))
	}
}

// twice runs all rows twice, as the same caller. The second run waits until the limits recover. It returns
// a description of the rows that did not pass, or "".
func twice(t *testing.T, d *verify.Deployment) string {
	t.Helper()
	for run := range 2 {
		results := verified(t, d)
		if passed := ids(results, verify.Pass); !slices.Equal(passed, local) || len(ids(results, verify.Fail)) > 0 {
			return fmt.Sprintf("run %d: got passed rows %q, want %q and no failed rows\n%s", run+1, passed, local, failures(results))
		}
	}
	return ""
}

// served returns the APIs of make run as a deployment.
func served(t *testing.T, store, rules string) *verify.Deployment {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	t.Setenv("STORE_TIMEOUT", "900ms") // a busy machine is slower than the default permits
	c := checkouttest.Scratch(t)
	clock := &commandtest.Clock{}
	clock.Set(start)
	s := serve.New(serve.Options{API: sample.New, Store: store, Rules: rules, Namespace: checkouttest.Namespace(), Out: io.Discard, Log: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now})
	t.Cleanup(s.Close)
	rest, web := commandtest.Serve(t, func(urls []string) ([]http.Handler, error) { return s.Open(t.Context(), urls) })
	return &verify.Deployment{
		URL: rest.URL, HTTPURL: web.URL, Rules: readRules(t, c.Path(rules)), MaxWait: time.Minute, Clock: clock.Now,
		Wait: func(_ context.Context, d time.Duration) error { clock.Wait(d); return nil },
	}
}

func readRules(t *testing.T, path string) *rules.Rules {
	t.Helper()
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := checkout.ParseRules(document)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
