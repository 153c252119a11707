package lambdahttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// routeRules has a rule for each route of the routers in this test, with the name of the route. Two more endpoints,
// which are exempt and for the usage, overlap the route /{tenant}/report.
const routeRules = `"rules":[
	{"endpoint":"/admin","limits":{"*":{"name":"admin","requests":9,"window":"1m","per":["ip"]}}},
	{"endpoint":"/items/{id}","limits":{"*":{"name":"item","requests":9,"window":"1m","per":["ip"]}}},
	{"endpoint":"/items/{id}/parts/{part}","limits":{"*":{"name":"part","requests":9,"window":"1m","per":["ip"]}}},
	{"endpoint":"/files/*","limits":{"*":{"name":"files","requests":9,"window":"1m","per":["ip"]}}},
	{"endpoint":"/{tenant}/report","limits":{"*":{"name":"report","requests":9,"window":"1m","per":["ip"]}}},
	{"endpoint":"*","limits":{"*":{"name":"all","requests":9,"window":"1m","per":["ip"]}}}],
	"exempt":[{"endpoint":"/health/*"}],"usage":{"endpoint":"/usage/report","limit":{"name":"usage","requests":9,"window":"1m","per":["ip"]}}}`

// plainPaths are the plain spellings of paths, of which the others are made.
var plainPaths = []string{"/admin", "/items/1", "/items/1/parts/2", "/files/a/b.txt", "/acme/report", "/health", "/health/report",
	"/usage/report", "/items/report"}

// inserted are texts that a spelling has somewhere.
var inserted = []string{
	"/", "//", "/.", "/..", "/x/..", "/%2e", "/%2E%2e", "..%2F", "%2f..", "%2F", "%252F", "%5C", "%5c..%5C", `\`, `\..\`, ";", ";x=1", "..;",
	"%3B", ".", ".json", "%2Ejson", "%00", "%01", "%20", "%09", "%0A", "%23", "%23/x", "%3F", "%3Fx=",
	"%", "%2", "%zz", "%FF", "%C3%A9", "é", "%A0", "%C2%A0", "%EF%BB%BF", "+", ":", "@", "*", "{id}", "%25", "%2e%252e", "health/", "usage/",
	"/admin", "//admin", "//api.example.com",
}

func spelled(random *rand.Rand, path string) string {
	for range 1 + random.IntN(4) {
		at := random.IntN(len(path))
		switch random.IntN(8) {
		case 0, 1, 2:
			path = path[:at] + fmt.Sprintf([]string{"%%%02x", "%%%02X", "%%25%02x"}[random.IntN(3)], path[at]) + path[at+1:]
		case 3:
			path = path[:at] + slashes.Replace(strings.ToUpper(path[at:at+1])) + path[at+1:]
		case 4:
			path += inserted[random.IntN(len(inserted))]
		case 5:
			path = plainPaths[random.IntN(len(plainPaths))] + "/.." + path
		default:
			path = path[:at] + inserted[random.IntN(len(inserted))] + path[at:]
		}
	}
	if random.IntN(8) == 0 { // a pattern that ends with $ matches before a line feed
		path += []string{"%0A", "%0D", "%00", "%20"}[random.IntN(4)]
	}
	if path[0] != '/' {
		path = "/" + path
	}
	return path
}

// charges records the names of the limits that a request charges, and admits it.
type charges struct {
	limiter.Store
	storetest.Patient

	names []string
}

func (c *charges) Take(_ context.Context, _ algo.Instant, _ limiter.Subject, list []limiter.Charge, results []algo.Result) (bool, error) {
	for i, charge := range list {
		c.names, results[i].Machine = append(c.names, charge.Limit.Name), charge.Limit.Machine()
	}
	return true, nil
}

// judge checks the charges of a request. It charges no limit twice: all limits count by one address. If it reached a
// route, it charges at least what the plain spelling of this route charges. judged is false if the request reached no
// route, or is exempt like a plain spelling.
func (c *charges) judge(t *testing.T, route, path string, plain func(string) string) (judged bool) {
	t.Helper()
	if once := slices.Compact(slices.Sorted(slices.Values(c.names))); len(once) < len(c.names) {
		t.Errorf("%q: got charges on %v, want each limit once", path, c.names)
	}
	if route == "" || exemptSpelling(route, path, plain) {
		return false
	}
	if !slices.Contains(c.names, route) || !slices.Contains(c.names, "all") {
		t.Errorf("%q: reached %s with charges on %v, want those of the route", path, route, c.names)
	}
	return true
}

// delivery is a form in which a host delivers a path to a router.
type delivery struct {
	decoded bool
	event   func(path string) map[string]any
}

func version2(path string) map[string]any {
	return map[string]any{
		"version": "2.0", "rawPath": path, "rawQueryString": "", "headers": map[string]any{}, "body": "",
		"requestContext": map[string]any{"stage": "$default", "http": map[string]any{"method": "GET", "sourceIp": "203.0.113.7",
			"protocol": "HTTP/1.1"}},
	}
}

func functionURL(path string) map[string]any {
	e := version2(path)
	e["requestContext"].(map[string]any)["domainName"] = "a1b2.lambda-url.eu-central-1.on.aws"
	return e
}

func version1(path string) map[string]any {
	return map[string]any{"path": path, "httpMethod": "GET", "headers": map[string]any{}, "multiValueHeaders": map[string]any{},
		"multiValueQueryStringParameters": map[string]any{}, "body": "",
		"requestContext": map[string]any{"identity": map[string]any{"sourceIp": "203.0.113.7"}}}
}

func decodedVersion1(path string) map[string]any {
	e := version1(path)
	e["version"] = "1.0"
	return e
}

func balanced(path string) map[string]any {
	return map[string]any{"path": path, "httpMethod": "GET", "headers": map[string]any{"x-forwarded-for": "203.0.113.7"},
		"queryStringParameters": map[string]any{}, "body": "", "requestContext": map[string]any{"elb": map[string]any{}}}
}

// admits passes an event through the Weir of a host and reports whether the function gets it. The test fails if the
// function gets another event.
type admits func(t *testing.T, e *lambdahttp.Environment, event []byte) bool

func throughLayer(t *testing.T, e *lambdahttp.Environment, event []byte) (admitted bool) {
	t.Helper()
	if _, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
		admitted = true
		if !bytes.Equal(a.Event, event) {
			t.Errorf("%s: passed as %s, want the event as it came", event, a.Event)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return admitted
}

func throughAuthorizer(t *testing.T, e *lambdahttp.Environment, event []byte) bool {
	t.Helper()
	p, err := authorize(t, e, changed(t, event, `{"body"`, `{"type":"REQUEST","methodArn":"arn:aws:execute-api:eu-central-1:123456789012:`+
		`a1b2c3d4e5/dev/GET/","body"`))
	if err != nil && err.Error() != "Unauthorized" {
		t.Fatal(err)
	}
	return err == nil && effect(p) == "Allow"
}

