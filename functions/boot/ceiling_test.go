package boot_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"
)

// On each store, requests of a REST API and of an HTTP API share a limit with a ceiling for each tier, exactly: at the ceiling of
// free, a free caller is refused and a paid one passes. The fields of a refusal are those of the caller's part.
func TestEnvironment_ceiling(t *testing.T) {
	for _, store := range []string{"memory", "dynamodb", "redis"} {
		for _, algorithm := range []string{"fixed_window", "token_bucket"} {
			t.Run(store+" "+algorithm, func(t *testing.T) {
				c := &ceilings{environmentOver(t, store, fmt.Sprintf(`{"version":1,"tiers":["paid","free"],"rules":[{"endpoint":"*","limits":`+
					`{"global":{"name":"all","requests":20,"window":"2400h","per":["global"],"algorithm":%q,"up_to":{"free":"60%%","paid":"90%%"}}},`+
					`"on_error":"deny"}]}`, algorithm))}
				for used := range 6 { // each API admits half of the 12
					for _, api := range []func(*testing.T, string) answered{c.rest, c.http} {
						if got, want := api(t, "anonymous"), (answered{true, "", "", "free"}); got != want {
							t.Fatalf("free, after %d requests: got %+v, want %+v", 2*used, got, want)
						}
					}
				}
				refused := answered{false, "12", "0", "free"}
				for _, api := range []func(*testing.T, string) answered{c.rest, c.http} {
					if got := api(t, "anonymous"); got != refused {
						t.Errorf("free, at its ceiling: got %+v, want %+v", got, refused)
					}
				}
				for used := 12; used < 20; used++ {
					api := c.rest
					if used%2 == 1 {
						api = c.http
					}
					want := answered{true, "", "", "paid"} // an admission does not show what all callers use
					if used >= 18 {
						want = answered{false, "18", "0", "paid"}
					}
					if got := api(t, "user"); got != want {
						t.Errorf("paid, after %d requests: got %+v, want %+v", used, got, want)
					}
				}
			})
		}
	}
}

// environmentOver returns the environment of a function with a document, over an empty store.
func environmentOver(t *testing.T, store, document string) *lambdahttp.Environment {
	t.Helper()
	variables := []string{"NAMESPACE=test-" + rand.Text(), "WEIR_LOCAL=true",
		"RULES_FILE=" + write(t, "rules.json", document), "JWKS=../../events/jwks.json", "JWT_ISSUER=" + samples.Issuer,
		"JWT_AUDIENCE=" + samples.Audience, "JWT_ALGORITHMS=ES256"}
	switch store {
	case "memory":
		variables = append(variables, "STORE=memory:")
	case "redis":
		variables = append(variables, "STORE="+storetest.Server(t, store, "REDIS_URL"))
	case "dynamodb":
		variables = append(variables, "STORE=dynamodb://weir-test-"+rand.Text(),
			"DYNAMODB_ENDPOINT="+storetest.Server(t, store, "DYNAMODB_ENDPOINT"))
	}
	c := storetest.Must(clients.Load(lookup(variables...)))
	if store == "dynamodb" {
		d := &deployment{client: storetest.Must(c.DynamoDBClient(t.Context()))}
		d.makeTable(t, dynamostore.TableInput(c.Table()))
	}
	opened, closing, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closing() })
	return storetest.Must(c.Environment(t.Context(), storetest.Waiting(opened), boot.Options{Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return noon }}))
}

// ceilings sends requests of a caller of the sample events.
type ceilings struct{ *lambdahttp.Environment }

// answered is a decision with the fields that the caller gets.
type answered struct {
	allowed                 bool
	limit, remaining, whose string
}

// rest sends a request through the authorizer of a REST API.
func (c *ceilings) rest(t *testing.T, caller string) answered {
	t.Helper()
	event := storetest.Must(samples.Files.ReadFile("rest-authorizer-" + caller + ".json"))
	var policy events.APIGatewayCustomAuthorizerResponse
	if err := json.Unmarshal(storetest.Must(lambdahttp.NewAuthorizer(c.Environment).Invoke(t.Context(), event)), &policy); err != nil {
		t.Fatal(err)
	}
	text := func(key string) string { value, _ := policy.Context[key].(string); return value }
	return answered{policy.PolicyDocument.Statement[0].Effect == "Allow", text("rateLimitLimit"), text("rateLimitRemaining"), text("tier")}
}

// http sends a request through the handler of an HTTP API.
func (c *ceilings) http(t *testing.T, caller string) answered {
	t.Helper()
	event := storetest.Must(samples.Files.ReadFile("http-api-" + caller + ".json"))
	var got events.APIGatewayV2HTTPResponse
	api := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if err := json.Unmarshal(storetest.Must(lambdahttp.NewHandler(c.Environment, api).Invoke(t.Context(), event)), &got); err != nil {
		t.Fatal(err)
	}
	whose := map[string]string{"anonymous": "free", "user": "paid"}[caller] // the fields do not have it
	return answered{got.StatusCode == http.StatusOK, got.Headers[httplimit.LimitField], got.Headers[httplimit.RemainingField], whose}
}
