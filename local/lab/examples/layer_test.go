package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/lab/testservers"
)

// daily allows each address 20 requests a day.
const daily = `{"version":1,"rules":[{"endpoint":"*","limits":{"*":{"name":"daily","requests":20,"window":"24h","per":["ip"]}}}]}`

// bootstrap starts a runtime like the bootstrap of a managed runtime. Its arguments are the command
// of the runtime.
const bootstrap = `#!/bin/sh
cd "$LAMBDA_TASK_ROOT"
exec $AWS_LAMBDA_EXEC_WRAPPER "$@" "$_HANDLER"
`

type function struct {
	runtime []string // command of the runtime interface client
	folder  string
	handler string
}

// layer is the unpacked layer in a folder, with the runtimes that the tests use.
type layer struct {
	folder, dynamo, bootstrap string
	node, python              []string
}

func newLayer(t *testing.T) layer {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the runtime interface client for Node.js needs Linux")
	}
	node, client := testservers.Node(storetest.Server(t, "clients", "WEIR_CLIENTS"))
	l := layer{
		folder: t.TempDir(), dynamo: storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), node: []string{node, client},
		python: []string{filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python"), "-m", "awslambdaric"},
	}
	l.bootstrap = filepath.Join(l.folder, "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "-C", "../../..", "build", "-trimpath", "-o", l.extension(), "./functions/extension")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	run(t, build)
	for path, text := range map[string]string{l.bootstrap: bootstrap, l.wrapper(): contract.LayerScript()} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := checkout.MakeTable(t.Context(), l.dynamo, checkout.Table); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l layer) extension() string { return filepath.Join(l.folder, contract.LayerExtension) }

func (l layer) wrapper() string { return filepath.Join(l.folder, contract.LayerWrapper) }

func (l layer) variables(t *testing.T, f function, rules string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), contract.LayerRules)
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	variables := []string{
		"_HANDLER=" + f.handler, "LAMBDA_TASK_ROOT=" + storetest.Must(filepath.Abs(f.folder)), contract.VariableWrapper + "=" + l.wrapper(),
		"PYTHONDONTWRITEBYTECODE=1",
		"http_proxy=http://127.0.0.1:1", "no_proxy=127.0.0.1", // the wrapper adds the extension to no_proxy
	}
	for name, value := range map[string]string{
		"NAMESPACE": checkouttest.Namespace(), "STORE": contract.StoreDynamoDB + checkout.Table, "DYNAMODB_ENDPOINT": l.dynamo,
		contract.VariableLocal: "true", "RULES_FILE": file,
		"STORE_TIMEOUT": "900ms", // a long timeout, because other programs can slow the machine down
	} {
		variables = append(variables, contract.LayerVariable(name)+"="+value)
	}
	return variables
}

// pool has an environment of one function with the layer, and replaces it after its end.
type pool struct {
	*environment

	start func() *environment
}

func (l layer) pool(t *testing.T, f function, rules string) *pool {
	t.Helper()
	variables := l.variables(t, f, rules)
	start := func() *environment {
		return startEnvironment(t, l.extension(), append([]string{l.bootstrap}, f.runtime...), variables)
	}
	return &pool{start(), start}
}

func (p *pool) invoke(ctx context.Context, event []byte) ([]byte, error) {
	answer, err := p.environment.invoke(ctx, event)
	if _, reported := errors.AsType[functionError](err); err != nil && !reported {
		p.environment = p.start()
	}
	return answer, err
}

// The layer works with the official runtime interface clients of Node.js and Python.
func TestExamples_layer(t *testing.T) {
	l := newLayer(t)
	if _, err := os.Stat(folder + "express/node_modules"); err != nil {
		storetest.Unfetched(t, "node", "make -C local/lab modules", err)
	}
	for name, f := range map[string]function{"express": {l.node, folder + "express", "app.handler"}, "flask": {l.python, folder + "flask",
		"app.handler"}} {
		t.Run(name, func(t *testing.T) { t.Parallel(); checkDaily(t, l.pool(t, f, daily)) })
	}
	for name, f := range map[string]function{"node": {l.node, "testdata", "faults.handler"}, "python": {l.python, "testdata",
		"faults.handler"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkForeign(t, l.pool(t, f, daily))
			checkFaults(t, l.pool(t, f, daily))
			checkKilled(t, l.pool(t, f, daily))
		})
	}
	t.Run("stream", func(t *testing.T) { t.Parallel(); l.checkStream(t) })
}

// TestExamples_layer runs the Flask API with the project's Python tools. Both pin the same
// versions.
func TestExamples_requirements(t *testing.T) {
	tools := string(storetest.Must(os.ReadFile("../../../infra/tools/requirements.txt")))
	for line := range strings.Lines(string(storetest.Must(os.ReadFile(folder + "flask/requirements.txt")))) {
		if !strings.Contains(tools, "\n"+strings.TrimSpace(line)+" \\\n") {
			t.Errorf("flask/requirements.txt: got %s, want the version in infra/tools/requirements.txt", line)
		}
	}
}

// answer is the answer of a function to a request.
type answer struct {
	StatusCode        int
	Headers           map[string]string
	MultiValueHeaders map[string][]string
	Body              string
}

