package verify_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/servers"
	"github.com/weir-limits/weir/local/verify"
)

// Behind each API of make run, with each store, no row fails. A second run at the same instant, as the same
// caller, waits until the limits recover.
func TestRun_serve(t *testing.T) {
	for _, store := range []string{serve.Memory, "dynamodb", "redis"} {
		t.Run(store, func(t *testing.T) {
			d := served(t, store)
			for run := range 2 {
				results := verified(t, d)
				want := []string{
					"store-decides", "rest-allowed-fields", "rest-unauthorized", "http-allowed-fields", "http-unauthorized", "rest-not-cached", "limit-exact",
					"rest-refused-status", "rest-refused-fields", "rest-refused-content-type", "rest-refused-body", "http-refused", "retry-after",
				}
				if passed := ids(results, verify.Pass); !slices.Equal(passed, want) {
					t.Errorf("run %d: got passed rows %q, want %q\n%s", run+1, passed, want, failures(results))
				}
				if failed := ids(results, verify.Fail); len(failed) > 0 {
					t.Errorf("run %d: got failed rows %q, want none", run+1, failed)
				}
			}
		})
	}
}

// served returns the APIs of make run as a deployment.
func served(t *testing.T, store string) *verify.Deployment {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	c := checkouttest.Scratch(t)
	clock := &commandtest.Clock{}
	clock.Set(start)
	s := serve.New(serve.Options{Store: store, Namespace: checkouttest.Namespace(), Out: io.Discard, Log: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now})
	t.Cleanup(s.Close)
	rest, web := commandtest.Serve(t, func(urls []string) ([]http.Handler, error) { return s.Open(t.Context(), urls) })
	return &verify.Deployment{
		URL: rest.URL, HTTPURL: web.URL, Rules: sampleRules(t, c), MaxWait: time.Minute, Clock: clock.Now,
		Wait: func(_ context.Context, d time.Duration) error { clock.Wait(d); return nil },
	}
}

func sampleRules(t *testing.T, c checkout.Checkout) *rules.Rules {
	t.Helper()
	document, err := os.ReadFile(c.Path("functions", "rules.json"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := checkout.ParseRules(document)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
