package lambdahttp_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

const secret = "0123456789abcdef"

// document has small limits, so that a few requests exceed them.
const document = `{"rules":[
	{"endpoint":"/api/v1/search","method":"GET","limits":{
		"free":{"requests":60,"window":"1m","algorithm":"token_bucket","burst":2},
		"paid":{"requests":60,"window":"1m","algorithm":"token_bucket","burst":3},
		"enterprise":{"requests":4,"window":"1m"}}},
	{"endpoint":"/api/v1/data","method":"POST","limits":{"*":{"requests":2,"window":"1m"}}},
	{"endpoint":"/api/v1/items/{id}","limits":{"*":{"requests":1,"window":"1m"}}},
	{"endpoint":"*","limits":{"global":{"name":"address","requests":8,"window":"1m","per":["ip"]}}}]}`

func sampleEvent(t testing.TB, name string) []byte {
	t.Helper()
	b := storetest.Must(samples.Files.ReadFile(name))
	return b
}

func changed(t testing.TB, event []byte, old, replacement string) []byte {
	t.Helper()
	if !strings.Contains(string(event), old) {
		t.Fatalf("event: got no %q, want it at least once", old)
	}
	return []byte(strings.ReplaceAll(string(event), old, replacement))
}

func environment(t testing.TB, store limiter.Store) *lambdahttp.Environment {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	tokens := storetest.Must(caller.NewVerifier(caller.TokenOptions{Keys: keySet(), Issuer: samples.Issuer,
		Audience:   []string{samples.Audience},
		Algorithms: []string{"ES256"}}))
	return &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(store, limiter.Options{Logger: logger})), Rules: live.Fixed(parsed()), Logger: logger,
		Identifier: caller.New(caller.Options{Tokens: tokens, APIKeys: apiKeys()}),
		Clock:      func() time.Time { return noon }, BehindAuthorizer: true,
	}
}

// The environments of thousands of tests share what is parsed, because nothing changes it.
var (
	parsed = sync.OnceValue(func() *rules.Rules {
		return storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1}))
	})
	keySet = sync.OnceValue(func() caller.KeySource {
		return storetest.Must(caller.ParseKeySet(storetest.Must(samples.Files.ReadFile("jwks.json"))))
	})
	apiKeys = sync.OnceValue(func() *caller.APIKeys {
		list := `[{"id":"sample-enterprise","tier":"enterprise","hash":"` + caller.HashAPIKey([]byte(secret), samples.APIKey) + `"}]`
		return storetest.Must(caller.ParseAPIKeys([]byte(list), []byte(secret)))
	})
)

// fixed converts the results of rules.Parse to rules that never reload, and returns err unchanged.
func fixed(r *rules.Rules, err error) (*live.Rules, error) { return live.Fixed(r), err }

func memory(t testing.TB) *lambdahttp.Environment {
	return environment(t, storetest.Must(memstore.New(memstore.Options{})))
}

func authorize(t *testing.T, e *lambdahttp.Environment, event []byte) (events.APIGatewayCustomAuthorizerResponse, error) {
	t.Helper()
	var policy events.APIGatewayCustomAuthorizerResponse
	answer, err := lambdahttp.NewAuthorizer(e).Invoke(ctx, event)
	if err == nil {
		if err := json.Unmarshal(answer, &policy); err != nil {
			t.Fatal(err)
		}
	}
	return policy, err
}

func effect(p events.APIGatewayCustomAuthorizerResponse) string {
	return p.PolicyDocument.Statement[0].Effect
}

