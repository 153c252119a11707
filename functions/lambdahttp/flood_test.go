package lambdahttp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// writes counts the write units that DynamoDB charges. It counts in the client, below all caches.
type writes struct {
	mu    sync.Mutex
	units float64
}

func (w *writes) install(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("writes", w.initialize), middleware.Before)
	})
}

func (w *writes) initialize(ctx context.Context, in middleware.InitializeInput,
	next middleware.InitializeHandler) (out middleware.InitializeOutput, m middleware.Metadata, err error) {
	update, ok := in.Parameters.(*dynamodb.UpdateItemInput)
	if !ok {
		return next.HandleInitialize(ctx, in)
	}
	update.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, m, err = next.HandleInitialize(context.WithoutCancel(ctx), in) // a slow DynamoDB Local must not count as an outage
	w.mu.Lock()
	defer w.mu.Unlock()
	if result, ok := out.Result.(*dynamodb.UpdateItemOutput); ok && err == nil {
		w.units += *result.ConsumedCapacity.CapacityUnits
	} else if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok && len(refused.Item) > 0 {
		w.units++ // a failed condition costs as much as a write of an item of up to 1 KB
	}
	return out, m, err
}

// take returns the units since the last call.
func (w *writes) take() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	units := w.units
	w.units = 0
	return units
}

// flooded returns an environment with this repository's rules on DynamoDB Local, and its writes.
func flooded(t *testing.T) (*target, *writes) {
	t.Helper()
	w := &writes{}
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""), Retryer: aws.NopRetryer{},
		HTTPClient: resilient.HTTPClient{Doer: awshttp.NewBuildableClient()},
	}, w.install)
	table := "weir-test-" + rand.Text()
	if _, err := client.CreateTable(ctx, dynamostore.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(table)}); err != nil {
			t.Error(err)
		}
	})
	a := newTarget(t)
	known := a.Identifier
	a.Environment = environment(t, storetest.Must(dynamostore.NewBare(client, dynamostore.Options{Table: table, Namespace: "flood"})))
	a.Identifier = known
	a.Rules = storetest.Must(fixed(rules.Parse(sampleRules, rules.Options{Version: 1, LeaseAbove: rules.LeaseAboveDynamoDB})))
	return a, w
}

// login tries to log in with a name, through the REST API or the HTTP API.
func (a *target) login(t *testing.T, rest bool, address, name string) int {
	t.Helper()
	const path = "/api/v1/login"
	body := fmt.Sprintf(`{"user":%q,"password":"wrong"}`, name)
	if !rest {
		return replied(t, a, edited(t, "http-api-anonymous.json", func(e map[string]any) {
			request{method: http.MethodPost, path: path, address: address}.v2(e, "/dev")
			e["body"], e["isBase64Encoded"] = body, false
		})).status
	}
	edit := func(e map[string]any) {
		e["path"], e["httpMethod"] = path, http.MethodPost
		e["requestContext"].(map[string]any)["identity"] = map[string]any{"sourceIp": address}
	}
	p, err := authorize(t, a.Environment, edited(t, "rest-authorizer-anonymous.json", edit))
	switch {
	case err != nil:
		return http.StatusServiceUnavailable
	case effect(p) != "Allow":
		return http.StatusTooManyRequests
	}
	return replied(t, a, edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
		edit(e)
		e["body"], e["isBase64Encoded"] = body, false
		e["requestContext"].(map[string]any)["authorizer"] = p.Context
	})).status
}

// flood is a kind of request by unknown clients.
type flood struct {
	host, of string
	header   func(i int) map[string]string // header of request i; nil for no header
	status   int                           // status of a request within the limits
	each     float64                       // write units of a request within the limits
	minute   int                           // number of requests from one address that the limits admit in the first minute
}

// logins is a flood of login attempts with different names.
const logins = "names at the login"

func forgedToken(i int) map[string]string {
	return map[string]string{"Authorization": fmt.Sprintf("Bearer %d.e30.AAAA", i)}
}

func unknownKey(int) map[string]string { return map[string]string{"X-Api-Key": caller.NewAPIKey()} }

func (f *flood) send(t *testing.T, a *target, address string, i int) int {
	t.Helper()
	if f.of == logins {
		return a.login(t, f.host == "REST API", address, fmt.Sprint("user-", address, "-", i))
	}
	r := request{address: address}
	if f.header != nil {
		r.header = f.header(i)
	}
	return hosts[f.host](t, a, r.withDefaults()).status
}

// A flood without credentials causes at most the writes that SECURITY.md lists. Each request within the
// limits costs a fixed number of writes. All requests above the limits together cost one write a
// second.
func TestAttack_flood(t *testing.T) {
	const (
		perSecond = 20 // requests of the flood
		seconds   = 60
	)
	page := storetest.Must(os.ReadFile("../../.github/SECURITY.md"))
	for _, c := range []flood{
		{"REST API", "searches without a credential", nil, http.StatusOK, 1, 120},
		{"HTTP API", "searches without a credential", nil, http.StatusOK, 1, 120},
		{"REST API", "bad tokens", forgedToken, http.StatusUnauthorized, 1, 30},
		{"HTTP API", "bad tokens", forgedToken, http.StatusUnauthorized, 1, 30},
		{"REST API", "unknown API keys", unknownKey, http.StatusUnauthorized, 1, 30},
		{"HTTP API", "unknown API keys", unknownKey, http.StatusUnauthorized, 1, 30},
		{"REST API", logins, nil, http.StatusUnauthorized, 2, 20},
		{"HTTP API", logins, nil, http.StatusUnauthorized, 2, 20},
	} {
		if row := fmt.Sprintf("| %s | %v | %d |", c.of, c.each, c.minute); !strings.Contains(string(page), row) {
			t.Errorf("SECURITY.md: got no row %q, want one", row)
		}
		t.Run(c.host+", "+c.of, func(t *testing.T) {
			a, w := flooded(t)
			start, sent := noon, 0
			a.Clock = func() time.Time { return start.Add(time.Duration(sent) * time.Second / perSecond) }
			if status := c.send(t, a, "198.51.100.1", 0); status != c.status {
				t.Fatalf("first request: got status %d, want %d", status, c.status)
			}
			if got := w.take(); got != c.each {
				t.Errorf("first request: wrote %v units, want %v", got, c.each)
			}
			passed := 0
			for ; sent < perSecond*seconds; sent++ {
				if c.send(t, a, "198.51.100.2", sent) == c.status {
					passed++
				}
			}
			got := w.take()
			t.Logf("of %d requests in a minute %d are within the limits; they cost %.0f write units", sent, passed, got)
			if passed > c.minute {
				t.Errorf("%d requests are within the limits in a minute, want at most %d", passed, c.minute)
			}
			if most := float64(passed)*c.each + seconds; got > most {
				t.Errorf("got %v write units, want at most %v: %v for each request within the limits, and one a second", got, most, c.each)
			}
			if c.status != http.StatusUnauthorized {
				return
			}
			// The flood exhausts only its own limit, so the address can still use other limits.
			if got := hosts["REST API"](t, a, request{address: "198.51.100.2"}.withDefaults()); got.status != http.StatusOK {
				t.Errorf("request without a credential: got %+v, want 200", got)
			}
			good := a.token(t, map[string]any{"sub": "alice"})
			if got := hosts["REST API"](t, a, request{address: "198.51.100.2",
				header: map[string]string{"Authorization": good}}.withDefaults()); got.status != http.StatusOK {
				t.Errorf("request with a valid credential: got %+v, want 200", got)
			}
		})
	}
}
