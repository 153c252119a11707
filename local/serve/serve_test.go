package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/infra/golden"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/servers"
)

// local is the REST API and the HTTP API of weir serve, with a clock that the test sets.
type local struct {
	commandtest.Clock
	t          *testing.T
	checkout   checkout.Checkout
	rest, http *httptest.Server
	apiKeys    map[string]string // key: tier
	namespace  string
}

// start is a whole second, so that a wait of whole seconds ends exactly when a limit resets.
var start = time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC)

func newLocal(t *testing.T, store, rules string) *local {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	l := &local{t: t, checkout: checkouttest.Scratch(t)}
	l.Set(start)
	s := &Server{Options: Options{API: sampleAPI, Rules: rules, Store: store, Out: io.Discard,
		Logger: slog.New(slog.DiscardHandler), Clock: l.Now, Namespace: checkouttest.Namespace()}}
	t.Cleanup(s.Close)
	l.rest, l.http = commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
	l.apiKeys, l.namespace = s.apiKeys, s.Namespace
	return l
}

// With Unthrottled, an API has no throttle: a burst above the 600 of its stage at one instant gets no 429.
func TestServe_unthrottled(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"version":1,"rules":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, unthrottled := range []bool{false, true} {
		checkouttest.Scratch(t)
		var clock commandtest.Clock
		clock.Set(start)
		s := New(Options{API: sample.New, Rules: rules, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now,
			Unthrottled: unthrottled})
		t.Cleanup(s.Close)
		handlers, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, api := range handlers {
			throttled := 0
			for range 620 {
				w := httptest.NewRecorder()
				api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/search", http.NoBody))
				if w.Code == http.StatusTooManyRequests {
					throttled++
				}
			}
			if want := map[bool]int{false: 20, true: 0}[unthrottled]; throttled != want {
				t.Errorf("API %d, unthrottled %t: got %d throttled requests, want %d", i, unthrottled, throttled, want)
			}
		}
	}
}

