package lambdahttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// identified has one limit for each group, and an endpoint that answers with the caller and the number of its limits.
const identified = `{"tiers":["gold","free"],"default_tier":"free","usage":{"endpoint":"/me","limit":{"requests":99,"window":"1m"}},
	"rules":[{"endpoint":"*","limits":{"*":{"name":"own","requests":9,"window":"1m"}}},
	{"endpoint":"/a","limits":{"*":[{"name":"group","requests":9,"window":"1m","per":["claim:group"]},
	{"name":"issuer","requests":9,"window":"1m","per":["claim:issuerDN","claim:serialNumber"]}]}}]}`

// With Host, the caller is the one that the host of an event has verified. Tokens in fields are not read, and a host that
// verifies nobody answers 503.
func TestEnvironment_Host(t *testing.T) {
	const (
		rest, http2, function = "rest-proxy-anonymous.json", "http-api-anonymous.json", "function-url-anonymous.json"
		cognito               = `{"claims":{"sub":"alice","cognito:groups":"x,gold","name":"Doe, J","token_use":"id","aud":"a",
			"exp":"Tue Apr 04"}}`
		jwt          = `{"claims":{"sub":"alice","cognito:groups":["x","gold"],"name":"[a b]","client_id":"c","exp":1772625601}}`
		httpJWT      = `{"jwt":{"claims":{"sub":"alice","cognito:groups":"[x gold]","name":"Doe, J","exp":"1772625601"},"scopes":null}}`
		session      = "arn:aws:sts::123456789012:assumed-role/Caller/any"
		certificates = `{"clientCert":{"subjectDN":"CN=alice","issuerDN":"CN=ca","serialNumber":"7"}}`
	)
	for name, c := range map[string]struct {
		file, authorizer, identity, want string
	}{
		"REST, Cognito":           {rest, cognito, "", "user:alice gold 3"},
		"REST, Cognito, a comma":  {rest, `{"claims":{"sub":"alice","group":"a,b"}}`, "", "user:alice free 2"},
		"REST, JWT":               {rest, jwt, "", "user:alice gold 3"},
		"REST, own, by name":      {rest, `{"principalId":"p","sub":"bob","cognito:groups":"gold","group":"a,b"}`, "", "user:bob gold 2"},
		"REST, own, without user": {rest, `{"principalId":"p","group":"a"}`, "", "401"},
		"REST, own, text claims":  {rest, `{"claims":"none","sub":"bob"}`, "", "user:bob free 1"},
		"REST, decision of Weir":  {rest, `{"weir":"allowed","subject":"user:eve","sub":7}`, "", "user:7 free 1"},
		"REST, IAM role":          {rest, "null", `{"userArn":"` + session + `"}`, "user:arn:aws:sts::123456789012:assumed-role/Caller free 1"},
		"REST, IAM user":          {rest, "null", `{"userArn":"arn:aws:iam::1:user/a/b"}`, "user:arn:aws:iam::1:user/a/b free 1"},
		"REST, federated user":    {rest, "null", `{"userArn":"arn:aws:sts::1:federated-user/any"}`, "user:arn:aws:sts::1:federated-user free 1"},
		"REST, identity pool":     {rest, "null", `{"userArn":"` + session + `","cognitoIdentityId":"eu:1"}`, "user:eu:1 free 1"},
		"REST, guest": {rest, "null", `{"userArn":"` + session + `","cognitoIdentityId":"eu:1","cognitoAuthenticationType":"unauthenticated"}`,
			"401"},
		"REST, mTLS":             {rest, "null", certificates, "user:CN%3Dalice free 2"},
		"REST, mTLS and Cognito": {rest, cognito, certificates, "user:alice gold 3"},
		"REST, no authorizer":    {rest, "null", `{"accountId":7}`, "401"},
		"1.0, JWT":               {"1.0", `{"claims":{"sub":"alice","cognito:groups":"[x gold]"},"scopes":null}`, "", "user:alice gold 3"},
		"1.0, no authorizer":     {"1.0", "null", "{}", "401"},
		"HTTP API, JWT":          {http2, httpJWT, "", "user:alice gold 3"},
		"HTTP API, one group":    {http2, strings.Replace(httpJWT, "[x gold]", "[gold]", 1), "", "user:alice gold 2"},
		"HTTP API, no group":     {http2, strings.Replace(httpJWT, "[x gold]", "[]", 1), "", "user:alice free 1"},
		"HTTP API, list as user": {http2, strings.Replace(httpJWT, `"alice"`, `"[bob]"`, 1), "", "user:%5Bbob%5D gold 3"},
		"HTTP API, own": {http2, `{"lambda":{"sub":"bob","cognito:groups":["gold"],"plan":{"group":["a","b"]}}}`, "",
			"user:bob gold 2"},
		"HTTP API, IAM": {http2, `{"iam":{"userArn":"` + session + `"}}`, "",
			"user:arn:aws:sts::123456789012:assumed-role/Caller free 1"},
		"HTTP API, identity pool": {http2, `{"iam":{"userArn":"` + session + `","cognitoIdentity":{"identityId":"eu:1"}}}`, "",
			"user:eu:1 free 1"},
		"HTTP API, guest": {http2, `{"iam":{"userArn":"` + session + `","cognitoIdentity":{"identityId":"eu:1","amr":["unauthenticated"]}}}`, "",
			"401"},
		"HTTP API, mTLS":          {http2, "null", certificates, "user:CN%3Dalice free 2"},
		"HTTP API, no authorizer": {http2, "null", "", "401"},
		"function URL, IAM":       {function, `{"iam":{"userArn":"arn:aws:iam::1:user/a"}}`, "", "user:arn:aws:iam::1:user/a free 1"},
		"function URL, open":      {function, "null", "", "503"},
		"function URL, no IAM":    {function, httpJWT, "", "503"},
		"load balancer":           {"alb-anonymous.json", cognito, certificates, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			e := limitedBy(t, identified)
			e.Host, e.BehindAuthorizer = &caller.ClaimNames{Tier: "cognito:groups", Others: map[string]string{"group": "cognito:groups"}}, false
			file := c.file
			if file == "1.0" {
				file = rest
			}
			event := edited(t, file, func(v map[string]any) {
				in := v["requestContext"].(map[string]any)
				in["authorizer"] = json.RawMessage(c.authorizer)
				v["path"], v["rawPath"], v["httpMethod"] = "/me", "/me", "GET"
				v["headers"].(map[string]any)["authorization"] = "Bearer forged"
				if of, ok := in["http"].(map[string]any); ok {
					of["method"], in["stage"] = "GET", "$default"
				}
				if c.file == "1.0" {
					v["version"] = "1.0"
				}
				if c.identity != "" {
					in["authentication"] = json.RawMessage(c.identity)
					if file == rest {
						in["identity"], in["authentication"], in["elb"] = json.RawMessage(c.identity), nil, nil // as if encoded again
					}
				}
			})
			if got := usageIn(t, handle(t, e, http.NotFoundHandler(), event)); got != c.want {
				t.Errorf("handler: got %s, want %s", got, c.want)
			}
			own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { return nil })
			var a answer
			if err != nil || json.Unmarshal(own.Payload, &a) != nil {
				t.Fatalf("layer: got %+v, %v, want an answer", own, err)
			}
			if got := usageIn(t, a); got != c.want {
				t.Errorf("layer: got %s, want %s", got, c.want)
			}
		})
	}
}

