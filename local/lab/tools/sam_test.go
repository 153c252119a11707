package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/lab/testservers"
)

// synthesized returns the template that was synthesized for this machine. It skips the test if a
// requirement of the SAM CLI is missing.
func synthesized(t *testing.T) string {
	t.Helper()
	return synthesizedAs(t, "WEIR_TEMPLATE")
}

// synthesizedAs returns the path of a template. An environment variable has the path.
func synthesizedAs(t *testing.T, variable string) string {
	t.Helper()
	storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")
	storetest.Server(t, "docker", "DOCKER_HOST")
	storetest.Server(t, "tools", "WEIR_TOOLS")
	path, err := filepath.Abs(storetest.Server(t, "tools", variable))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The SAM CLI runs the functions of the synthesized template in containers. Limits work, both APIs
// share one state, and responses have the decision's fields.
func TestSAM(t *testing.T) {
	template := synthesized(t)
	c := checkouttest.Scratch(t)
	name := checkouttest.Namespace()
	p := commandtest.Start(t, []string{"sam", "--template", template, "--namespace", name})
	rest, httpAPI := p.URL, fmt.Sprintf("http://127.0.0.1:%d", p.Port+1)
	token, err := c.Token("alice", "paid", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}

	r := decided(t, http.MethodGet, rest+"/api/v1/search", token)
	fields(t, r, http.StatusOK, "100", `"search";q=1000;w=60`)
	// For a bad token, the authorizer returns an error. API Gateway answers 401, and the SAM CLI answers
	// 502.
	if r := commandtest.Send(t, http.MethodGet, rest+"/api/v1/search", "wrong"); r.StatusCode != http.StatusBadGateway {
		t.Errorf("bad token: got %s %s, want 502", r.Status, r.Text)
	}
	admitted := 0
	for r = decided(t, http.MethodPost, rest+"/api/v1/data", ""); r.StatusCode == http.StatusCreated && admitted < 50; admitted++ {
		fields(t, r, http.StatusCreated, "10", `"data";q=10;w=60`)
		r = decided(t, http.MethodPost, rest+"/api/v1/data", "")
	}
	// The SAM CLI does not support gateway responses, so its answer to a denial is a 403.
	if r.StatusCode != http.StatusForbidden || strings.TrimSpace(r.Text) != `{"message":"User is not authorized to access this resource"}` ||
		r.Header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("after %d admitted requests: got %s %v %s, want the 403 of the SAM CLI without fields of the decision", admitted, r.Status,
			r.Header, r.Text)
	}

	r = decided(t, http.MethodGet, httpAPI+"/api/v1/items/5", "")
	fields(t, r, http.StatusOK, "60", `"items";q=60;w=60`)
	// The handler runs in another container. It refuses the caller, because it reads the charges of the
	// authorizer from the store. The limit has recovered a little since these charges, so the handler
	// can admit a few requests first.
	for r = decided(t, http.MethodPost, httpAPI+"/api/v1/data", ""); r.StatusCode == http.StatusCreated && admitted < 50; admitted++ {
		r = decided(t, http.MethodPost, httpAPI+"/api/v1/data", "")
	}
	fields(t, r, http.StatusTooManyRequests, "10", `"data";q=10;w=60`)
	var problem httplimit.Problem
	if err := json.Unmarshal([]byte(r.Text), &problem); err != nil || problem.Status != http.StatusTooManyRequests ||
		problem.Error != "rate_limit_exceeded" || r.Header.Get("Content-Type") != "application/problem+json" ||
		r.Header.Get("Retry-After") == "" {
		t.Errorf("problem: got error %v, header %v and body %s, want a 429 with Retry-After", err, r.Header, r.Text)
	}
	for _, subject := range []string{"ip:127.0.0.1", "user:alice"} {
		if keys := subjectsIn(t, name); !slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, "/"+subject) }) {
			t.Errorf("got keys %v in DynamoDB, want %s too", keys, subject)
		}
	}

	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("end of the process: got error %v, want none: %s", err, p.Output)
	}
}

// decided sends a request until the store decides it. On a busy machine, the store can miss its timeout, for one of two subjects
// (subject_busy) or for all.
func decided(t *testing.T, method, url, token string) commandtest.Reply {
	t.Helper()
	for range 20 {
		r := commandtest.Send(t, method, url, token)
		if why := limiter.Reason(r.Header.Get("Weir-Degraded")); why != limiter.ReasonTimeout && why != limiter.ReasonBusy {
			return r
		}
	}
	t.Fatal("decisions: got none by the store, want one")
	return commandtest.Reply{}
}

// fields checks the response fields of a decision.
func fields(t *testing.T, r commandtest.Reply, status int, limit, policy string) {
	t.Helper()
	remaining, err := strconv.Atoi(r.Header.Get("X-RateLimit-Remaining"))
	name, _, _ := strings.Cut(policy, ";")
	if r.StatusCode != status || r.Header.Get("X-RateLimit-Limit") != limit || r.Header.Get("RateLimit-Policy") != policy ||
		!strings.HasPrefix(r.Header.Get("RateLimit"), name+";r="+strconv.Itoa(remaining)+";t=") || r.Header.Get("X-RateLimit-Reset") == "" ||
		err != nil || status == http.StatusTooManyRequests && remaining != 0 {
		t.Errorf("got %s, want %d of limit %s: %v %s", r.Status, status, limit, r.Header, r.Text)
	}
}

