package examples_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/lab/testservers"
)

// newOpenAI returns a front of an API of completions that allows one, and refuses in the form of OpenAI.
func newOpenAI(t *testing.T) (url string) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"refusal":"openai","rules":[{"endpoint":"/v1/chat/completions","method":"POST","limits":{"*":
		{"name":"calls","requests":1,"window":"1d"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ = newFront(t, rules, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}]}`)
	}))
	return url
}

// The errors of the official SDKs for Node.js show the sentence of a refusal, and that of OpenAI its code.
func TestSDK(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the pinned Node.js needs Linux")
	}
	mcpURL := func(t *testing.T) string { url, _ := newMCP(t); return url }
	modules := storetest.Server(t, "clients", "WEIR_CLIENTS")
	node, _ := testservers.Node(modules)
	for name, c := range map[string]struct {
		url  func(*testing.T) string
		want string
	}{
		"openai": {newOpenAI, `^hello\nRateLimitError 429 rate_limit_error rate_limit_exceeded 429 Too many requests\. Retry after \d+ `},
		"mcp":    {mcpURL, `^5 .*"code":-32029,"message":"Too many requests\. Retry after \d+ `},
	} {
		t.Run(name, func(t *testing.T) {
			script := storetest.Must(filepath.Abs("testdata/" + name + ".mjs"))
			program := exec.CommandContext(t.Context(), node, script, modules, c.url(t)) //nolint:gosec // of the test
			if out, err := program.CombinedOutput(); err != nil || !regexp.MustCompile(c.want).Match(out) {
				t.Errorf("got %s (%v), want %s", out, err, c.want)
			}
		})
	}
}