func TestAuthorizer(t *testing.T) {
	for _, c := range []struct {
		file, principal string
		capacity        int
	}{
		{"rest-authorizer-user.json", "user:alice", 3},
		{"rest-authorizer-apikey.json", "apikey:sample-enterprise", 4},
		{"rest-authorizer-anonymous.json", "ip:203.0.113.7", 2},
	} {
		t.Run(c.file, func(t *testing.T) {
			e := memory(t)
			for i := range c.capacity {
				p, err := authorize(t, e, sampleEvent(t, c.file))
				if err != nil || effect(p) != "Allow" || p.PrincipalID != c.principal {
					t.Fatalf("request %d: got %+v, %v; want Allow", i+1, p, err)
				}
				if got, want := p.PolicyDocument.Statement[0].Resource[0],
					"arn:aws:execute-api:eu-central-1:123456789012:a1b2c3d4e5/dev/*"; got != want {
					t.Fatalf("resource of the policy: got %s, want %s", got, want)
				}
				if got, want := p.Context["rateLimitRemaining"], string(rune('0'+c.capacity-1-i)); got != want || p.Context["weir"] != "allowed" ||
					p.Context["subject"] != c.principal {
					t.Fatalf("request %d: got context %v; want rateLimitRemaining %s and subject %s", i+1, p.Context, want, c.principal)
				}
			}
			p, err := authorize(t, e, sampleEvent(t, c.file))
			if err != nil || effect(p) != "Deny" {
				t.Fatalf("request over the limit: got %+v, %v; want Deny", p, err)
			}
			for key, want := range map[string]any{"weir": "refused", "policy": "search", "window": "60s", "rateLimitRemaining": "0"} {
				if p.Context[key] != want {
					t.Errorf("context %s: got %v, want %v", key, p.Context[key], want)
				}
			}
			if message, wait := p.Context["message"].(string), p.Context["retryAfter"].(string); !strings.Contains(message, "Retry after "+wait+
				" second") {
				t.Errorf("message: got %q, want it to contain retryAfter %s", message, wait)
			}
			for key, value := range p.Context { // API Gateway rejects lists and objects
				switch value.(type) {
				case string, float64, bool:
				default:
					t.Errorf("context %s has the type %T, want a scalar", key, value)
				}
			}
		})
	}
}

// For a bad credential the authorizer returns "Unauthorized". The request is charged to its address
// and never to the claimed user. After eight bad credentials the address is denied.
func TestAuthorizer_credentials(t *testing.T) {
	e := memory(t)
	event := sampleEvent(t, "rest-authorizer-user.json")
	forged := changed(t, event, "Bearer ", "Bearer x")
	doubled := []byte(strings.Replace(string(event), `"Authorization": [`, `"Authorization": ["Bearer other",`, 1))
	for i := range 8 {
		bad := forged
		if i%2 == 0 {
			bad = doubled
		}
		if _, err := authorize(t, e, bad); err == nil || err.Error() != "Unauthorized" {
			t.Fatalf("bad credential %d: got %v, want Unauthorized", i+1, err)
		}
	}
	if p, err := authorize(t, e, forged); err != nil || effect(p) != "Deny" || p.Context["policy"] != "address" {
		t.Errorf("ninth bad credential: got %+v, %v; want Deny", p, err)
	}
	elsewhere := changed(t, event, `"sourceIp": "203.0.113.7"`, `"sourceIp": "203.0.113.8"`)
	if p, err := authorize(t, e, elsewhere); err != nil || p.Context["rateLimitRemaining"] != "2" {
		t.Errorf("user after forged tokens: got %+v, %v; want 2 remaining, because forged tokens charge nothing to the user", p, err)
	}
}

// An API key that is not Weir's identifies nobody. The policy returns it, so that API Gateway finds the usage plan of
// the key. A key that API Gateway would not accept is left out.
func TestAuthorizer_foreignKey(t *testing.T) {
	event := sampleEvent(t, "rest-authorizer-apikey.json")
	for key, want := range map[string]string{
		"partner-key-of-20-letters": "partner-key-of-20-letters", strings.Repeat("k", 129): "", "weir_sample_enterprise_key": "",
	} {
		e := memory(t)
		p, err := authorize(t, e, changed(t, event, "weir_sample_enterprise_key", key))
		if err != nil || effect(p) != "Allow" || p.UsageIdentifierKey != want {
			t.Errorf("%.40s: got %+v, %v; want Allow with the usage key %q", key, p, err, want)
		}
		if foreign := !strings.HasPrefix(key, "weir_"); foreign == strings.HasPrefix(p.PrincipalID, "apikey:") {
			t.Errorf("%.40s: got the principal %s", key, p.PrincipalID)
		}
	}
	if _, err := authorize(t, memory(t), changed(t, event, "weir_sample_enterprise_key", "weir_x")); err == nil ||
		err.Error() != "Unauthorized" {
		t.Errorf("a key of Weir's, cut short: got %v, want Unauthorized", err)
	}
}

