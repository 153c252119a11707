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
	"github.com/weir-limits/weir/local/servers"
)

// The error of the official SDK shows the sentence and the code of a refusal.
func TestOpenAI(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the pinned Node.js needs Linux")
	}
	modules := storetest.Server(t, "clients", "WEIR_CLIENTS")
	script := storetest.Must(filepath.Abs("testdata/openai.mjs"))
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"refusal":"openai","rules":[{"endpoint":"/v1/chat/completions","method":"POST","limits":{"*":
		{"name":"calls","requests":1,"window":"1d"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := newFront(t, rules, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}]}`)
	}))
	out, err := exec.CommandContext(t.Context(), servers.NodeRuntimeIn(modules).Node, script, modules, url).CombinedOutput()
	want := regexp.MustCompile(`^hello\nRateLimitError 429 rate_limit_error rate_limit_exceeded 429 Too many requests\. ` +
		`Retry after \d+ seconds\.\n$`)
	if err != nil || !want.Match(out) {
		t.Errorf("got %s (%v), want %s", out, err, want)
	}
}