func (l *local) token(user, tier string) string {
	l.t.Helper()
	token, err := l.checkout.Token(user, tier, time.Until(start)+time.Hour, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

func (l *local) send(api *httptest.Server, method, path, token string) commandtest.Reply {
	l.t.Helper()
	return commandtest.Send(l.t, method, api.URL+path, token)
}

var stores = []string{"memory", "dynamodb", "redis"}

// With the rules document of the design, both APIs give the documented answers on every store.
func TestServe_document(t *testing.T) {
	eachStore(t, "testdata/design.json", func(l *local, api *httptest.Server) {
		l.searches(api, l.token("frank", "free"), 20)
		l.searches(api, l.token("paula", "paid"), 100)
		l.searches(api, l.token("ulla", "gold"), 20) // a caller of an unknown tier has the limits of tier free
		l.searches(api, l.token("nina", ""), 20)
		l.searches(api, "", 20) // an anonymous caller has the limits of tier free
		l.enterprise(api)
		l.data(api)
	})
}

// searches sends n+1 searches at once: n must be admitted, and the last gets the documented
// refusal. One search is admitted after Retry-After.
func (l *local) searches(api *httptest.Server, token string, n int) {
	l.t.Helper()
	now, quota := l.Now().Unix(), n*5
	if n == 100 {
		quota = 1000
	}
	for i := range n {
		r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token)
		if r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(n-1-i) ||
			r.Header.Get("X-RateLimit-Limit") != strconv.Itoa(n) {
			l.t.Fatalf("search %d of %d: got %s %v, want 200", i+1, n, r.Status, r.Header)
		}
		if i == 2 && n == 20 {
			l.expect(r, map[string]string{
				"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "17", "X-RateLimit-Reset": strconv.FormatInt(now+2, 10),
				"RateLimit-Policy": `"search";q=100;w=60`, "RateLimit": `"search";r=17;t=2`, "Retry-After": "", "Weir-Degraded": "",
			})
		}
	}
	r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token)
	if r.StatusCode != http.StatusTooManyRequests {
		l.t.Fatalf("search %d: got %s, want 429", n+1, r.Status)
	}
	l.expect(r, map[string]string{
		"Retry-After": "1", "X-RateLimit-Limit": strconv.Itoa(n), "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(now+1,
			10), "Cache-Control": "no-store",
		"RateLimit-Policy": fmt.Sprintf(`"search";q=%d;w=60`, quota), "RateLimit": `"search";r=0;t=1`, "Content-Type": "application/problem+json",
	})
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"error":"rate_limit_exceeded","message":"Too many requests. Retry after 1 second.","retry_after":1,"limit":` + strconv.Itoa(quota) +
		`,"window":"60s","violated-policies":["search"]}`
	if r.Text != want {
		l.t.Errorf("body\n got %s\nwant %s", r.Text, want)
	}
	l.Wait(time.Second)
	if r := l.send(api, http.MethodGet, "/api/v1/search?q=weir", token); r.StatusCode != http.StatusOK {
		l.t.Errorf("after Retry-After: got %s, want 200", r.Status)
	}
}

func (l *local) expect(r commandtest.Reply, fields map[string]string) {
	l.t.Helper()
	for name, want := range fields {
		if got := r.Header.Get(name); got != want {
			l.t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// enterprise checks the sliding window of tier enterprise: 10,000 requests.
func (l *local) enterprise(api *httptest.Server) {
	l.t.Helper()
	r := l.send(api, http.MethodGet, "/api/v1/search", l.token("erna", "enterprise"))
	reset := l.Now().Truncate(time.Minute).Add(2 * time.Minute)
	l.expect(r, map[string]string{"X-RateLimit-Limit": "10000", "X-RateLimit-Remaining": "9999", "RateLimit-Policy": `"search";q=10000;w=60`,
		"X-RateLimit-Reset": strconv.FormatInt(reset.Unix(), 10)})
}

// data checks that a POST charges the caller's limit of 10 requests and the global limit.
func (l *local) data(api *httptest.Server) {
	l.t.Helper()
	token := l.token("dora", "free")
	for i := range 10 {
		if r := l.send(api, http.MethodPost, "/api/v1/data", token); r.StatusCode != http.StatusCreated ||
			r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(9-i) {
			l.t.Fatalf("POST %d: got %s %v, want 201 and %d remaining", i+1, r.Status, r.Header, 9-i)
		}
	}
	if r := l.send(api, http.MethodPost, "/api/v1/data", token); r.StatusCode != http.StatusTooManyRequests {
		l.t.Errorf("POST 11: got %s, want 429", r.Status)
	}
	// Tier paid has no limit of its own at this endpoint, and a response does not report the global
	// limit.
	if r := l.send(api, http.MethodPost, "/api/v1/data", l.token("paula", "paid")); r.StatusCode != http.StatusCreated ||
		r.Header.Get("X-RateLimit-Limit") != "" {
		l.t.Errorf("tier paid: got %s %v, want 201 without X-RateLimit-Limit", r.Status, r.Header)
	}
}

// A bad credential gets 401 on both APIs. It is charged to the limits of the address, and not to
// the user that it names.
func TestServe_credentials(t *testing.T) {
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"rules":[{"endpoint":"*","limits":{
		"free":{"requests":10,"window":"1m"},"global":{"name":"address","requests":8,"window":"1m","per":["ip"]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLocal(t, "memory", document)
	good := l.token("alice", "free")
	expired, err := l.checkout.Token("alice", "free", -time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	stranger, err := checkouttest.Scratch(t).Token("alice", "free", time.Until(start)+time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []*httptest.Server{l.rest, l.http} {
		for name, token := range map[string]string{"expired": expired, "alg none": none, "another key": stranger, "changed": good[:len(good)-8] +
			"AAAAAAAA"} {
			r := l.send(api, http.MethodGet, "/api/v1/search", token)
			if r.StatusCode != http.StatusUnauthorized || r.Header.Get("X-RateLimit-Limit") != "" || !json.Valid([]byte(r.Text)) {
				t.Errorf("%s: got %s %v %s, want 401 with JSON and without X-RateLimit-Limit", name, r.Status, r.Header, r.Text)
			}
		}
	}
	if r := l.send(l.rest, http.MethodGet, "/api/v1/search", none); r.StatusCode != http.StatusTooManyRequests ||
		r.Header.Get("RateLimit-Policy") != `"address";q=8;w=60` {
		t.Errorf("ninth bad credential of the address: got %s %v, want 429 by the limit address", r.Status, r.Header)
	}
	l.Wait(2 * time.Minute)
	for i, api := range []*httptest.Server{l.rest, l.http} {
		if r := l.send(api, http.MethodGet, "/api/v1/search",
			l.token("alice", "free")); r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(7-i) {
			t.Errorf("alice after bad credentials: got %s %v, want %d remaining", r.Status, r.Header, 7-i)
		}
	}
}

// An empty store name selects the memory store, not DynamoDB on AWS.
func TestServe_noStore(t *testing.T) {
	l := newLocal(t, "", "testdata/design.json")
	if r := l.send(l.rest, http.MethodGet, "/api/v1/search", ""); r.StatusCode != http.StatusOK || r.Header.Get("Weir-Degraded") != "" {
		t.Errorf("answer: got %s %v, want 200 without Weir-Degraded", r.Status, r.Header)
	}
	s := &Server{}
	if _, err := s.openStore(t.Context(), boot.Config{Store: "dynamodb://weir", Local: true}); err == nil ||
		!strings.HasPrefix(err.Error(), "DYNAMODB_ENDPOINT: required") {
		t.Errorf("DynamoDB without an endpoint: got error %v, want DYNAMODB_ENDPOINT: required", err)
	}
}

// No variable of its functions refers to AWS.
func TestServe_variables(t *testing.T) {
	stack, err := gateway.ReadStack(golden.Served)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{variables: map[string]string{"STORE": "redis://127.0.0.1:1"}}
	for _, f := range []gateway.Function{stack.Authorizer, stack.Handler} {
		f.Environment["KAFKA_TOPIC"] = "aws"
		lookup := s.lookup(f.Environment)
		for name := range f.Environment {
			value, ok := lookup(name)
			if foreign := name == "KAFKA_TOPIC" || name == "RECORDS_TABLE" || name == "RULES_VERSION" || name == "RULES_FROM"; foreign == ok {
				t.Errorf("%s: got %q (present: %t), want present: %t", name, value, ok, !foreign)
			}
		}
		if url, _ := lookup("STORE"); url != "redis://127.0.0.1:1" {
			t.Errorf("STORE: got %q, want the URL of this run", url)
		}
	}
}

// With BASE_PATH, a custom domain adds a base path, and the rules and the explanation match the path without it. The
// gateway's own address has no mapping.
func TestServe_basePath(t *testing.T) {
	t.Setenv("BASE_PATH", "/v1,/orders/v2")
	l := newLocal(t, "memory", "testdata/design.json")
	client, err := operator.NewGateway(l.rest.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []*httptest.Server{l.rest, l.http} {
		for _, path := range []string{"/orders/v2/api/v1/search", "/v1/api/v1/search", "/api/v1/search"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+path, http.NoBody)
			request.RequestURI, request.Host = "", "api.example"
			if r := commandtest.Do(t, request); r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Limit") != "20" {
				t.Errorf("%s at a custom domain: got %s %v, want 200 by the limit of the search", path, r.Status, r.Header)
			}
			direct := l.send(api, http.MethodGet, path, "").StatusCode
			if mapped := path != "/api/v1/search"; mapped == (direct == http.StatusOK) {
				t.Errorf("%s at the gateway's address: got %d, want 200: %t", path, direct, !mapped)
			}
			e, err := client.Explain(t.Context(), operator.Question{Method: http.MethodGet, Path: path})
			if err != nil || !e.Decision.Allowed || len(e.Limits) != 1 {
				t.Errorf("%s: got explanation %+v, %v, want the limit of the search", path, e, err)
			}
		}
	}
}

// An explanation says the same as both gateways, also for paths with a dot segment: an HTTP API decodes a path before it
// routes the request.
func TestServe_explained(t *testing.T) {
	l := newLocal(t, "memory", "testdata/design.json")
	client, err := operator.NewGateway(l.rest.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/search", "/api/v1/items/1", "/api/v1/items/..", "/api/v1/items/%2e%2e", "/api/v1/items/..%2Fsearch",
		"/api/v1/items/%2E%2E%2Fsearch", "/api/v1/items/1%2F2",
		"/api/v1/items/%252e%252e", "/api/v1/items/%252e%252e%252Fsearch", "/api/v1/items/1%252F2", "/api/v1/../search", "/../api/v1/search",
		"/nowhere", "//nowhere", "/nowhere/%2e%2e/x",
	} {
		e, err := client.Explain(t.Context(), operator.Question{Method: http.MethodGet, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		noted := func(text string) bool { return strings.Contains(strings.Join(e.Notes, "\n"), text) }
		refused, d := map[string]bool{}, e.Decision
		refused["REST, 403"] = d.Unrouted || noted("the REST API has no route")
		refused["HTTP, 404"] = d.Unrouted || noted("the HTTP API has no route")
		refused["REST, 429"] = d.Status == http.StatusBadRequest && !refused["REST, 403"]
		refused["HTTP, 400"] = (d.Status == http.StatusBadRequest || noted("an HTTP API decodes the path, and answers 400")) &&
			!refused["HTTP, 404"]
		rest, web := l.send(l.rest, http.MethodGet, path, ""), l.send(l.http, http.MethodGet, path, "")
		for name, got := range map[string]bool{
			"REST, 403": rest.StatusCode == http.StatusForbidden, "REST, 429": rest.StatusCode == http.StatusTooManyRequests,
			"HTTP, 404": web.StatusCode == http.StatusNotFound && strings.Contains(web.Text, `"Not Found"`),
			"HTTP, 400": web.StatusCode == http.StatusBadRequest,
		} {
			if got != refused[name] {
				t.Errorf("%s: %s: got %t (%s; %s), want %t as explained: %+v, %q", path, name, got, rest.Status, web.Status, refused[name], d, e.Notes)
			}
		}
	}
}

// The greeting has the version of the rules, the endpoints that match no route, the variable that
// has no effect, and a request with an API key.
func TestServe_greet(t *testing.T) {
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"version":7,"rules":[{"endpoint":"/api/v1/serch","method":"GET","limits":{"fre":{"requests":1,
		"window":"1m"},"*":{"requests":1,"window":"1m"}}}],
		"exempt":[{"user":"alice"},{"endpoint":"/healthz"},{"endpoint":"/api/v1/*"}],"usage":{"endpoint":"/_usage","limit":{"requests":1,
			"window":"1m"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := checkouttest.Scratch(t)
	t.Setenv("RECORDS_TABLE", "weir")
	var first string
	for range 2 { // the second run prints the same keys
		var out bytes.Buffer
		s := &Server{Options: Options{API: sample.New, Console: func(Page) http.Handler { return http.NotFoundHandler() }, Rules: document,
			Port: 8080, Out: &out, Logger: slog.New(slog.DiscardHandler), Clock: time.Now}}
		if err := s.read(); err != nil {
			t.Fatal(err)
		}
		err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.greet()
		var elsewhere bytes.Buffer
		s.Port, s.Out, s.variables["JWKS"] = 18480, &elsewhere, "https://issuer.example/keys"
		s.greet()
		s.Close()
		if line := "\n  export WEIR_URL=http://127.0.0.1:18480\n"; !strings.Contains(elsewhere.String(), line) || strings.Contains(out.String(),
			"WEIR_URL") || strings.Contains(elsewhere.String(), " token --user") {
			t.Errorf("ports 18480 and 8080: got\n%s\nand\n%s\nwant %q only in the first", &elsewhere, &out, line)
		}
		if first == "" {
			first = out.String()
		}
		if out.String() != first {
			t.Errorf("greeting of the second run: got\n%s\nwant the same as the first\n%s", &out, first)
		}
		for _, text := range []string{"rules  " + document + " (1 rule, version 7)", " token --user alice ",
			"\nkeys   in " + c.Path(".weir") + "\n",
			"page   http://127.0.0.1:8080/_weir/\n",
			"warning: rules[0] matches no route: GET /api/v1/serch\nwarning: exempt[1] matches no route: /healthz\nwarning: usage.endpoint " +
				"matches no route: GET /_usage\nwarning: RECORDS_TABLE has no effect: the API keys are in " + c.APIKeysFile() + "\n",
			"  curl -i -H \"x-api-key: weir_paid-", " (no rule has this tier, so it counts as free)\nAPI key of tier enterprise x-api-key: "} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("output: got\n%s\nwant it to contain %q", &out, text)
			}
		}
	}
}

// A run creates a missing key file. For a damaged key file, the error has the path.
func TestServe_keys(t *testing.T) {
	c := checkouttest.Scratch(t)
	open := func() (*Server, error) {
		s := &Server{Options: Options{API: sample.New, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: time.Now}}
		t.Cleanup(s.Close)
		if err := s.read(); err != nil {
			t.Fatal(err)
		}
		return s, s.open(t.Context())
	}
	if s, err := open(); err != nil || len(s.apiKeys) != 3 {
		t.Fatal(err)
	}
	for _, file := range []string{c.PublicKeysFile(), c.APIKeysFile(), c.APIKeySecretFile(), c.Path(".weir", "jwt-key.json")} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := open(); err != nil {
			t.Errorf("without %s: got error %v, want none", file, err)
		}
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(); err == nil || !strings.Contains(err.Error(), file) || !strings.HasSuffix(err.Error(),
			"; remove .weir to create new files") {
			t.Errorf("damaged %s: got error %v, want one with the path and the advice to remove .weir", file, err)
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(c.APIKeysFile())
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(good), `"id":`, `"limits":{"anchor":32,"changed":7},"id":`, 1)
	if err := os.WriteFile(c.APIKeysFile(), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), `[0] of "`) || !strings.Contains(err.Error(), "anchor: ") ||
		strings.Contains(err.Error(), "remove .weir") {
		t.Errorf("mistake in a record: got error %v, want one with the record and without the advice to remove .weir", err)
	}
}