// If Weir does not read x-api-key, the field contains the key of a usage plan.
func TestAuthorizer_usageKey(t *testing.T) {
	event := changed(t, sampleEvent(t, "rest-authorizer-apikey.json"), "weir_sample_enterprise_key", "partner-key-of-20-letters")
	another, none := memory(t), memory(t)
	another.APIKeyHeader, none.Identifier = "x-weir-key", caller.New(caller.Options{})
	for name, e := range map[string]*lambdahttp.Environment{"another field": another, "no keys": none} {
		if p, err := authorize(t, e, event); err != nil || effect(p) != "Allow" || p.UsageIdentifierKey != "partner-key-of-20-letters" {
			t.Errorf("%s: got %+v, %v; want Allow with the usage key", name, p, err)
		}
	}
}

// API_KEY_HEADER can name another header field for Weir's keys.
func TestAuthorizer_apiKeyHeader(t *testing.T) {
	e := memory(t)
	e.APIKeyHeader = "x-weir-key"
	event := sampleEvent(t, "rest-authorizer-apikey.json")
	if p, err := authorize(t, e, event); err != nil || strings.HasPrefix(p.PrincipalID, "apikey:") {
		t.Errorf("key in x-api-key: got %+v, %v; want a caller without a key", p, err)
	}
	moved := bytes.ReplaceAll(bytes.ReplaceAll(event, []byte(`"x-api-key"`), []byte(`"X-Weir-Key"`)), []byte(`"X-API-Key"`),
		[]byte(`"X-Weir-Key"`))
	if p, err := authorize(t, e, moved); err != nil || !strings.HasPrefix(p.PrincipalID, "apikey:") {
		t.Errorf("key in x-weir-key: got %+v, %v; want the caller of the key", p, err)
	}
}

func TestAuthorizer_errors(t *testing.T) {
	e := memory(t)
	event := sampleEvent(t, "rest-authorizer-user.json")
	for want, payload := range map[string][]byte{
		"authorizer event: unexpected end of JSON input":   nil,
		`authorizer event: got type "TOKEN", want REQUEST`: changed(t, event, `"REQUEST"`, `"TOKEN"`),
	} {
		if _, err := authorize(t, e, payload); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error: got %v, want %s", err, want)
		}
	}
	e.Identifier = unverifiable(t)
	if _, err := authorize(t, e, event); err == nil || err.Error() == "Unauthorized" {
		t.Errorf("without the issuer's keys: got error %v, want one other than Unauthorized", err)
	}
}

