package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/verify"
)

// place describes a deployment on this machine. Its fields seed faults.
type place struct {
	apis       func(resources) // changes the template of the APIs
	resources  func(resources) // changes the template whose resources the rows read
	authorizer func(lambda.Handler) lambda.Handler
	handler    func(lambda.Handler) lambda.Handler
	// fronts receive the requests to a URL before the API does, by the name of the URL.
	fronts map[string]func(http.Handler) http.Handler
	// denied reports that the policy of the functions denies the calls of the store.
	denied bool
	// issuerless reports that the deployment verifies no tokens.
	issuerless bool
	// closed reports that the deployment requires a credential.
	closed bool
	// apiKeyHeader is the variable API_KEY_HEADER of the functions. "" means the default.
	apiKeyHeader string
	// refusing reports that the functions refuse requests around the distributions.
	refusing bool
	// stopped reports that the clock does not advance while the run waits.
	stopped bool
}

// The names of URLs in place.fronts.
const (
	rest        = "rest"
	httpAPI     = "http"
	functionURL = "function-url"
	layerURL    = "layer"
	domain      = "domain"

	restEdge = "rest-distribution"
	httpEdge = "http-distribution"
)

// resources are the resources of a template, by logical ID.
type resources map[string]map[string]any

// each passes the properties of every resource of a type to the function change.
func (r resources) each(kind string, change func(id string, properties map[string]any)) {
	for id, resource := range r {
		if resource["Type"] == kind {
			change(id, resource["Properties"].(map[string]any))
		}
	}
}

// changed returns a golden template after a change.
func changed(t *testing.T, c checkout.Checkout, name string, change func(resources)) []byte {
	t.Helper()
	document, err := os.ReadFile(c.Path("infra", "golden", name+".template.json"))
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		return document
	}
	var all map[string]json.RawMessage
	var r resources
	if err := errors.Join(json.Unmarshal(document, &all), json.Unmarshal(all["Resources"], &r)); err != nil {
		t.Fatal(err)
	}
	change(r)
	if all["Resources"], err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if document, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return document
}

// start is the time of the first request. It is a whole second, so that waits in whole seconds are exact.
var start = time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC)

// suspendedKey is the API key of a suspended record, and validKey that of another record.
const suspendedKey = "weir-suspended"

var validKey = caller.NewAPIKey()

// settledPath is the path of an endpoint whose limit counts failures.
const settledPath = "/api/v1/items/settled"

