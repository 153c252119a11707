package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/gateway"
)

// opened is the time at which the tests of rules documents begin: the last hour of January.
var opened = time.Date(2100, 1, 31, 23, 0, 0, 0, time.UTC)

// ruled is an API whose functions enforce a rules document. The API key of a request is "key-"
// followed by the id of the caller's record.
type ruled struct {
	limiter.Store
	storetest.Patient

	records caller.KeyRecords
	kind    gateway.Kind
	api     *httptest.Server
	now     time.Time
	calls   atomic.Int64 // number of calls of Take
	rules   *rules.Rules
	metrics bytes.Buffer
}

func (r *ruled) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	r.calls.Add(1)
	return r.Store.Take(ctx, now, s, charges, results)
}

// onEach runs a test with a rules document for each kind of store and of API. Each run has its own
// counters. handler is the back end.
func onEach(t *testing.T, document string, handler http.HandlerFunc, test func(t *testing.T, r *ruled)) {
	for _, store := range []string{"memory", "dynamodb", "redis"} {
		t.Run(store, func(t *testing.T) {
			for _, kind := range []gateway.Kind{gateway.REST, gateway.HTTP} {
				t.Run(string(kind), func(t *testing.T) { test(t, newRuled(t, openStore(t, store), kind, document, handler)) })
			}
		})
	}
}

// example returns the text of an example document in limiter/rules.
func example(t *testing.T, name string) string {
	t.Helper()
	document, err := os.ReadFile("../../limiter/rules/examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

func newRuled(t *testing.T, store limiter.Store, kind gateway.Kind, document string, handler http.HandlerFunc) *ruled {
	t.Helper()
	parsed, err := rules.Parse([]byte(document), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &ruled{Store: store, records: keys{}, kind: kind, rules: parsed, now: opened}
	logger := slog.New(slog.DiscardHandler)
	recorder := telemetry.New(&r.metrics, "dev", nil)
	recorder.Rules(r.now, 1, time.Time{}, parsed.Labels(), parsed.Exemptions())
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(r, limiter.Options{Logger: logger, Notify: recorder.Notice})), Rules: live.Fixed(parsed),
		Logger:     logger,
		Identifier: caller.New(caller.Options{APIKeys: r}), Clock: func() time.Time { return r.now }, Recorder: recorder,
		MACs: mac.Fixed("dev", []byte("secret")), BehindAuthorizer: true,
	}
	f := functions{"Guard": lambdahttp.NewAuthorizer(e), "Function": lambdahttp.NewHandler(e, handler)}
	r.api = serve(t, apisOf(t, everything, everywhere, f, e.Clock)[kind])
	return r
}

func (r *ruled) Lookup(ctx context.Context, now time.Time, key string) (caller.Record, error) {
	return r.records.Lookup(ctx, now, key)
}

// keys is a caller.KeyRecords that accepts every API key with the prefix "key-". The record
// "suspended" is suspended.
type keys struct{}

func (keys) Lookup(_ context.Context, _ time.Time, key string) (caller.Record, error) {
	if len(key) < 5 || key[:4] != "key-" {
		return caller.Record{}, caller.ErrInvalidCredential
	}
	return caller.Record{ID: key[4:], Suspended: key == "key-suspended"}, nil
}

// openStore opens a store of this kind with a new namespace. It skips the test if the server is
// missing.
func openStore(t *testing.T, kind string) limiter.Store {
	t.Helper()
	c := boot.Config{Store: "memory:", Namespace: "gateway-" + rand.Text(), Local: true, AWS: clients.AWS}
	switch kind {
	case "dynamodb":
		c.Store, c.DynamoDBEndpoint = "dynamodb://weir-gateway", storetest.Server(t, kind, "DYNAMODB_ENDPOINT")
		client := storetest.Must(c.DynamoDBClient(t.Context()))
		_, err := client.CreateTable(t.Context(), dynamostore.TableInput(c.Table()))
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			t.Fatal(err)
		}
	case "redis":
		c.Store = storetest.Server(t, kind, "REDIS_URL")
	}
	store, closeStore, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeStore() })
	return store
}

func times(n, status int) []int { return slices.Repeat([]int{status}, n) }

// want sends equal requests, such as "GET /a", one for each status in statuses, and checks the
// statuses. It returns the last answer.
func (r *ruled) want(t *testing.T, request string, statuses []int, headers ...string) (last answer) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	for i, status := range statuses {
		last = send(t, r.api, method, path, "", headers...)
		if last.status != status {
			t.Errorf("request %d, %s with %q: got %d %s, want %d", i+1, request, headers, last.status, last.body, status)
		}
	}
	return last
}
