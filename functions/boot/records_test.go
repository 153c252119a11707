package boot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// deployment is a records table on DynamoDB Local and an environment that reads the table through a
// proxy. The test can make every request to the proxy fail.
type deployment struct {
	*lambdahttp.Environment
	keys     *apikeys.Keys
	client   *dynamodb.Client
	table    string
	endpoint string // URL of the proxy
	shut     atomic.Bool
	faults   atomic.Int64 // number of requests that the proxy closes without an answer
	requests atomic.Int64 // number of requests through the proxy
	shared   atomic.Int64 // number of these requests that use the environment's shared client
	now      time.Time
	logged   bytes.Buffer
	metrics  bytes.Buffer
}

// options returns the Options of an environment that uses the clock, log and metrics of the
// deployment.
func (d *deployment) options() boot.Options {
	return boot.Options{Logger: slog.New(slog.NewTextHandler(&d.logged, nil)), Metrics: &d.metrics, Clock: func() time.Time { return d.now }}
}

func newDeployment(t *testing.T, variables ...string) *deployment {
	t.Helper()
	local := storetest.Must(url.Parse(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")))
	d := &deployment{table: "weir-test-" + rand.Text(), now: noon}
	d.client = storetest.Must((boot.Config{DynamoDBEndpoint: local.String(), Local: true}).DynamoDBClient(t.Context()))
	d.makeTable(t, records.TableInput(d.table))
	d.keys = apikeys.New(d.client, d.table)
	proxy := httputil.NewSingleHostReverseProxy(local)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.requests.Add(1)
		if d.faults.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		if d.shut.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	d.endpoint = server.URL
	rules := write(t, "rules.json", `{"version":1,"rules":[{"endpoint":"/api/*","limits":{"free":{"requests":10,"window":"1m"},`+
		`"paid":{"requests":20,"window":"1m"},"enterprise":{"requests":30,"window":"1m"}}}]}`)
	c := load(t, append(variables, "RECORDS_TABLE="+d.table, "DYNAMODB_ENDPOINT="+server.URL, "WEIR_LOCAL=true",
		"RULES_FILE="+rules, "JWT_ISSUER="+samples.Issuer, "JWT_AUDIENCE="+samples.Audience, "JWT_ALGORITHMS=ES256")...)
	client := storetest.Must(c.DynamoDBClient(t.Context()))
	c.Share(dynamodb.New(client.Options(), d.count))
	store, _, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.Table() != "" {
		d.makeTable(t, dynamostore.TableInput(c.Table()))
	}
	d.Environment, err = c.Environment(t.Context(), storetest.Waiting(store), d.options())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// count counts the requests of the shared client.
func (d *deployment) count(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("count", func(ctx context.Context, in middleware.DeserializeInput,
			next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			d.shared.Add(1)
			return next.HandleDeserialize(context.WithoutCancel(ctx), in) // a busy machine exceeds the timeouts of functions
		}), middleware.After)
	})
}

func (d *deployment) makeTable(t *testing.T, in *dynamodb.CreateTableInput) {
	t.Helper()
	if _, err := d.client.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: in.TableName}); err != nil {
			t.Error(err)
		}
	})
}

func (d *deployment) create(t *testing.T, k apikeys.Key) string {
	t.Helper()
	key, _, err := d.keys.Create(t.Context(), d.now, k, false)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func event(t *testing.T, file, key string) []byte {
	t.Helper()
	b := storetest.Must(samples.Files.ReadFile(file))
	return []byte(strings.ReplaceAll(string(b), samples.APIKey, key))
}

// answers sends a request with a key to both functions. It returns the principal or the error of the
// authorizer, the status of the handler, and the limit that each function reports.
func (d *deployment) answers(t *testing.T, key string) (principal, limit string, status int, handlerLimit string) {
	t.Helper()
	var policy events.APIGatewayCustomAuthorizerResponse
	answer, err := lambdahttp.NewAuthorizer(d.Environment).Invoke(t.Context(), event(t, "rest-authorizer-apikey.json", key))
	if err != nil {
		policy.PrincipalID, _, _ = strings.Cut(err.Error(), ":")
	} else if err := json.Unmarshal(answer, &policy); err != nil {
		t.Fatal(err)
	}
	limit, _ = policy.Context["rateLimitLimit"].(string)
	answer, err = lambdahttp.NewHandler(d.Environment, sample.New(d.Environment)).Invoke(t.Context(), event(t, "http-api-apikey.json", key))
	if err != nil {
		t.Fatal(err)
	}
	var response events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		t.Fatal(err)
	}
	for name, value := range response.Headers {
		if strings.EqualFold(name, "X-RateLimit-Limit") {
			handlerLimit = value
		}
	}
	return policy.PrincipalID, limit, response.StatusCode, handlerLimit
}

func (d *deployment) want(t *testing.T, what, key, principal, limit string, status int) {
	t.Helper()
	p, l, s, h := d.answers(t, key)
	if p != principal || l != limit || s != status || h != limit {
		t.Errorf("%s: got principal %q with limit %q from the authorizer, status %d with limit %q from the handler; want %q, %q, %d", what, p, l,
			s, h, principal, limit, status)
	}
}

