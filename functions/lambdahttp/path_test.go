package lambdahttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const itemRules = `{"rules":[
	{"endpoint":"/items/{id}","limits":{"*":{"name":"items","requests":5,"window":"1m"}}},
	{"endpoint":"*","limits":{"global":{"name":"all","requests":60,"window":"1m","per":["ip"]}}}],
	"exempt":[{"endpoint":"/health"}]}`

// sent is the number of equal requests, more than each limit admits.
const sent = 80

// layered returns how many of these events reach a function behind the layer.
func layered(t *testing.T, document string, event []byte) (ran int) {
	t.Helper()
	layer := lambdahttp.NewLayer(limitedBy(t, document))
	for range sent {
		if _, err := layer.Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
			ran++
			if string(a.Event) != string(event) {
				t.Errorf("event at the function: got %s, want it unchanged", a.Event)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return ran
}

// The function behind the layer has a router of its own. The request is charged on the limits of each reading
// of its path, and it is exempt only if all readings are.
func TestLayer_path(t *testing.T) {
	for path, want := range map[string]int{
		"/items/1": 5, "/items/1%2Fx": 5, "//items/1": 5, "/items/1/": 5, "/%69tems/1": 5, "/health": sent, "/%68ealth": 60, "/health/": 60,
		"/items/..%2Fhealth": 0, "/items/%2e%2e/health": 0,
	} {
		for _, file := range []string{"function-url-anonymous.json", "alb-anonymous.json", "rest-proxy-anonymous.json"} {
			event := edited(t, file, func(e map[string]any) {
				delete(e["requestContext"].(map[string]any), "authorizer")
				for _, name := range []string{"path", "rawPath"} {
					if e[name] != nil {
						e[name] = path
					}
				}
			})
			if got := layered(t, itemRules, event); got != want {
				t.Errorf("%s: %s: got %d of the requests admitted, want %d", file, path, got, want)
			}
		}
	}
}

// An HTTP API decodes the path. A function can decode it again, or parse it as a URL.
func TestLayer_decodedPath(t *testing.T) {
	for path, want := range map[string]int{
		"/items/1": 5, "/items/1/x": 60, "/items/1/": 5, "//items/1": 5, "/items/%31": 5, "/%69tems/1": 5, "/%zz/x": 60, "/%zz%2Fx": 60,
		"/items/%zz": 5, "/health": sent, "/%68ealth": 60,
		"/items/1 ": 5, "/health ": 60, "/\titems/1": 0, "/items\\1 ": 5, "/items/1#/x": 5, "/ite#ms/1": 60, "/items/1\n": 0, "/items/1%0a": 0,
		"/items/1?": 5, "/health?x": 60,
		"/items/../health": 0, "/items/..%2Fhealth": 0, "/items/%2e%2e/health": 0, "/x/.. ": 0,
	} {
		event := edited(t, "http-api-anonymous.json", func(e map[string]any) { e["rawPath"] = "/dev" + path })
		if got := layered(t, itemRules, event); got != want {
			t.Errorf("%q: got %d of the requests admitted, want %d", path, got, want)
		}
	}
}

// The domain name of an event is compared without regard to case, like all domain names.
func TestLayer_domainName(t *testing.T) {
	for _, domain := range []string{"f6g7h8i9j0.execute-api.eu-central-1.amazonaws.com", "f6g7h8i9j0.EXECUTE-API.eu-central-1.amazonaws.com",
		"F6G7H8I9J0.execute-api.eu-central-1.amazonaws.com"} {
		event := edited(t, "http-api-anonymous.json", func(e map[string]any) {
			e["rawPath"] = "/dev/items/1"
			e["requestContext"].(map[string]any)["domainName"] = domain
		})
		if got := layered(t, itemRules, event); got != 5 {
			t.Errorf("%s: got %d of the requests admitted, want 5", domain, got)
		}
	}
	for _, path := range []string{"/dev/items/1", "/items/1"} { // AWS does not document the path of payload 1.0
		e := decodedVersion1(path)
		maps.Copy(e["requestContext"].(map[string]any), map[string]any{"stage": "dev", "apiId": "f6g7h8i9j0",
			"domainName": "f6g7h8i9j0.execute-api.eu-central-1.amazonaws.com"})
		if got := layered(t, itemRules, storetest.Must(json.Marshal(e))); got != 5 {
			t.Errorf("payload 1.0, %s: got %d of the requests admitted, want 5", path, got)
		}
	}
	for _, domain := range []string{"a1b2.lambda-url.eu-central-1.on.aws", "a1b2.LAMBDA-URL.eu-central-1.on.aws"} {
		event := edited(t, "function-url-anonymous.json", func(e map[string]any) {
			e["rawPath"] = "/items/%zz"
			e["requestContext"].(map[string]any)["domainName"] = domain
		})
		if got := layered(t, itemRules, event); got != 0 {
			t.Errorf("%s: got %d of the requests with a malformed path admitted, want 0", domain, got)
		}
	}
}

// Several custom domains can add base paths. The rules match, and the router gets the path without the longest one. The
// metric Unmatched counts a request with a base path that BASE_PATH lacks.
func TestBasePaths(t *testing.T) {
	for path, want := range map[string]struct {
		routed    string
		unmatched bool
	}{
		"/v1/items/1": {"/items/1", false}, "/v1/eu/items/1": {"/items/1", false}, "/orders/v2/items/1": {"/items/1", false},
		"/items/1":    {"/items/1", false},
		"/v2/items/1": {"/v2/items/1", true}, "/v1/europe/items/1": {"/europe/items/1", true}, "/v10/items/1": {"/v10/items/1", true},
	} {
		var metrics bytes.Buffer
		e := limitedBy(t, `{"rules":[{"endpoint":"/items/{id}","limits":{"*":{"name":"items","requests":5,"window":"1m"}}}]}`)
		e.BasePaths, e.Recorder = []string{"/v1/eu", "/orders/v2", "/v1"}, telemetry.New(&metrics, "test", nil)
		if p, err := authorize(t, e, edited(t, "rest-authorizer-anonymous.json", func(e map[string]any) {
			e["path"], e["requestContext"].(map[string]any)["domainName"] = path, "api.example.com"
		})); err != nil || (p.Context["rateLimitLimit"] == "5") == want.unmatched {
			t.Errorf("%s: authorizer: got %+v, %v; want a charge: %t", path, p.Context, err, !want.unmatched)
		}
		if got := strings.Contains(metrics.String(), `"Unmatched":1`); got != want.unmatched {
			t.Errorf("%s: got the metric Unmatched: %t, want %t: %s", path, got, want.unmatched, metrics.String())
		}
		routed := ""
		handle(t, e, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { routed = r.URL.Path }),
			edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
				e["path"], e["requestContext"].(map[string]any)["domainName"] = path, "api.example.com"
			}))
		if routed != want.routed {
			t.Errorf("%s: got the path %s at the router, want %s", path, routed, want.routed)
		}
	}
}

