package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
	"github.com/weir-limits/weir/local/lambdaenv"
	"github.com/weir-limits/weir/local/servers"
)

// settled is a REST API with Weir's authorizer, a back end without Weir, and the function Forward.
type settled struct {
	*ruled
	*gateway.Gateway
}

// newSettled returns the API. backEnd makes the function behind the API; lambda is the URL of the
// local Lambda API.
func newSettled(t *testing.T, store limiter.Store, document string, backEnd func(lambda string) lambda.Handler) *settled {
	t.Helper()
	parsed, err := rules.Parse([]byte(document), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &settled{ruled: &ruled{Store: store, kind: gateway.REST, rules: parsed, now: opened}}
	s.warmUp(t)
	logger := slog.New(slog.DiscardHandler)
	recorder := telemetry.New(&s.metrics, "dev", nil)
	recorder.Rules(s.now, 1, time.Time{}, parsed.Labels(), parsed.Exemptions())
	// The two functions share only the store and the keys of receipts, as on AWS.
	ring := receipts.Fixed("dev", receipts.NewKeys())
	environment := func() *lambdahttp.Environment {
		return &lambdahttp.Environment{
			Limiter: storetest.Must(limiter.New(s.ruled, limiter.Options{Logger: logger})), Rules: live.Fixed(parsed), Logger: logger,
			Identifier: caller.New(caller.Options{APIKeys: keys{}}), Clock: func() time.Time { return s.now }, Recorder: recorder,
			Receipts: ring,
		}
	}
	invoke := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Invoke().ServeHTTP(w, r) }))
	t.Cleanup(invoke.Close)
	s.Gateway, err = gateway.New(templatetest.Parse(t, "template/testdata/good/accesslog.json"), gateway.Options{
		Functions: functions{"Authorizer": lambdahttp.NewAuthorizer(environment()), "Settle": lambdahttp.NewForward(environment()), "Handler": backEnd(invoke.URL)},
		Clock:     func() time.Time { return s.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.api = serve(t, s.APIs()[0])
	return s
}

// A limit counts failures although its back end contains no code of Weir: the function Forward reads
// the statuses from the access log.
func TestSettle_failures(t *testing.T) {
	for _, store := range []string{"memory", "dynamodb", "redis"} {
		t.Run(store, func(t *testing.T) {
			s := newSettled(t, openStore(t, store), example(t, "login.json"), func(string) lambda.Handler {
				return loginFunction
			})
			login := func(password string, statuses ...int) {
				t.Helper()
				for i, status := range statuses {
					if a := send(t, s.api, "POST", "/login", password); a.status != status {
						t.Errorf("login %d with the password %s: got %d %s, want %d", i+1, password, a.status, a.body, status)
					}
					if err := s.Delivered(t.Context()); err != nil {
						t.Fatal(err)
					}
					s.now = s.now.Add(2 * time.Second) // the authorizer's denial cache refuses for up to a second
				}
			}
			login("right", times(7, 200)...)
			login("wrong", times(4, 401)...)
			login("right", 200, 200)
			login("wrong", 401, 429)
			login("right", 429)
		})
	}
}

// loginFunction answers 200 if the password is right.
var loginFunction = &stub{answer: func(_ context.Context, event []byte) ([]byte, error) {
	if strings.Contains(string(event), `"body":"right"`) {
		return []byte(`{"statusCode":200}`), nil
	}
	return []byte(`{"statusCode":401}`), nil
}}

// backEnds has the sample functions in functions/SETTLE.md, by language. model is code that
// replaces the call of the language model.
var backEnds = map[string]struct {
	language, file, model, text string
	start                       func(t *testing.T, folder string) string // start starts the runtime with the function in folder
}{
	"Node.js": {"js", "index.mjs", "model.mjs", "export const complete = async (body) => ({ text: 'hi', ...JSON.parse(body) });\n", startNode},
	"Python":  {"python", "app.py", "model.py", "import json\n\n\ndef complete(body):\n    return \"hi\", json.loads(body)\n", startPython},
}

func startNode(t *testing.T, folder string) string {
	t.Helper()
	node := servers.NodeRuntimeIn(storetest.Server(t, "clients", "WEIR_CLIENTS"))
	modules, err := filepath.Abs("testdata/node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		storetest.Unfetched(t, "node", "make local/gateway/testdata/node/node_modules", err)
	}
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/usr/bin/env _HANDLER=index.handler %s %s", node.Node, node.Client)
}

func startPython(t *testing.T, _ string) string {
	t.Helper()
	return filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python") + " -m awslambdaric app.handler"
}

// The sample functions in functions/SETTLE.md run in real Lambda runtimes and report their tokens
// to the function Forward. The limits then count these tokens exactly.
func TestSettle_backEnds(t *testing.T) {
	page, err := os.ReadFile("../../functions/SETTLE.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range backEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, code, _ := strings.Cut(string(page), "```"+b.language+"\n")
			code, _, ok := strings.Cut(code, "```")
			if !ok || !strings.Contains(code, b.file) {
				t.Fatalf("functions/SETTLE.md: got no block of %s for %s, want one", b.language, b.file)
			}
			folder := t.TempDir()
			bootstrap := "#!/bin/sh\nexec " + b.start(t, folder) + "\n"
			for file, text := range map[string]string{b.file: code, b.model: b.text, "bootstrap": bootstrap} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			rejected := make(chan struct{}, 1)
			s := newSettled(t, openStore(t, "memory"), example(t, "llm.json"), func(lambda string) lambda.Handler { return pool(t, folder, lambda, rejected) })
			if a := send(t, s.api, "POST", "/v1/chat", `{"input":1.5,"output":1}`, "X-Api-Key: key-bob"); a.status != http.StatusOK {
				t.Errorf("request with a cost that is not whole: got %d %s, want 200", a.status, a.body)
			}
			select {
			case <-rejected:
			case <-time.After(time.Minute):
				t.Error("request with a cost that is not whole: got no line that contains \"not settled: invalid\", want one")
			}
			checkTokens(t, s)
		})
	}
}