// answer is a handler's answer in any payload format.
type answer struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription string              `json:"statusDescription"`
	Headers           map[string]string   `json:"headers"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`
	Cookies           []string            `json:"cookies"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

func (a answer) header(name string) string {
	if values := a.MultiValueHeaders[name]; len(values) > 0 {
		return values[0]
	}
	return a.Headers[name]
}

func handle(t *testing.T, e *lambdahttp.Environment, api http.Handler, event []byte) answer {
	t.Helper()
	b, err := lambdahttp.NewHandler(e, api).Invoke(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Behind the authorizer the handler copies the decision into its answer and charges nothing.
func TestHandler_behindAuthorizer(t *testing.T) {
	for _, file := range []string{"rest-proxy-user.json", "rest-proxy-apikey.json", "rest-proxy-anonymous.json"} {
		e := memory(t)
		for range 10 {
			a := handle(t, e, sample.New(e), sampleEvent(t, file))
			if a.StatusCode != http.StatusOK || strings.TrimSpace(a.Body) != `{"query":"weir","results":[]}` {
				t.Fatalf("%s: got %+v, want 200", file, a)
			}
			for name, want := range map[string]string{
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "99", "X-RateLimit-Reset": "1772625601",
				"RateLimit-Policy": `"search";q=1000;w=60`, "RateLimit": `"search";r=99;t=1`, "Retry-After": "",
			} {
				if got := a.header(name); got != want {
					t.Fatalf("%s: %s: got %s, want %s", file, name, got, want)
				}
			}
		}
	}
}

// newRules is a source with the version 2 of a document.
type newRules string

func (d newRules) Document(context.Context) (live.Document, error) {
	return live.Document{Content: []byte(d), Version: 2}, nil
}

// Behind the authorizer the handler follows new rules, also from a document without a count to one with a count.
func TestHandler_behindAuthorizer_reload(t *testing.T) {
	e, now := memory(t), noon
	e.Clock = func() time.Time { return now }
	e.Rules = live.New(parsed(), newRules(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"failures","requests":1,"window":"1h",`+
		`"count":"failures","per":["ip"]}}}]}`), live.Options{})
	failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	for i, want := range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
		now = noon.Add(time.Duration(i+2) * time.Minute)
		if a := handle(t, e, failing, sampleEvent(t, "rest-proxy-anonymous.json")); a.StatusCode != want {
			t.Errorf("request %d: got status %d, want %d", i+1, a.StatusCode, want)
		}
	}
}

