package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

func TestNew_MissingFunctions(t *testing.T) {
	_, err := gateway.New(templatetest.Parse(t, "template/testdata/good/responses.json"), gateway.Options{Functions: functions{"Guard": nil}})
	want := "Functions.Function: no handler, and GET / of Api invokes it\n" +
		"Functions.Function: no handler, and GET /items/{id} of Api invokes it\n" +
		"Functions.Guard: no handler, and GET / of Api invokes it\n" +
		"Functions.Guard: no handler, and GET /items/{id} of Api invokes it"
	if err == nil || err.Error() != want {
		t.Errorf("error: got\n%v\nwant\n%s", err, want)
	}
}

func TestGateway_APIs(t *testing.T) {
	parsed := templatetest.Parse(t, "template/testdata/good/sample.json")
	g, err := gateway.New(parsed, gateway.Options{
		Functions: functions{"AuthorizerFunction": says(""), "HandlerFunction": says("")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := parsed.APIs(); got != 2 {
		t.Errorf("APIs in the template: got %d, want 2", got)
	}
	type listed struct {
		Kind     gateway.Kind
		ID, Name string
		Routes   []gateway.Route
	}
	routes := func(authorizer string) []gateway.Route {
		return []gateway.Route{
			{"POST", "/api/v1/data", "HandlerFunction", authorizer},
			{"GET", "/api/v1/items/{id}", "HandlerFunction", authorizer},
			{"POST", "/api/v1/login", "HandlerFunction", authorizer},
			{"GET", "/api/v1/search", "HandlerFunction", authorizer},
		}
	}
	want := []listed{
		{gateway.REST, "RestApi", "weir", routes("AuthorizerFunction")},
		{gateway.HTTP, "HttpApi", "weir-http", routes("")},
	}
	var got []listed
	for _, api := range g.APIs() {
		got = append(got, listed{api.Kind, api.ID, api.Name, api.Routes})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("APIs:\n got %+v\nwant %+v", got, want)
	}
}

func TestGateway_APIs_Default(t *testing.T) {
	api := newAPI(t, "template/testdata/good/http.json", gateway.HTTP, functions{"Function": says(""), "Slow": says("")}, frozen)
	if got, want := api.Routes[len(api.Routes)-1], (gateway.Route{"ANY", "$default", "Function", ""}); got != want {
		t.Errorf("default route: got %+v, want %+v", got, want)
	}
}

// If an integration names a version or an alias of a function, API Gateway needs a permission for
// that version or alias.
func TestGateway_Alias(t *testing.T) {
	for _, kind := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		function := says(`{"statusCode":200}`)
		api := newAPI(t, "template/testdata/good/alias.json", kind, functions{"Function": function}, frozen)
		if got := do(api, request(t, "GET", "/", http.NoBody)); got.status != http.StatusOK || function.calls() != 1 || api.Routes[0].Function != "Function" {
			t.Errorf("%s: got status %d and %d calls with the routes %+v, want 200, 1 call and a route to Function", kind, got.status, function.calls(), api.Routes)
		}
	}
}

// Concurrent callers each get the response to their own request, although a handler of
// lambda.NewHandler overwrites the memory of its previous answer.
func TestAPI_Concurrent(t *testing.T) {
	echo := lambda.NewHandler(func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: 200, Body: strings.Repeat(e.PathParameters["id"], 1000)}, nil
	})
	api := newAPI(t, "template/testdata/good/plain.json", gateway.REST, functions{"Function": echo, "Guard": echo, "Slow": echo}, frozen)
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for range 30 {
				got := do(api, request(t, "GET", fmt.Sprintf("/items/%d", caller), http.NoBody))
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
		api := newAPI(t, "template/testdata/good/plain.json", gateway.REST, functions{"Function": function, "Guard": function, "Slow": function}, frozen)
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
		invoked := 0
		stuck := lambda.NewHandler(func() { invoked++; <-gone })
		api := newAPI(t, "template/testdata/good/plain.json", gateway.REST, functions{"Function": stuck, "Guard": stuck, "Slow": stuck}, frozen)
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
	g, err := gateway.New(templatetest.Parse(t, "template/testdata/good/responses.json"), gateway.Options{
		Functions: functions{"Guard": says(allows("{}")), "Function": fails("out of order")},
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "GET", "/?secret=1", io.NopCloser(strings.NewReader("")))
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