// pool returns execution environments for the sample function. The function calls the Lambda API at
// the URL lambda. rejected gets a value when the function logs that its report was rejected.
func pool(t *testing.T, folder, lambda string, rejected chan<- struct{}) *lambdaenv.Pool {
	t.Helper()
	p, err := lambdaenv.NewPool(lambdaenv.PoolOptions{
		Bootstrap: filepath.Join(folder, "bootstrap"), Name: "Handler", Max: 2, Logger: slog.New(slog.DiscardHandler),
		Line: func(_ string, line []byte) {
			t.Logf("%s", line)
			if strings.Contains(string(line), "not settled: invalid") {
				select {
				case rejected <- struct{}{}:
				default:
				}
			}
		},
		Variables: []string{
			"SETTLE_FUNCTION=Settle", "AWS_ENDPOINT_URL_LAMBDA=" + lambda, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	warm(t, p)
	return p
}

// warm starts a process of p. A runtime that loads an SDK can need more than Lambda's 10 s on a busy machine, so its
// init is tried five times. The sample functions answer an event without a body with an error.
func warm(t *testing.T, p *lambdaenv.Pool) {
	t.Helper()
	for range 5 {
		_, err := p.Invoke(t.Context(), []byte("{}"))
		if _, failed := errors.AsType[lambdaenv.FunctionError](err); failed {
			return
		}
		t.Logf("init: %v", err)
	}
	t.Fatal("function: got five failed inits, want one that ends")
}

// checkTokens sends requests until the limit calls refuses one, and checks that the usage equals
// the sum of their tokens.
func checkTokens(t *testing.T, s *settled) {
	t.Helper()
	want := map[string]int64{"calls": 0, "input": 0, "output": 0, "month": 0}
	for i := range int64(60) {
		tokens := map[string]int64{"input": 100 + i, "output": 10*i + 1}
		body, _ := json.Marshal(tokens) // Marshal never fails for numbers
		if a := send(t, s.api, "POST", "/v1/chat", string(body), "X-Api-Key: key-alice"); a.status != http.StatusOK || a.body != "hi" {
			t.Fatalf("request %d: got %d %s, want 200", i+1, a.status, a.body)
		}
		want["calls"]++
		want["input"] += tokens["input"]
		want["output"] += tokens["output"]
		want["month"] += tokens["input"] + tokens["output"]
	}
	if a := send(t, s.api, "POST", "/v1/chat", "{}", "X-Api-Key: key-alice"); a.status != http.StatusTooManyRequests {
		t.Errorf("request 61: got %d %s, want 429 of the limit of calls", a.status, a.body)
	}
	got := s.used(t, "/v1/chat", caller.Caller{APIKey: "alice"})
	if !maps.Equal(got, want) {
		t.Errorf("usage: got %v, want %v", got, want)
	}
}