func TestUnmatched(t *testing.T) {
	apis := []*gateway.API{{Routes: []gateway.Route{{Method: "GET", Path: "/a/{id}"}, {Method: "HEAD", Path: "/h"},
		{Method: "ANY", Path: "/g/{rest+}"}, {Method: "OPTIONS", Path: "/o"}, {Method: "POST", Path: "/"}}}}
	for _, rule := range []endpoint{
		{"*", ""}, {"/a/{x}", "GET"}, {"/a/b", ""}, {"/a/*", ""}, {"/{x}/b", ""}, {"/a/b/*", ""}, {"/h", "GET"}, {"/g/*", "PUT"}, {"/g/b", ""},
		{"/g/b/c", "GET"}, {"/", "POST"},
	} {
		if lines := unmatched([]placed{{"rules[0]", rule}}, apis); lines != nil {
			t.Errorf("%v: got %s, want no line", rule, lines)
		}
	}
	for _, rule := range []endpoint{{"/a", ""}, {"/a/b", "POST"}, {"/a/b/c", ""}, {"/a/b/c/*", ""}, {"/g", ""}, {"/h", "POST"}, {"/o", ""},
		{"/b", ""}, {"/", "GET"}} {
		if lines := unmatched([]placed{{"rules[0]", rule}}, apis); len(lines) != 1 {
			t.Errorf("%v: got %s, want one line", rule, lines)
		}
	}
	if lines := unmatched([]placed{{"rules[0]", endpoint{"*", ""}}, {"rules[1]", endpoint{"/b", "PUT"}}},
		append(apis, &gateway.API{})); len(lines) != 1 || lines[0] != "rules[1] matches no route: PUT /b" {
		t.Errorf("rule for PUT /b: got %q, want one line about rules[1]", lines)
	}
	if lines := unmatched([]placed{{"rules[0]", endpoint{"/b", "PUT"}}},
		[]*gateway.API{{Routes: []gateway.Route{{Method: "ANY", Path: "$default"}}}}); lines != nil {
		t.Errorf("default route: got %s, want no line", lines)
	}
}

// The greeting suggests a GET request that has a rule and a route.
func TestEndpoint_sample(t *testing.T) {
	routes := []gateway.Route{{Method: "GET", Path: "/a/{id}"}, {Method: "ANY", Path: "/g/{rest+}"}, {Method: "OPTIONS", Path: "/a/{id}"},
		{Method: "POST", Path: "/"}}
	for e, want := range map[endpoint]string{{"/a/{x}", "GET"}: "/a/1", {"/g/b/*", ""}: "/g/b/1", {"*", ""}: "/a/1", {"/g/b/*", "PUT"}: "",
		{"/", ""}: "", {"/nowhere", ""}: ""} {
		if got, ok := e.sample(routes); got != want || ok != (want != "") {
			t.Errorf("%v: got %s, %t, want %q", e, got, ok, want)
		}
	}
	for e, want := range map[endpoint]string{{"/x/{y}/z", ""}: "/x/1/z", {"*", ""}: "/"} {
		if got, _ := e.sample([]gateway.Route{{Method: "ANY", Path: gateway.DefaultRoute}}); got != want {
			t.Errorf("%v of the default route: got %s, want %s", e, got, want)
		}
	}
}