// header returns the header fields, which each event format has in another member.
func (a answer) header() http.Header {
	h := http.Header{}
	for name, value := range a.Headers {
		h.Add(name, value)
	}
	for name, values := range a.MultiValueHeaders {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}

// kinds maps each kind of HTTP event to its sample event.
var kinds = map[string]string{
	"rest api": "rest-proxy-anonymous.json", "http api": "http-api-anonymous.json", "function url": "function-url-anonymous.json",
	"load balancer": "alb-anonymous.json", "load balancer with multiple values": "alb-anonymous.json",
}

// request returns an event of a kind, with a JSON body.
func request(t *testing.T, kind, method, path, ip, body string) []byte {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal(storetest.Must(events.Files.ReadFile(kinds[kind])), &e); err != nil {
		t.Fatal(err)
	}
	e["body"], e["isBase64Encoded"] = body, false
	context := e["requestContext"].(map[string]any)
	headers := e["headers"].(map[string]any)
	headers["content-type"], headers["content-length"], headers["x-forwarded-for"] = "application/json", strconv.Itoa(len(body)), ip
	switch of := context["http"].(type) {
	case map[string]any: // payload version 2.0
		e["rawPath"], e["rawQueryString"], e["routeKey"] = path, "", "$default"
		of["method"], of["path"], of["sourceIp"] = method, path, ip
		context["stage"] = "$default"
		delete(e, "queryStringParameters")
	default:
		e["path"], e["httpMethod"] = path, method
		delete(e, "queryStringParameters")
		if identity, ok := context["identity"].(map[string]any); ok { // payload version 1.0
			identity["sourceIp"] = ip
			e["resource"], context["resourcePath"], context["path"], context["httpMethod"] = path, path, "/dev"+path, method
			delete(context, "authorizer")
			delete(e, "multiValueQueryStringParameters")
		}
	}
	if e["multiValueHeaders"] != nil || strings.HasSuffix(kind, "multiple values") {
		multiple := map[string][]any{}
		for name, value := range headers {
			multiple[name] = []any{value}
		}
		e["multiValueHeaders"] = multiple
		if strings.HasSuffix(kind, "multiple values") {
			delete(e, "headers")
		}
	}
	return storetest.Must(json.Marshal(e))
}

func send(ctx context.Context, t *testing.T, p *pool, event []byte) (a answer, err error) {
	t.Helper()
	got, err := p.invoke(ctx, event)
	if err != nil {
		return answer{}, err
	}
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("answer: got %s, %v, want JSON", got, err)
	}
	return a, nil
}

// checkDaily sends orders to an API. For each kind of event, 20 requests of an address pass with
// the header fields of the limit, and request 21 gets 429. The function does not run for a 429: it
// numbers its orders, and no number is missing.
func checkDaily(t *testing.T, p *pool) {
	t.Helper()
	orders := 0
	order := func(kind, ip string, remaining int) {
		orders++
		a, err := send(t.Context(), t, p, request(t, kind, http.MethodPost, "/orders", ip, `{"item":"book"}`))
		var got struct {
			ID   int
			Item string
		}
		if err == nil {
			err = json.Unmarshal([]byte(a.Body), &got)
		}
		h := a.header()
		if err != nil || a.StatusCode != http.StatusCreated || got.ID != orders || got.Item != "book" ||
			h.Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) || h.Get("RateLimit-Policy") != `"daily";q=20;w=86400` {
			t.Fatalf("%s: order %d: got %+v, %v, want 201 of the function with %d remaining", kind, orders, a, err, remaining)
		}
	}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		ip := fmt.Sprintf("203.0.113.%d", i+1)
		for n := range 20 {
			order(kind, ip, 19-n)
		}
		for range 2 {
			a, err := send(t.Context(), t, p, request(t, kind, http.MethodPost, "/orders", ip, `{"item":"book"}`))
			h := a.header()
			var problem httplimit.Problem
			if err == nil {
				err = json.Unmarshal([]byte(a.Body), &problem)
			}
			if err != nil || a.StatusCode != http.StatusTooManyRequests || problem.Error != "rate_limit_exceeded" ||
				h.Get("Content-Type") != "application/problem+json" || h.Get("Retry-After") == "" || h.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("%s: request 21: got %+v, %v, want the 429 of Weir", kind, a, err)
			}
			if multiple := strings.HasSuffix(kind, "multiple values"); strings.HasPrefix(kind, "load balancer") &&
				multiple != (a.MultiValueHeaders != nil) {
				t.Errorf("%s: request 21: got %+v, want the fields in the format of the event", kind, a)
			}
		}
	}
	order("http api", "203.0.113.200", 19)
	a, err := send(t.Context(), t, p, request(t, "http api", http.MethodGet, "/orders/1", "203.0.113.200", ""))
	if h := a.header(); err != nil || a.StatusCode != http.StatusOK || h.Get("Cache-Control") != "no-store" ||
		h.Get("X-RateLimit-Remaining") != "18" {
		t.Errorf("order 1: got %+v, %v, want the fields of the function and of Weir", a, err)
	}
}

// checkForeign sends events that are not HTTP requests. The function returns its event, which the
// layer must not change.
func checkForeign(t *testing.T, p *pool) {
	t.Helper()
	for range 3 {
		for _, event := range []string{
			`{"Records": [{"eventSource": "aws:sqs", "body": "{\"path\": \"/x\"}"}]}`,
			`{"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}`, `{}`, `"a text"`, `[1, 2.50, null]`, `17`,
		} {
			var want, got any
			answer, err := p.invoke(t.Context(), []byte(event))
			if err == nil {
				err = errors.Join(json.Unmarshal(answer, &got), json.Unmarshal([]byte(event), &want))
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("event %s: got %s, %v, want the event", event, answer, err)
			}
		}
	}
}
