package lambdaenv_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// pollers is the number of events that a process of these tests handles at once.
const pollers = 16

// met is done when as many events as pollers have arrived.
var met = func() (w sync.WaitGroup) { w.Add(pollers); return }()

// meet answers when all pollers have an event. It fails for an event with the text fail.
func meet(_ context.Context, event []byte) ([]byte, error) {
	met.Done()
	met.Wait()
	if bytes.Contains(event, []byte("fail")) {
		return nil, errors.New("failed")
	}
	return event, nil
}

// startConcurrent starts a function of the tests that handles several events at once.
func startConcurrent(t *testing.T, function string, variables ...string) (*lambdaenv.Environment, *output) {
	t.Helper()
	out := &output{}
	e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{
		Bootstrap: storetest.Must(os.Executable()), Name: function, Output: out, Concurrency: pollers,
		Variables: append(variables, "WEIR_TEST_FUNCTION="+function, "GORACE=halt_on_error=1"),
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, out
}

// A process has all events at once, and each event gets its own answer or error.
func TestStart_concurrency(t *testing.T) {
	e, out := startConcurrent(t, "meet")
	var wg sync.WaitGroup
	for i := range pollers {
		wg.Go(func() {
			event := `{"n":"` + strings.Repeat("x", i) + `"}`
			if i == 0 {
				event = `{"n":"fail"}`
			}
			answer, err := e.Invoke(t.Context(), []byte(event))
			if i == 0 && (err == nil || !strings.Contains(err.Error(), "failed")) || i > 0 && (err != nil || string(answer) != event) {
				t.Errorf("event %s: got %s, %v\n%s", event, answer, err, out)
			}
		})
	}
	wg.Wait()
}

// The functions that decide are safe with several requests at once in one process, as on Lambda Managed
// Instances. A hot caller gets exactly its limit, and requests share writes.
func TestStart_concurrentFunctions(t *testing.T) {
	const limit, each = 100, 20
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"version":1,"rules":[{"endpoint":"*","on_error":"deny","limits":{"global":{"name":"all","requests":100,"window":"100d","algorithm":"fixed_window","per":["ip"]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for function, of := range map[string]struct{ event, admitted, refused string }{
		contract.Authorizer: {"rest-authorizer-anonymous.json", `"Effect":"Allow"`, `"Effect":"Deny"`},
		contract.Handler:    {"http-api-anonymous.json", `"statusCode":201`, `"statusCode":429`},
	} {
		t.Run(function, func(t *testing.T) {
			event := storetest.Must(os.ReadFile("../../events/" + of.event))
			_, table := recordstest.Table(t, nil)
			address, writes := countWrites(t)
			e, out := startConcurrent(t, function, "NAMESPACE=dev", "TABLE="+table, "DYNAMODB_ENDPOINT="+address, "WEIR_LOCAL=true", "STORE_TIMEOUT=900ms", "RULES_FILE="+rules)
			var admitted, refused atomic.Int64
			var wg sync.WaitGroup
			for range pollers {
				wg.Go(func() {
					for range each {
						answer, err := e.Invoke(t.Context(), event)
						switch {
						case err == nil && strings.Contains(string(answer), of.admitted):
							admitted.Add(1)
						case err == nil && strings.Contains(string(answer), of.refused):
							refused.Add(1)
						default:
							t.Errorf("got %s, %v, want an admission or a refusal\n%s", answer, err, out)
							return
						}
					}
				})
			}
			wg.Wait()
			if admitted.Load() != limit || refused.Load() != pollers*each-limit {
				t.Errorf("got %d admitted and %d refused requests, want %d and %d\n%s", admitted.Load(), refused.Load(), limit, pollers*each-limit, out)
			}
			if n := writes.Load(); n == 0 || n >= limit {
				t.Errorf("got %d writes for %d admitted requests, want fewer writes", n, limit)
			}
			t.Logf("%d writes for %d admitted requests", writes.Load(), limit)
			if strings.Contains(out.String(), "DATA RACE") {
				t.Error(out)
			}
		})
	}
}

// countWrites returns the address of a proxy of DynamoDB Local, and the number of its writes.
func countWrites(t *testing.T) (address string, writes *atomic.Int64) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(storetest.Must(url.Parse(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"))))
	writes = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
			writes.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, writes
}

// After a missed deadline, a process with several events at once continues.
func TestStart_concurrencyDeadline(t *testing.T) {
	waiting := make(chan struct{}, 2)
	out := &output{written: func(text string) {
		if text == "waiting\n" {
			waiting <- struct{}{}
		}
	}}
	e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{Bootstrap: storetest.Must(os.Executable()), Name: "hang", Output: out, Concurrency: 2, Variables: []string{"WEIR_TEST_FUNCTION=hang"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for range 2 {
		ctx := expiring{t.Context(), make(chan struct{})}
		go func() {
			<-waiting
			close(ctx.done)
		}()
		if _, err := e.Invoke(ctx, []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the missed deadline", err)
		}
	}
}