// The API receives the client's request unchanged on every host.
func TestHandler_request(t *testing.T) {
	var seen *http.Request
	var body string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(b)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Vary", "Accept")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("Vary", "too late")
		_, _ = w.Write([]byte{0xff, 0xfe})
	})
	for _, c := range []struct {
		file, method, target, remote, body, cookie string
	}{
		{"rest-proxy-user.json", "GET", "/api/v1/search?q=weir", "203.0.113.7:0", "", ""},
		{"http-api-user.json", "POST", "/api/v1/data?dry=1&dry=2", "203.0.113.7:0", `{"hello":"weir"}`, "a=1; b=2"},
		{"function-url-anonymous.json", "GET", "/api/v1/items/5", "[2001:db8:1:2:3::4]:0", "", ""},
		{"alb-anonymous.json", "GET", "/api/v1/search?q=two%20words", "203.0.113.7:0", "", ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			a := handle(t, memory(t), api, sampleEvent(t, c.file))
			if seen.Method != c.method || seen.URL.RequestURI() != c.target || seen.RemoteAddr != c.remote || body != c.body ||
				seen.Header.Get("Cookie") != c.cookie || seen.Host == "" {
				t.Errorf("request at the API: got %s %s from %s at %q with body %q and cookie %q; want %+v and a host", seen.Method,
					seen.URL.RequestURI(), seen.RemoteAddr, seen.Host, body, seen.Header.Get("Cookie"), c)
			}
			cookies := a.Cookies
			if c.file == "rest-proxy-user.json" {
				cookies = a.MultiValueHeaders["Set-Cookie"]
			}
			if c.file == "alb-anonymous.json" {
				cookies = []string{a.Headers["Set-Cookie"], a.Headers["set-Cookie"]}
				slices.Sort(cookies)
			}
			if !slices.Equal(cookies, []string{"a=1", "b=2"}) || a.Cookies != nil && a.Headers["Set-Cookie"] != "" {
				t.Errorf("cookies of the answer: got %q and %q, want two, each once", cookies, a.Headers["Set-Cookie"])
			}
			if a.StatusCode != http.StatusAccepted || !a.IsBase64Encoded || a.Body != "//4=" || a.header("Vary") != "Accept" {
				t.Errorf("answer: got %+v, want 202 with a body in base64 and Vary: Accept", a)
			}
		})
	}
	multi := changed(t, sampleEvent(t, "alb-anonymous.json"), `"headers": {`,
		`"multiValueHeaders": {"x-forwarded-for": ["203.0.113.9"], "host": ["h"]}, "ignored": {`)
	if a := handle(t, memory(t), api, multi); len(a.MultiValueHeaders["Set-Cookie"]) != 2 || a.StatusDescription != "202 Accepted" ||
		seen.RemoteAddr != "203.0.113.9:0" {
		t.Errorf("target group with multi-value headers: got %+v, want 202 with two cookies", a)
	}
	custom := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"domainName": "f6g7h8i9j0.execute-api.eu-central-1.amazonaws.com"`,
		`"domainName": "api.example.com"`)
	handle(t, memory(t), api, custom)
	if seen.URL.Path != "/dev/api/v1/data" {
		t.Errorf("path on a custom domain: got %s, want the path with /dev, because a custom domain has no stage", seen.URL.Path)
	}
	beside := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"rawPath": "/dev/api`, `"rawPath": "/devapi`)
	handle(t, memory(t), api, beside)
	if seen.URL.Path != "/devapi/v1/data" {
		t.Errorf("path that begins with the name of the stage: got %s, want it unchanged", seen.URL.Path)
	}
	root := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"rawPath": "/dev/api/v1/data"`, `"rawPath": "/dev"`)
	handle(t, memory(t), api, root)
	if seen.URL.Path != "/" {
		t.Errorf("path of the stage alone: got %s, want /", seen.URL.Path)
	}
}

func TestHandler_errors(t *testing.T) {
	e := memory(t)
	h := lambdahttp.NewHandler(e, sample.New(e))
	for want, payload := range map[string]string{
		"event: unexpected end":                "",
		"unsupported event: no method or path": `{"Records":[]}`,
		"event body: illegal base64": `{"version":"2.0","rawPath":"/","requestContext":{"http":{"method":"GET"}},"body":"%",` +
			`"isBase64Encoded":true}`,
	} {
		if _, err := h.Invoke(ctx, []byte(payload)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error: got %v, want %s", err, want)
		}
	}
}

type unreachable struct{ limiter.Store }

func (unreachable) Take(context.Context, algo.Instant, limiter.Subject, []limiter.Charge, []algo.Result) (bool, error) {
	return false, limiter.ErrUnavailable
}

// While the store fails, on_error "deny" makes the authorizer return an error. The authorizer must not
// return Deny, because API Gateway would then answer 429. The handler answers 503. With on_error
// "local", the local share of the limit decides.
func TestDegraded_onError(t *testing.T) {
	for policy, want := range map[string]struct{ effects, statuses []string }{
		`"on_error":"deny"`:                       {[]string{"failed", "failed"}, []string{"503", "503"}},
		`"on_error":"local","local_processes":10`: {[]string{"Allow", "Deny"}, []string{"201", "429"}},
	} {
		r := storetest.Must(rules.Parse([]byte(`{"rules":[{"endpoint":"*",`+policy+`,"limits":{"*":{"name":"l","requests":10,"window":"1m"}}}]}`),
			rules.Options{Version: 1}))
		fresh := func() *lambdahttp.Environment {
			e := environment(t, unreachable{})
			e.Rules, e.Limiter = live.Fixed(r), storetest.Must(limiter.New(unreachable{}, limiter.Options{Logger: e.Logger}))
			return e
		}
		e := fresh()
		for i, want := range want.effects {
			p, err := authorize(t, e, sampleEvent(t, "rest-authorizer-user.json"))
			switch {
			case want == "failed":
				if err == nil || err.Error() == "Unauthorized" || strings.Contains(err.Error(), "alice") {
					t.Errorf("%s: request %d: got %+v, %v; want a failure of the authorizer", policy, i+1, p, err)
				}
			case err != nil || effect(p) != want || p.Context["degraded"] != "store_unavailable":
				t.Errorf("%s: request %d: got %+v, %v; want a degraded %s", policy, i+1, p, err, want)
			}
		}
		e = fresh()
		for i, want := range want.statuses {
			a := handle(t, e, sample.New(e), sampleEvent(t, "http-api-user.json"))
			if got := strconv.Itoa(a.StatusCode); got != want || a.header("Weir-Degraded") != "store_unavailable" ||
				a.StatusCode == http.StatusServiceUnavailable && a.header("Retry-After") != "1" {
				t.Errorf("%s: request %d: got %+v, want a degraded %s", policy, i+1, a, want)
			}
		}
	}
}

// The function log reads both of its sample events. Their value comes from another deployment. With
// a value of this deployment, each event charges the limits for which it has a value.
func TestForward_samples(t *testing.T) {
	var sample contract.Report
	if err := json.Unmarshal(sampleEvent(t, "report-invoke.json"), &sample); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ forged, charged, want string }{"report-invoke.json": {forged, charged,
		"calls 1, failures 1, bytes 1234"}, "report-log.json": {"null", "null", "calls 1, bytes 1234"}} {
		d := newDecided(t, eachCount)
		event := sampleEvent(t, name)
		if got, err := d.settle.Invoke(ctx, event); err != nil || string(got) != c.forged || d.counted(telemetry.ReportsRejected) != 1 {
			t.Errorf("%s: got %s, %v; want %s and one rejected report", name, got, err, c.forged)
		}
		d.want(name, "")
		if got, err := d.settle.Invoke(ctx, withValue(t, event, sample.Report, d.sealed())); err != nil || string(got) != c.charged {
			t.Errorf("%s with a value of this deployment: got %s, %v; want %s", name, got, err, c.charged)
		}
		d.want(name, c.want)
	}
}

// withValue returns an event of the function log with another value of the authorizer.
func withValue(t *testing.T, event []byte, sealed, other string) []byte {
	t.Helper()
	var logs events.CloudwatchLogsEvent
	if err := json.Unmarshal(event, &logs); err != nil {
		t.Fatal(err)
	}
	if logs.AWSLogs.Data == "" {
		return bytes.Replace(event, []byte(sealed), []byte(other), 1)
	}
	data, err := logs.AWSLogs.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for i := range data.LogEvents {
		data.LogEvents[i].Message = strings.Replace(data.LogEvents[i].Message, sealed, other, 1)
	}
	return logged(t, storetest.Must(json.Marshal(data)))
}

// The tests in this file use every sample event.
func TestEvents_used(t *testing.T) {
	test := storetest.Must(os.ReadFile("app_test.go"))
	files := storetest.Must(samples.Files.ReadDir("."))
	for _, f := range files {
		if !strings.Contains(string(test), `"`+f.Name()+`"`) {
			t.Errorf("events/%s: got no test that uses it, want one", f.Name())
		}
	}
}

// counting records the charged subjects. Each charge is one write to a remote store.
type counting struct {
	limiter.Store
	storetest.Patient
	mu       sync.Mutex
	subjects []string
}

func (c *counting) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	c.mu.Lock()
	c.subjects = append(c.subjects, s.String())
	c.mu.Unlock()
	return c.Store.Take(ctx, now, s, charges, results)
}

// sampleRules are the rules of the sample API. A copy of the repository replaces functions/rules.json.
//
//go:embed testdata/rules.json
var sampleRules []byte

// Without an authorizer, the handler enforces the limits on every host.
func TestHandler_enforces(t *testing.T) {
	for _, c := range []struct {
		file     string
		capacity int
		status   int
	}{
		{"http-api-user.json", 2, http.StatusCreated},
		{"http-api-apikey.json", 2, http.StatusCreated},
		{"http-api-anonymous.json", 2, http.StatusCreated},
		{"function-url-anonymous.json", 1, http.StatusOK},
		{"alb-anonymous.json", 2, http.StatusOK},
	} {
		t.Run(c.file, func(t *testing.T) {
			e := memory(t)
			for i := range c.capacity {
				if a := handle(t, e, sample.New(e), sampleEvent(t, c.file)); a.StatusCode != c.status ||
					a.header("X-RateLimit-Remaining") != string(rune('0'+c.capacity-1-i)) {
					t.Fatalf("request %d: got %+v, want it allowed", i+1, a)
				}
			}
			a := handle(t, e, sample.New(e), sampleEvent(t, c.file))
			if a.StatusCode != http.StatusTooManyRequests || a.header("Retry-After") == "" ||
				a.header("Content-Type") != "application/problem+json" {
				t.Errorf("request over the limit: got %+v, want 429", a)
			}
		})
	}
}

const ownDomain = `"domainName": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"`