// throughWrap admits the request that has the path of an event, as a server does.
func throughWrap(t *testing.T, e *lambdahttp.Environment, event []byte) (admitted bool) {
	t.Helper()
	var sent struct{ RawPath string }
	if err := json.Unmarshal(event, &sent); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	u, err := url.ParseRequestURI(sent.RawPath)
	if err != nil {
		return false
	}
	before := *u
	r.URL = u
	e.Gate().Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		admitted = true
		if *r.URL != before {
			t.Errorf("%q: passed as %+v, want %+v as it came", sent.RawPath, *r.URL, before)
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	return admitted
}

// spellingHosts lists, for each host, the form in which it delivers a path, and the part of Weir in front of a
// router.
var spellingHosts = map[string]struct {
	delivery

	weir admits
}{
	"REST API":      {delivery{false, version1}, throughAuthorizer},
	"HTTP API":      {delivery{true, version2}, throughLayer},
	"function URL":  {delivery{false, functionURL}, throughLayer},
	"load balancer": {delivery{false, balanced}, throughLayer},
	"layer":         {delivery{true, decodedVersion1}, throughLayer},
	"Wrap":          {delivery{false, functionURL}, throughWrap},
}

// router returns the name of the route that serves each event, without Weir. It is "" for none.
type router func(t *testing.T, d delivery, paths []string) []string

// muxRoutes returns the routes of an http.ServeMux. The path is as in the request line, or decoded.
func muxRoutes(_ *testing.T, d delivery, paths []string) (names []string) {
	mux := routesOf(func(name string) { names[len(names)-1] = name })
	for _, path := range paths {
		names = append(names, "")
		u := &url.URL{Path: path}
		if !d.decoded {
			var err error
			u, err = url.ParseRequestURI(path)
			if err != nil {
				continue
			}
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		r.URL = u
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	return names
}

// routesOf returns the routes. A ServeMux rejects patterns that overlap, such as /{tenant}/report and /items/{id}.
func routesOf(reached func(name string)) *http.ServeMux {
	mux := http.NewServeMux()
	for name, pattern := range map[string]string{"admin": "/admin", "item": "/items/{id}", "part": "/items/{id}/parts/{part}",
		"files": "/files/{rest...}", "report": "/acme/report", "health": "/health"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { reached(name) })
	}
	return mux
}

// program returns a router in another process, which reads events and writes the names of routes.
func program(command ...string) router {
	return func(t *testing.T, d delivery, paths []string) []string {
		t.Helper()
		var events bytes.Buffer
		for _, path := range paths {
			if err := json.NewEncoder(&events).Encode(d.event(path)); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		var log bytes.Buffer
		c.Stdin, c.Stderr = &events, &log
		out, err := c.Output()
		names := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if err != nil || len(names) != len(paths) {
			t.Fatalf("%s: got %d names for %d paths, %v: %s", command[0], len(names), len(paths), err, log.String())
		}
		return names
	}
}

// spellings is the number of spellings for each host and back end. WEIR_SPELLINGS replaces it.
const spellings = 1000

// No spelling of a path reaches a route with less charged than the plain spelling of this route, and none reaches a
// route that it does not reach without Weir.
func TestSpellings(t *testing.T) {
	for name, start := range backEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			if b.routes == nil {
				t.Skip("reads no events: TestSpellings_server has it")
			}
			for host, h := range spellingHosts {
				t.Run(host, func(t *testing.T) {
					t.Parallel()
					paths := deliveries(h.decoded)
					checkSpellings(t, b, h.delivery, h.weir, paths)
				})
			}
		})
	}
}

