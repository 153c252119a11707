package api_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"

	"example.com/limits/functions"
	"example.com/limits/functions/api"
)

// newEnvironment returns an environment that counts in memory, at one instant.
func newEnvironment(t *testing.T) *lambdahttp.Environment {
	t.Helper()
	parsed, err := rules.Parse(functions.Rules, rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return &lambdahttp.Environment{
		Limiter: limits, Rules: live.Fixed(parsed), Identifier: caller.New(caller.Options{}),
		Clock: func() time.Time { return noon }, Logger: slog.New(slog.DiscardHandler),
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	event, err := os.ReadFile("../../events/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// quota returns the requests that the first rule admits from a free caller.
func quota(t *testing.T) int {
	t.Helper()
	var document struct {
		Rules []struct {
			Limits struct{ Free struct{ Requests int } }
		}
	}
	if err := json.Unmarshal(functions.Rules, &document); err != nil {
		t.Fatal(err)
	}
	return document.Rules[0].Limits.Free.Requests
}

// The authorizer admits the requests of the limit for an order, and denies the next one.
func TestAuthorizer(t *testing.T) {
	authorizer, n := lambdahttp.NewAuthorizer(newEnvironment(t)), quota(t)
	for i := range n + 1 {
		answer, err := authorizer.Invoke(t.Context(), read(t, "rest-authorizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		var policy events.APIGatewayCustomAuthorizerResponse
		if err := json.Unmarshal(answer, &policy); err != nil {
			t.Fatal(err)
		}
		want := "Allow"
		if i == n {
			want = "Deny"
		}
		if got := policy.PolicyDocument.Statement[0].Effect; got != want {
			t.Errorf("request %d: got %s, want %s", i+1, got, want)
		}
	}
}

// Behind an HTTP API, the handler enforces the limits itself, and answers 429.
func TestHandler(t *testing.T) {
	e := newEnvironment(t)
	handler, n := lambdahttp.NewHandler(e, api.New(e)), quota(t)
	for i := range n + 1 {
		answer, err := handler.Invoke(t.Context(), read(t, "http-api.json"))
		if err != nil {
			t.Fatal(err)
		}
		want := `"statusCode":200`
		if i == n {
			want = `"statusCode":429`
		}
		if !strings.Contains(string(answer), want) {
			t.Errorf("request %d: got %s, want %s", i+1, answer, want)
		}
	}
}