// Both functions accept a new API key and reject an unknown key. They reject a revoked key a minute
// after the revocation.
func TestConfig_Environment_apiKeys(t *testing.T) {
	for _, store := range []string{"STORE=memory:", "STORE=dynamodb://weir-test-" + rand.Text()} {
		t.Run(store, func(t *testing.T) {
			d := newDeployment(t, store)
			key, other := d.create(t, apikeys.Key{ID: "acme", Tier: "paid"}), d.create(t, apikeys.Key{ID: "beta", Tier: "enterprise"})
			d.want(t, "created", key, "apikey:acme", "20", 201)
			d.want(t, "key of another tier", other, "apikey:beta", "30", 201)
			before := d.requests.Load()
			d.want(t, "mistyped", key[:len(key)-1], "Unauthorized", "", 401)
			d.want(t, "malformed key", "weir_x", "Unauthorized", "", 401)
			if got := d.requests.Load() - before; got != 0 {
				t.Errorf("malformed keys cost %d requests, want 0", got)
			}
			d.want(t, "unknown", caller.NewAPIKey(), "Unauthorized", "", 401)
			for _, suspended := range []bool{true, false} {
				if _, err := d.keys.Set(t.Context(), time.Now(), "acme", apikeys.Change{Suspended: &suspended}); err != nil {
					t.Fatal(err)
				}
				d.now = d.now.Add(time.Minute)
				if suspended {
					d.want(t, "suspended", key, "Unauthorized", "", 401)
				} else {
					d.want(t, "no longer suspended", key, "apikey:acme", "20", 201)
				}
				d.want(t, "another while one is suspended", other, "apikey:beta", "30", 201)
			}
			if _, err := d.keys.Revoke(t.Context(), "acme", ""); err != nil {
				t.Fatal(err)
			}
			d.now = d.now.Add(59 * time.Second)
			d.want(t, "revoked, but still cached", key, "apikey:acme", "20", 201)
			d.now = d.now.Add(time.Second)
			d.want(t, "revoked", key, "Unauthorized", "", 401)
			d.want(t, "another", other, "apikey:beta", "30", 201)
			if all, shared := d.requests.Load(), d.shared.Load(); shared != all || shared == 0 {
				t.Errorf("%d of %d requests use the shared client, want all", shared, all)
			}
		})
	}
}

// While the table fails, cached keys stay valid for an hour. A request with another key gets 503.
func TestConfig_Environment_tableFails(t *testing.T) {
	d := newDeployment(t, "STORE=memory:")
	key, other := d.create(t, apikeys.Key{ID: "acme", Tier: "paid"}), d.create(t, apikeys.Key{ID: "beta"})
	d.want(t, "before", key, "apikey:acme", "20", 201)
	d.faults.Store(1)
	d.want(t, "after one dead connection", d.create(t, apikeys.Key{ID: "gamma"}), "apikey:gamma", "10", 201)
	d.shut.Store(true)
	d.now = d.now.Add(59 * time.Minute)
	d.want(t, "remembered", key, "apikey:acme", "20", 201)
	d.want(t, "key that is not cached", other, "credential could not be verified", "", 503)
	d.want(t, "malformed", "weir_x", "Unauthorized", "", 401)
	d.now = d.now.Add(time.Minute)
	d.want(t, "key that was cached for too long", key, "credential could not be verified", "", 503)
	d.shut.Store(false)
	d.now = d.now.Add(time.Second)
	d.want(t, "after", other, "apikey:beta", "10", 201)
}

// The function signingkeys copies the issuer's keys. The other functions verify tokens with the
// copy and never call the issuer.
func TestStartSigningKeys(t *testing.T) {
	d := newDeployment(t, "STORE=memory:", "JWKS=records:")
	authorize := func() string {
		b := storetest.Must(samples.Files.ReadFile("rest-authorizer-user.json"))
		answer, err := lambdahttp.NewAuthorizer(d.Environment).Invoke(t.Context(), b)
		if err != nil {
			return err.Error()
		}
		return string(answer)
	}
	if got := authorize(); !strings.HasPrefix(got, "credential could not be verified: records table: no signing keys") {
		t.Errorf("before the copy: got %s, want a failure of the authorizer", got)
	}
	keys := storetest.Must(samples.Files.ReadFile("jwks.json"))
	document := string(keys)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) }))
	defer issuer.Close()
	copyKeys := func() string {
		answer, _ := invoked(t, []byte(`{}`), "WEIR_TEST_FUNCTION=signingkeys", "RECORDS_TABLE="+d.table, "JWKS="+issuer.URL,
			"DYNAMODB_ENDPOINT="+d.endpoint, "WEIR_LOCAL=true")
		return answer
	}
	d.faults.Store(1) // one request fails, and the function repeats it
	if got := copyKeys(); got != "/2018-06-01/runtime/invocation/1/response null" {
		t.Errorf("copy of a valid key set: got %s, want a response", got)
	}
	document = "{}"
	if got := copyKeys(); !strings.HasPrefix(got, "/2018-06-01/runtime/invocation/1/error ") ||
		!strings.Contains(got, "key set: keys: missing") {
		t.Errorf("copy of an invalid key set: got %s, want an error about missing keys", got)
	}
	d.now = d.now.Add(3 * time.Second)
	if got := authorize(); !strings.Contains(got, `"principalId":"user:alice"`) {
		t.Errorf("token after the copy: got %s, want a policy for user:alice", got)
	}
	for want, variables := range map[string][]string{
		"RECORDS_TABLE": {"JWKS=" + issuer.URL}, "JWKS: key set: URL": {"RECORDS_TABLE=weir", "JWKS=http://issuer.example/keys"},
	} {
		c, output := function(t, append(variables, "WEIR_TEST_FUNCTION=signingkeys")...)
		if err := c.Run(); err == nil || strings.Count(output.String(), "\n") != 1 || !strings.Contains(output.String(), want) {
			t.Errorf("%v: got %v, want one log line that names the variable: %s", variables, err, output)
		}
	}
}