// spellingsEach returns the number of spellings for each host and back end.
func spellingsEach() int {
	if text := os.Getenv("WEIR_SPELLINGS"); text != "" {
		return storetest.Must(strconv.Atoi(text))
	}
	return spellings
}

// deliveries returns paths as a host delivers them.
func deliveries(decoded bool) (paths []string) {
	n, random := spellingsEach(), rand.New(rand.NewPCG(1, 1))
	for len(paths) < n {
		path := spelled(random, plainPaths[random.IntN(len(plainPaths))])
		if decoded {
			var err error
			path, err = url.PathUnescape(path)
			if err != nil {
				continue // an HTTP API rejects the request
			}
			path = strings.ToValidUTF8(path, "\uFFFD")
		}
		paths = append(paths, path)
	}
	return paths
}

// exemptSpelling reports whether a path is exempt like a plain spelling that the route serves too: all its readings are
// below /health. plain is that of a backEnd.
func exemptSpelling(route, path string, plain func(string) string) bool {
	return route == "health" || route == "report" && strings.HasPrefix(plain(path), "/health/")
}

// checkSpellings checks the charges of each path that reaches a route.
func checkSpellings(t *testing.T, b backEnd, d delivery, weir admits, paths []string) {
	t.Helper()
	store := &charges{}
	e := environment(t, store)
	e.Rules = storetest.Must(fixed(rules.Parse([]byte("{"+b.settings+routeRules), rules.Options{Version: 1})))
	reached, judged := map[string]int{}, 0
	for i, route := range b.routes(t, d, paths) {
		store.names = nil
		if !weir(t, e, storetest.Must(json.Marshal(d.event(paths[i])))) {
			route = ""
		}
		if store.judge(t, route, paths[i], b.plain) {
			judged++
		}
		if route != "" {
			reached[route]++
		}
	}
	checkJudged(t, judged, len(paths))
	if len(reached) < 5 {
		t.Errorf("routes: got %v, want at least five", reached)
	}
	t.Logf("%d spellings reached %v, %d judged", len(paths), reached, judged)
}

// checkJudged checks that enough spellings reach a route and are not exempt. A Weir that refuses too much fails.
func checkJudged(t *testing.T, judged, all int) {
	t.Helper()
	if want := all / 12; judged < want {
		t.Errorf("charges: checked those of %d spellings of %d, want at least %d", judged, all, want)
	}
}

// The handler passes a path to its API as it came: no spelling reaches a route that it does not reach with a handler that
// contains nothing of Weir.
func TestSpellings_handler(t *testing.T) {
	for name, host := range spellingHosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, ran := &charges{}, ""
			e := environment(t, store)
			e.Rules = storetest.Must(fixed(rules.Parse([]byte("{"+routeRules), rules.Options{Version: 1})))
			handler := lambdahttp.NewHandler(e, routesOf(func(name string) { ran = name }))
			paths, judged := deliveries(host.decoded), 0
			for i, without := range muxRoutes(t, host.delivery, paths) {
				ran, store.names = "", nil
				if _, err := handler.Invoke(ctx, storetest.Must(json.Marshal(host.event(paths[i])))); err != nil {
					t.Fatal(err)
				}
				if ran != "" && ran != without {
					t.Errorf("%q: reached %s, want %q as without Weir", paths[i], ran, without)
				}
				if store.judge(t, ran, paths[i], identity) {
					judged++
				}
			}
			checkJudged(t, judged, len(paths))
		})
	}
}