// A request with a malformed path or a dot segment is charged on the limits by address of the rules for every
// path, like a request with a bad credential.
func TestHandler_malformedPath(t *testing.T) {
	const document = `{"rules":[
		{"endpoint":"/items/{id}","limits":{"*":{"name":"items","requests":5,"window":"1m","per":["ip"]}}},
		{"endpoint":"*","limits":{"*":[{"name":"bad","requests":3,"window":"1m","per":["ip"],"only":"bad_credentials"},{"name":"users",
			"requests":1,"window":"1m","per":["user"]}],
			"global":{"name":"all","requests":60,"window":"1m","per":["ip"]}}}]}`
	for _, path := range []string{"/items/%zz", "/items/../x", "/items/%2e%2e"} {
		e := limitedBy(t, document)
		api := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: got a call of the API, want none", path) })
		statuses := map[int]int{}
		event := edited(t, "function-url-anonymous.json", func(e map[string]any) { e["rawPath"] = path })
		for range 10 {
			statuses[handle(t, e, api, event).StatusCode]++
		}
		if statuses[http.StatusBadRequest] != 3 || statuses[http.StatusTooManyRequests] != 7 {
			t.Errorf("%s: got statuses %v, want 3 of 400 and then 429", path, statuses)
		}
		rest := limitedBy(t, document)
		denied := map[string]int{}
		for range 10 {
			p, err := authorize(t, rest, edited(t, "rest-authorizer-anonymous.json", func(e map[string]any) { e["path"] = path }))
			if err != nil || effect(p) != "Deny" {
				t.Fatalf("%s: got %+v, %v, want a denial", path, p, err)
			}
			denied[fmt.Sprint(p.Context[contract.KeyError])]++
		}
		if a := handle(t, rest, api, edited(t, "rest-proxy-anonymous.json",
			func(e map[string]any) { e["path"] = "/items/%zz" })); a.StatusCode != http.StatusBadRequest {
			t.Errorf("behind the authorizer: got status %d, want 400", a.StatusCode)
		}
		if denied["malformed_path"] != 3 || denied["rate_limit_exceeded"] != 7 {
			t.Errorf("%s: got denials %v, want 3 of malformed_path and then rate_limit_exceeded", path, denied)
		}
	}
}