// placeRules returns the sample rules and one rule whose requests are settled, and which no other rule matches. It
// writes their document.
func placeRules(t *testing.T, c checkout.Checkout) *rules.Rules {
	t.Helper()
	document, err := os.ReadFile(c.Path("functions", "rules.json"))
	if err != nil {
		t.Fatal(err)
	}
	document = bytes.Replace(document, []byte("/api/v1/items/{id}"), []byte("/api/v1/items/weir-verify"), 1)
	settled := `"rules": [{"endpoint": "` + settledPath + `", "method": "GET", "limits": {"*": {"name": "settled", "requests": 30, "window": "1h", "count": "failures"}}},`
	document = bytes.Replace(document, []byte(`"rules": [`), []byte(settled), 1)
	parsed, err := checkout.ParseRules(document)
	if err := errors.Join(err, os.WriteFile(rulesFile(c), document, 0o600)); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func rulesFile(c checkout.Checkout) string { return c.Path(".weir", "rules.json") }

func (p place) open(t *testing.T) *verify.Deployment {
	t.Helper()
	c := checkouttest.Scratch(t)
	clock := &commandtest.Clock{}
	clock.Set(start)
	f := &functions{}
	apis := p.gateway(t, c, f, clock.Now)
	read, err := verify.ParseTemplate(changed(t, c, "dynamodb", p.resources))
	if err != nil {
		t.Fatal(err)
	}
	url := func(name string, h http.Handler) string {
		if front := p.fronts[name]; front != nil {
			h = front(h)
		}
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	token, err := c.Token("vera", "", time.Until(start)+time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &verify.Deployment{
		URL: url(rest, apis[0]), HTTPURL: url(httpAPI, apis[1]), FunctionURL: url(functionURL, apis[1]), LayerURL: url(layerURL, apis[1]),
		RESTDistributionURL: url(restEdge, distributed(t, c, apis[0])), HTTPDistributionURL: url(httpEdge, distributed(t, c, apis[1])),
		DomainURL: url(domain, apis[0]), Rules: placeRules(t, c), SuspendedKey: suspendedKey, APIKey: validKey, APIKeyHeader: p.apiKeyHeader, Token: token, Origin: "https://app.example", Template: read, Faults: f, MaxWait: time.Minute, Clock: clock.Now,
		Wait: func(_ context.Context, d time.Duration) error {
			if !p.stopped {
				clock.Wait(d)
			}
			return nil
		},
	}
}

// distributed returns an API behind a distribution with the secret of a checkout.
func distributed(t *testing.T, c checkout.Checkout, api http.Handler) http.Handler {
	t.Helper()
	key, err := os.ReadFile(c.SubjectKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	secret := origin.Derive(key).Sent(start)
	api = answering(func(r *httptest.ResponseRecorder) { r.Header().Set("X-Amz-Cf-Id", "JKJaXmPLvHcESHA=") })(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(contract.OriginSecretField, secret)
		if r.Header.Get(viewerless) == "" {
			r.Header.Set(contract.ViewerAddressField, "127.0.0.1")
		}
		api.ServeHTTP(w, r)
	})
}

// viewerless is a field of a request to a distribution without a viewer function.
const viewerless = "Test-Viewerless"

// gateway returns the REST API and the HTTP API of the place.
func (p place) gateway(t *testing.T, c checkout.Checkout, f *functions, clock func() time.Time) []*gateway.API {
	t.Helper()
	parsed, err := template.Parse(changed(t, c, "everything", p.apis))
	if err != nil {
		t.Fatal(err)
	}
	variables := p.variables(t, c)
	handlers := map[string]lambda.Handler{}
	var store limiter.Store
	for _, function := range parsed.Functions() {
		config, err := clients.Load(func(name string) (string, bool) { value, ok := variables[name]; return value, ok })
		if err != nil {
			t.Fatal(err)
		}
		if store == nil {
			opened, closeStore, err := config.OpenStore(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = closeStore() })
			store = opened
		}
		e, err := config.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		h := lambdahttp.NewHandler(e, sample.New(e))
		if p.handler != nil {
			h = p.handler(h)
		}
		handlers[function.ID] = h
		switch function.Environment["WEIR_FUNCTION"] {
		case "log":
			handlers[function.ID] = lambdahttp.NewForward(e)
		case "authorizer":
			h := lambdahttp.NewAuthorizer(e)
			if p.authorizer != nil {
				h = p.authorizer(h)
			}
			handlers[function.ID] = f.over(h)
		}
	}
	g, err := gateway.New(parsed, gateway.Options{Functions: handlers, Logger: slog.New(slog.DiscardHandler), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return g.APIs()
}

func (p place) variables(t *testing.T, c checkout.Checkout) map[string]string {
	t.Helper()
	if _, err := c.Seed(); err != nil {
		t.Fatal(err)
	}
	placeRules(t, c)
	secret, err := os.ReadFile(c.APIKeySecretFile())
	if err != nil {
		t.Fatal(err)
	}
	records, err := json.Marshal([]caller.Record{
		{ID: "suspended", Hash: caller.HashAPIKey(secret, suspendedKey), Suspended: true}, {ID: "valid", Hash: caller.HashAPIKey(secret, validKey)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.APIKeysFile(), records, 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"STORE": "memory", "NAMESPACE": "test", "RULES_FILE": rulesFile(c), "WEIR_LOCAL": "true", "CORS_ORIGINS": "https://app.example",
		"VIEWER_ADDRESS": contract.ViewerWeir, "JWKS": c.PublicKeysFile(), "JWT_ISSUER": checkout.Issuer, "JWT_AUDIENCE": checkout.Audience, "JWT_ALGORITHMS": string(checkout.Algorithm),
		"API_KEYS_FILE": c.APIKeysFile(), "API_KEY_SECRET_FILE": c.APIKeySecretFile(), "SUBJECT_KEY_FILE": c.SubjectKeyFile(),
	}
	all["REQUIRE_CREDENTIAL"] = strconv.FormatBool(p.closed)
	if p.apiKeyHeader != "" {
		all["API_KEY_HEADER"] = p.apiKeyHeader
	}
	if p.refusing {
		all["DIRECT_REQUESTS"] = contract.DirectRefuse
	}
	if p.issuerless {
		delete(all, "JWKS")
	}
	if p.denied {
		maps.Copy(all, map[string]string{"STORE": "dynamodb", "TABLE": "counters", "DYNAMODB_ENDPOINT": denying(t)})
	}
	return all
}

// denying returns the URL of a DynamoDB whose policy permits no call.
func denying(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform dynamodb:UpdateItem"}`))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// functions make the authorizer fail. They implement verify.Faults.
type functions struct{ broken atomic.Bool }

func (f *functions) BreakAuthorizer(context.Context) (func(context.Context) error, error) {
	f.broken.Store(true)
	return func(context.Context) error { f.broken.Store(false); return nil }, nil
}

// over returns h as an authorizer that fails while f is broken.
func (f *functions) over(h lambda.Handler) lambda.Handler {
	return function(func(ctx context.Context, event []byte) ([]byte, error) {
		if f.broken.Load() {
			return nil, errors.New("Rate exceeded")
		}
		return h.Invoke(ctx, event)
	})
}

type function func(context.Context, []byte) ([]byte, error)

func (f function) Invoke(ctx context.Context, event []byte) ([]byte, error) { return f(ctx, event) }

func ids(results []verify.Result, outcome verify.Outcome) (list []string) {
	for _, r := range results {
		if r.Outcome == outcome {
			list = append(list, r.Row)
		}
	}
	return list
}

// failures describes the rows that failed.
func failures(results []verify.Result) string {
	var b strings.Builder
	for _, r := range results {
		if r.Outcome == verify.Fail {
			b.WriteString(r.Row + ": want " + r.Expected + ", got " + r.Observed + "\n" + r.Raw + "\n")
		}
	}
	return b.String()
}