// usageIn returns the caller, the tier and the number of limits in an answer of the usage endpoint, or the status of another one.
func usageIn(t *testing.T, a answer) string {
	t.Helper()
	var usage httplimit.Usage
	if a.StatusCode != http.StatusOK {
		return fmt.Sprint(a.StatusCode)
	}
	if err := json.Unmarshal([]byte(a.Body), &usage); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %d", usage.Subject, usage.Tier, len(usage.Limits))
}

// With Host, a server without events and the authorizer of Weir verify nobody. An API key identifies a caller only if the
// Identifier has keys.
func TestEnvironment_Host_others(t *testing.T) {
	e := limitedBy(t, identified)
	e.Host = &caller.ClaimNames{}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/me", nil)
	e.Serve(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("server: got %d, want 503", w.Code)
	}
	if _, err := authorize(t, e, sampleEvent(t, "rest-authorizer-user.json")); err == nil || !strings.Contains(err.Error(), "IDENTITY=host") {
		t.Errorf("authorizer: got %v, want an error", err)
	}
	event := edited(t, "http-api-apikey.json", func(v map[string]any) {
		v["rawPath"], v["requestContext"].(map[string]any)["stage"] = "/me", "$default"
		v["requestContext"].(map[string]any)["http"].(map[string]any)["method"] = "GET"
		v["headers"].(map[string]any)["x-api-key"] = samples.APIKey
	})
	for _, want := range []string{"apikey:sample-enterprise free 1", "401"} {
		if got := usageIn(t, handle(t, e, http.NotFoundHandler(), event)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		e.Identifier = caller.New(caller.Options{}) // without keys
	}
}