// All spellings of a path are charged as one endpoint. A long path does not make the policy invalid.
func TestAuthorizer_path(t *testing.T) {
	e := memory(t)
	e.BasePaths = []string{"/v1"}
	event := changed(t, sampleEvent(t, "rest-authorizer-user.json"), ownDomain, `"domainName": "api.example.com"`)
	for i, path := range []string{"/v1/api/v1/search/", "/%76%31//api/v1/%73earch", "/api/v1/search"} {
		p, err := authorize(t, e, changed(t, event, `"path": "/api/v1/search"`, `"path": "`+path+`"`))
		if err != nil || p.Context["rateLimitRemaining"] != string(rune('2'-i)) {
			t.Errorf("%s: got %+v, %v; want a charge to the limit search", path, p.Context, err)
		}
	}
	for _, path := range []string{"/v10/api/v1/search", "/v1api/v1/search", "/api/v1/%2573earch", "/api/v1/search/x"} {
		p, err := authorize(t, e, changed(t, event, `"path": "/api/v1/search"`, `"path": "`+path+`"`))
		if err != nil || effect(p) != "Allow" || p.Context["rateLimitLimit"] != "8" {
			t.Errorf("%s: got %+v, %v; want no charge to the limit search", path, p.Context, err)
		}
	}
	for _, domain := range []string{
		"a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com", "A1B2C3D4E5.Execute-API.eu-central-1.AmazonAWS.com.",
		"vpce-0123.execute-api.eu-central-1.vpce.amazonaws.com",
		"a1b2c3d4e5.execute-api.cn-north-1.amazonaws.com.cn", "a1b2.lambda-url.eu-central-1.on.aws", "127.0.0.1:8080", "127.0.0.1", "[::1]:8080",
		"localhost", "localhost:8080", "",
	} {
		other := changed(t, event, "api.example.com", domain)
		p, err := authorize(t, memory(t), changed(t, other, `"path": "/api/v1/search"`, `"path": "/v1/api/v1/search"`))
		if err != nil || p.Context["rateLimitLimit"] != "8" {
			t.Errorf("%s: got %+v, %v; want the path without the base path", domain, p.Context, err)
		}
		e := memory(t)
		e.BasePaths = []string{"/api"}
		if p, err := authorize(t, e, other); err != nil || p.Context["rateLimitLimit"] != "3" {
			t.Errorf("%s: got %+v, %v; want the whole path, because no whole segment equals the base path", domain, p.Context, err)
		}
	}
	long := changed(t, event, "/dev/GET/api/v1/search", "/dev/GET/"+strings.Repeat("x", 2000))
	if p, err := authorize(t, e, long); err != nil || len(p.PolicyDocument.Statement[0].Resource[0]) > 512 {
		t.Errorf("long path: got %+v, %v; want a resource of at most 512 bytes", p, err)
	}
}

func TestMux(t *testing.T) {
	var m lambdahttp.Mux
	answer := func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Pattern", r.Pattern) }
	patterns := []string{"GET /items/{id}", "/any", "PUT /files/{path...}", "GET /pages/", "GET /{$}"}
	for _, p := range patterns {
		m.HandleFunc(p, answer)
	}
	m.ServeMux.HandleFunc("/", answer)
	want := []string{"GET /items/{id}", "ANY /any", "PUT /files/{path+}", "GET /pages/{rest+}", "GET /"}
	if !slices.Equal(m.Routes(), want) {
		t.Errorf("got the routes %q, want %q", m.Routes(), want)
	}
	for target, want := range map[string]string{"/items/1": patterns[0], "/any": patterns[1], "/pages/1/2": patterns[3], "/": patterns[4],
		"/none": "/"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
		if w.Header().Get("Pattern") != want {
			t.Errorf("%s: got the handler of %q, want that of %q", target, w.Header().Get("Pattern"), want)
		}
	}
}
