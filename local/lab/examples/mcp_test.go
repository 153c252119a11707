package examples_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/serve"
)

// newMCP returns a front of an MCP server with the example mcp.json.
func newMCP(t *testing.T) (url string, serving *sync.WaitGroup) {
	t.Helper()
	return newFront(t, storetest.Must(filepath.Abs("../../../limiter/rules/examples/mcp.json")), newTools())
}

// newTools returns an MCP server whose tools report 700 tokens.
func newTools() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	for _, name := range []string{"search_docs", "render", "delete"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Meta: mcp.Meta{"tokens": 700}, Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// newFront returns the URL of h behind weir serve --upstream with a file of rules. The requests that it serves hold serving until
// they are settled.
func newFront(t *testing.T, rules string, h http.Handler) (url string, serving *sync.WaitGroup) {
	t.Helper()
	upstream := httptest.NewServer(h)
	t.Cleanup(upstream.Close)
	t.Chdir(t.TempDir())
	o := serve.Options{Rules: rules, Out: io.Discard, Log: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: time.Now}
	if err := o.Upstream.Set(upstream.URL); err != nil {
		t.Fatal(err)
	}
	s := serve.New(o)
	t.Cleanup(s.Close)
	front := httptest.NewUnstartedServer(nil)
	handlers, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	serving = &sync.WaitGroup{}
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		handlers[0].ServeHTTP(w, r)
	})
	front.Start()
	t.Cleanup(front.Close)
	return front.URL, serving
}

// agent adds the id of a run to each request, and drops the fields of MCP for an older client.
type agent struct {
	old     bool
	name    string // a name of a tool that each request claims, unless it is empty
	refusal []byte // the last 429
}

func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Run-Id", "7")
	if a.old {
		r.Header.Del("Mcp-Method")
		r.Header.Del("Mcp-Name")
	}
	if a.name != "" {
		r.Header.Set("Mcp-Name", a.name)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests {
		a.refusal, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		answer.Body = http.NoBody
	}
	return answer, err
}

// The official client calls tools until the limit of one refuses. The other tool still answers, and the tokens in the answers
// count. A client of an older version, without the fields, gets no more. A refusal is in the client's protocol: its error has the
// sentence, but of a 429 this client shows only the status.
func TestMCP(t *testing.T) {
	for version, old := range map[string]bool{"2026-07-28": false, "2025-06-18": true} {
		t.Run(version, func(t *testing.T) { testMCP(t, version, old) })

		// Behind an authorizer, which sees no body, the official server must compare the fields itself. Of the older version, it does not.
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":`+
			`"tools/call","params":{"name":"render","_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`"}}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "search_docs"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		newTools().ServeHTTP(w, r)
		if text := w.Body.String(); strings.Contains(text, "-32020") == old || strings.Contains(text, "done") != old {
			t.Errorf("%s: the name of another tool, without Weir: got %d %s", version, w.Code, text)
		}
	}
}

func testMCP(t *testing.T, version string, old bool) {
	url, serving := newMCP(t)
	a := &agent{old: old}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: a}, DisableStandaloneSSE: true}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string) error {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		return err
	}
	for range 5 {
		if err := call("render"); err != nil {
			t.Fatalf("render: %v", err)
		}
	}
	for _, tool := range []string{"search_docs", "delete"} {
		if err := call(tool); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
	serving.Wait()
	used := map[string]int64{}
	for _, l := range storetest.Must(storetest.Must(operator.NewGateway(url)).Usage(t.Context(), "ip:127.0.0.1")).Limits {
		used[l.Name] = l.State.Capacity - l.State.Remaining
	}
	if used["tokens"] != 5*700 || used["expensive"] != 5 || used["search"] != 1 || used["in-flight"] != 0 {
		t.Errorf("used: got %v, want 3500 tokens of five expensive calls, and one search", used)
	}
	if err := call("render"); err == nil || !strings.Contains(err.Error(), "429") && !strings.Contains(err.Error(), "Too Many") {
		t.Errorf("sixth render: got %v, want 429", err)
	}
	var refusal struct {
		ID    int
		Error struct{ Message string }
	}
	if err := json.Unmarshal(a.refusal, &refusal); err != nil || refusal.ID == 0 ||
		!strings.HasPrefix(refusal.Error.Message, "Too many requests. Retry after ") {
		t.Errorf("sixth render: got %s (%v), want a sentence for the call", a.refusal, err)
	}
	a.name = "search_docs"
	if err := call("render"); err == nil || !strings.Contains(err.Error(), "The field Mcp-Name differs from the body.") {
		t.Errorf("render with the name of another tool: got %v, want the sentence", err)
	}
	_ = session.Close()
}