// subjectsIn returns the keys of a namespace's items in the table.
func subjectsIn(t *testing.T, namespace string) (keys []string) {
	t.Helper()
	client, err := boot.Config{DynamoDBEndpoint: os.Getenv("DYNAMODB_ENDPOINT"), Local: true}.DynamoDBClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: aws.String(checkout.Table), ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			if key, ok := item[dynamostore.KeyAttribute].(*types.AttributeValueMemberS); ok && strings.Contains(key.Value, namespace) {
				keys = append(keys, key.Value)
			}
		}
	}
	return keys
}

// outcomes are the expected results of the sample events, by file. A result has two parts. The first
// part is the subject (of the authorizer) or the status (of the handler). The second part is the
// capacity of the limit.
var outcomes = map[string]string{
	"alb-anonymous.json":             "200, limit 20",
	"function-url-anonymous.json":    "200, limit 60",
	"http-api-anonymous.json":        "201, limit 10",
	"http-api-apikey.json":           "201, limit ", // only the limit of all callers counts, and no answer reports it
	"http-api-user.json":             "201, limit ", // only the limit of all callers counts, and no answer reports it
	"rest-authorizer-anonymous.json": "Allow ip:203.0.113.7, limit 20",
	"rest-authorizer-apikey.json":    "Allow apikey:sample-enterprise, limit 10000",
	"rest-authorizer-user.json":      "Allow user:alice, limit 100",
	"rest-proxy-anonymous.json":      "200, limit 100",
	"rest-proxy-apikey.json":         "200, limit 100",
	"rest-proxy-user.json":           "200, limit 100",
}

func sampleEvent(t *testing.T, name string) []byte {
	t.Helper()
	event, err := samples.Files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// prepared returns a template for `sam local invoke`, with the credentials of the sample events.
func prepared(t *testing.T, path string) (template *samTemplate, cli *testservers.SAM, document string) {
	t.Helper()
	dir := t.TempDir()
	variables, files := sampleCredentials(t, dir)
	variables["NAMESPACE"] = checkouttest.Namespace()
	var note bytes.Buffer
	template, cli, err := samPrepare(t.Context(), path, dir, files, variables, &note)
	if err != nil {
		t.Fatal(err)
	}
	if note.Len() > 0 {
		t.Log(note.String())
	}
	document = filepath.Join(dir, "template.json")
	if err := template.write(document, ""); err != nil {
		t.Fatal(err)
	}
	return template, cli, document
}

// `sam local invoke` runs with every sample event of the authorizer and the handler.
func TestSAM_events(t *testing.T) {
	template, cli, document := prepared(t, synthesized(t))
	names, err := fs.Glob(samples.Files, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool {
		return name == "jwks.json" ||
			strings.HasPrefix(name, "report-")
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event, function := sampleEvent(t, name), "Handler"
			if strings.HasPrefix(name, "rest-authorizer-") {
				function = "Authorizer"
			}
			var answer []byte
			for range 5 { // on a busy machine, the store may miss its timeout; then repeat the invocation
				answer, err = cli.Invoke(t.Context(), document, functionOf(t, template, function), event)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(answer, []byte(limiter.ReasonTimeout)) {
					break
				}
			}
			if got := outcomeOf(t, answer); got != outcomes[name] {
				t.Errorf("got %s, want %q: %s", got, outcomes[name], answer)
			}
		})
	}
}

// sampleCredentials returns variables and files that make the functions accept the credentials of
// the sample events.
func sampleCredentials(t *testing.T, dir string) (variables, files map[string]string) {
	t.Helper()
	const secret = "0123456789abcdef"
	keys, err := samples.Files.ReadFile(jwksFile)
	if err != nil {
		t.Fatal(err)
	}
	records, err := json.Marshal([]caller.Record{{ID: "sample-enterprise", Hash: caller.HashAPIKey([]byte(secret), samples.APIKey),
		Tier: "enterprise"}})
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for name, content := range map[string][]byte{jwksFile: keys, apiKeysFile: records, apiKeySecretFile: []byte(secret),
		subjectKeyFile: []byte(secret + secret)} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]string{"JWT_ISSUER": samples.Issuer, "JWT_AUDIENCE": samples.Audience, "JWT_ALGORITHMS": "ES256"}, files
}

// functionOf returns the function whose logical ID contains a word.
func functionOf(t *testing.T, template *samTemplate, word string) string {
	t.Helper()
	ids := slices.DeleteFunc(template.functions(), func(id string) bool { return !strings.Contains(id, word) })
	if len(ids) != 1 {
		t.Fatalf("functions with %s in their ID: got %v, want one", word, ids)
	}
	return ids[0]
}

// outcomeOf describes an answer of the authorizer or the handler in the words of the map outcomes.
func outcomeOf(t *testing.T, answer []byte) string {
	t.Helper()
	var a struct {
		events.APIGatewayCustomAuthorizerResponse
		events.APIGatewayProxyResponse
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatalf("policy of the authorizer: got error %v in %s, want JSON", err, answer)
	}
	if a.StatusCode == 0 && len(a.PolicyDocument.Statement) == 1 {
		return fmt.Sprintf("%s %s, limit %s", a.PolicyDocument.Statement[0].Effect, a.PrincipalID, a.Context["rateLimitLimit"])
	}
	limit := a.Headers["X-RateLimit-Limit"]
	if limit == "" {
		limit = strings.Join(a.MultiValueHeaders["X-RateLimit-Limit"], ",")
	}
	return fmt.Sprintf("%d, limit %s", a.StatusCode, limit)
}
