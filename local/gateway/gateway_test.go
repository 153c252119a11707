package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/weir-limits/weir/local/gateway"
)

func TestNew_MissingFunctions(t *testing.T) {
	_, err := gateway.New(parse(t, guarded.template(t)), gateway.Options{Functions: functions{"Guard": nil}})
	want := "Functions.Function: no handler, and ANY /guarded/{proxy+} of Api invokes it\n" +
		"Functions.Function: no handler, and GET /guarded of Api invokes it\n" +
		"Functions.Guard: no handler, and ANY /guarded/{proxy+} of Api invokes it\n" +
		"Functions.Guard: no handler, and GET /guarded of Api invokes it"
	if err == nil || err.Error() != want {
		t.Errorf("error: got\n%v\nwant\n%s", err, want)
	}
}

// Concurrent callers each get the response to their own request, although a handler of
// lambda.NewHandler overwrites the memory of its previous answer.
func TestAPI_Concurrent(t *testing.T) {
	echo := lambda.NewHandler(func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: 200, Body: strings.Repeat(e.PathParameters["proxy"], 1000)}, nil
	})
	api := newAPI(t, plain, functions{"Function": echo}, frozen)
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for range 30 {
				got := do(api, request(t, "GET", fmt.Sprintf("/open/%d", caller), http.NoBody))
				if want := strings.Repeat(fmt.Sprint(caller), 1000); got.body != want {
					t.Errorf("caller %d: got %d %.20q, want %.20q", caller, got.status, got.body, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A handler that lambda.NewHandler did not create runs concurrently. The test runs two invocations
// that wait for each other.
func TestAPI_Concurrent_OwnHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both sync.WaitGroup
		both.Add(2)
		function := &stub{answer: func(context.Context, []byte) ([]byte, error) {
			both.Done()
			both.Wait()
			return []byte(`{"statusCode":200}`), nil
		}}
		api := newAPI(t, plain, functions{"Function": function}, frozen)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if got := do(api, request(t, "GET", "/", http.NoBody)); got.status != http.StatusOK {
					t.Errorf("status: got %d, want 200", got.status)
				}
			})
		}
		wg.Wait()
	})
}

// While a handler of lambda.NewHandler blocks, the next invocation waits, times out and never runs.
func TestAPI_Concurrent_Stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		invoked, short := 0, plain
		short.Timeout = 3
		stuck := lambda.NewHandler(func() { invoked++; <-gone })
		api := newAPI(t, short, functions{"Function": stuck}, frozen)
		for range 2 {
			begun := time.Now()
			got := do(api, request(t, "GET", "/", http.NoBody))
			if after := time.Since(begun); got.status != http.StatusBadGateway || after != 3*time.Second {
				t.Errorf("status and duration: got %d after %v, want 502 after 3s", got.status, after)
			}
		}
		synctest.Wait() // waits until the second invocation reaches its deadline
		close(gone)
		synctest.Wait()
		if invoked != 1 {
			t.Errorf("invocations: got %d, want 1", invoked)
		}
	})
}

// The log line of a failure contains the id of the request but no part of its content.
func TestAPI_Log(t *testing.T) {
	var log bytes.Buffer
	g, err := gateway.New(parse(t, guarded.template(t)), gateway.Options{
		Functions: functions{"Guard": says(allows("{}")), "Function": fails("out of order")},
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "GET", "/guarded?secret=1", io.NopCloser(strings.NewReader("")))
	r.Header.Set("Authorization", "secret")
	got := do(g.APIs()[0], r)
	for _, want := range []string{"function failed", "function=Function", "request=" + got.header.Get("x-amzn-RequestId"), "out of order"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log: got %q, want it to contain %q", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("log: got %q, want no content of the request", log.String())
	}
}
