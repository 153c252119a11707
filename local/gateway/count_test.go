package gateway_test

import (
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/linked"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// onEachStore runs a test with an example document of package rules on each store.
func onEachStore(t *testing.T, example string, handler http.HandlerFunc, test func(t *testing.T, r *ruled)) {
	document, err := os.ReadFile("../../limiter/rules/examples/" + example)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"memory", "dynamodb", "redis"} {
		t.Run(kind, func(t *testing.T) {
			r := newRuledOn(t, openStore(t, kind), string(document), io.Discard, handler)
			r.now = time.Now()
			r.warmUp(t)
			test(t, r)
		})
	}
}

// openStore opens a store with a namespace of its own.
func openStore(t *testing.T, kind string) limiter.Store {
	t.Helper()
	c := boot.Config{Store: kind, Namespace: "count-" + rand.Text(), Table: "weir-gateway", Local: true, Clients: linked.Clients()}
	switch kind {
	case "dynamodb":
		c.DynamoDBEndpoint = storetest.Server(t, kind, "DYNAMODB_ENDPOINT")
		client := storetest.Must(c.DynamoDBClient(t.Context()))
		_, err := client.CreateTable(t.Context(), dynamostore.TableInput(c.Table))
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			t.Fatal(err)
		}
	case "redis":
		c.RedisURL = storetest.Server(t, kind, "REDIS_URL")
	}
	store, closeStore, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeStore() })
	return store
}

// warmUp makes a charge and a refund without a deadline. The first calls of a new server can take longer than
// a decision may wait.
func (r *ruled) warmUp(t *testing.T) {
	t.Helper()
	charges, results := []limiter.Charge{{Subject: limiter.User("warm-up"), Limit: storetest.Limit(t, "warm-up", algo.Rate{Requests: 1, Window: time.Minute}), Cost: 1}}, make([]algo.Result, 1)
	if _, err := r.Store.Take(t.Context(), algo.InstantOf(r.now), charges[0].Subject, charges, results); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Settle(t.Context(), algo.InstantOf(r.now), charges[0].Subject, charges, results, 0); err != nil {
		t.Fatal(err)
	}
}

// used returns the usage of the limits of a request.
func (r *ruled) used(t *testing.T, path string, c caller.Caller) map[string]int64 {
	t.Helper()
	used := map[string]int64{}
	for _, charge := range r.rules.Select(nil, rules.Request{Method: "POST", Path: rules.MustParsePath(path), Caller: c}).Charges {
		look, results := []limiter.Charge{{Subject: charge.Subject, Limit: charge.Limit}}, make([]algo.Result, 1)
		if _, err := r.Store.Take(t.Context(), algo.InstantOf(r.now), charge.Subject, look, results); err != nil {
			t.Fatal(err)
		}
		used[charge.Limit.Name] = results[0].Machine.Used(results[0].State, algo.InstantOf(r.now))
	}
	return used
}

// An API of a language model reports its tokens. Behind an HTTP API they count exactly, and a caller is
// refused once its tokens are used up. Behind a REST API each request keeps its reserve.
func TestCount_tokens(t *testing.T) {
	model := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Weir-Cost"); got != "" && r.Header.Get("X-Api-Key") == "key-alice" {
			t.Errorf("the API got the cost %q from a client", got)
		}
		w.Header().Set("Weir-Cost", r.Header.Get("Tokens"))
		_, _ = io.WriteString(w, "text")
	}
	onEachStore(t, "llm.json", model, func(t *testing.T, r *ruled) {
		ask := func(api gateway.Kind, key, tokens string) answer {
			return send(t, r.apis[api], "POST", "/v1/chat", "", "X-Api-Key: key-"+key, "Tokens: "+tokens, "Weir-Cost: 0")
		}
		want := func(when, key string, want map[string]int64) {
			t.Helper()
			if got := r.used(t, "/v1/chat", caller.Caller{APIKey: key}); !maps.Equal(got, want) {
				t.Errorf("%s: got a usage of %v, want %v", when, got, want)
			}
		}
		if a := ask(gateway.HTTP, "alice", "input=812, output=95"); a.status != http.StatusOK || a.header.Get("Weir-Cost") != "" {
			t.Fatalf("first question: got %d, Weir-Cost %q, want 200 without it", a.status, a.header.Get("Weir-Cost"))
		}
		want("after a question", "alice", map[string]int64{"calls": 1, "input": 812, "output": 95})
		ask(gateway.HTTP, "alice", "input=9000, output=0")
		want("above one reserve and below the other", "alice", map[string]int64{"calls": 2, "input": 9812, "output": 95})
		ask(gateway.HTTP, "alice", "input=85000, output=5000")
		if a := ask(gateway.HTTP, "alice", "input=1, output=1"); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "input") {
			t.Errorf("without room for the reserve: got %d %s, want a 429 of input", a.status, a.body)
		}
		want("after a refusal", "alice", map[string]int64{"calls": 3, "input": 94812, "output": 5095})
		r.now = r.now.Add(2 * time.Minute)
		if a := ask(gateway.HTTP, "alice", ""); a.status != http.StatusOK {
			t.Errorf("two minutes later: got %d, want 200", a.status)
		}
		want("without a report", "alice", map[string]int64{"calls": 1, "input": 8000, "output": 4000})

		if a := ask(gateway.REST, "bob", "input=812, output=95"); a.status != http.StatusOK {
			t.Errorf("REST API: got %d, want 200", a.status)
		}
		want("behind a REST API", "bob", map[string]int64{"calls": 1, "input": 8000, "output": 4000})
	})
}

// Behind an HTTP API only failed logins count. Behind a REST API every login counts.
func TestCount_failures(t *testing.T) {
	login := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	onEachStore(t, "login.json", login, func(t *testing.T, r *ruled) {
		want := func(api gateway.Kind, password string, statuses ...int) {
			t.Helper()
			for i, status := range statuses {
				if a := send(t, r.apis[api], "POST", "/login", "", "Password: "+password); a.status != status {
					t.Errorf("%s API: login %d with the %s password: got %d, want %d", api, i+1, password, a.status, status)
				}
			}
		}
		want(gateway.HTTP, "right", 200, 200, 200, 200, 200, 200, 200)
		want(gateway.HTTP, "wrong", 401, 401, 401, 401)
		want(gateway.HTTP, "right", 200, 200)
		if got := r.used(t, "/login", caller.Caller{IP: netip.MustParsePrefix("127.0.0.1/32")})["failures"]; got != 4 {
			t.Errorf("failures: got %d, want 4", got)
		}
		want(gateway.HTTP, "wrong", 401, 429)
		want(gateway.HTTP, "right", 429)
		r.now = r.now.Add(2 * time.Hour)
		// The 403 is the denial of the sixth login. This template has no gateway response that turns it into a 429.
		want(gateway.REST, "right", 200, 200, 200, 200, 200, 403)
	})
}
