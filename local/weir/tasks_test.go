package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/command/commandtest"
)

// costs are what the server of TestTasks reports, by path.
var costs = map[string]string{"/graphql": "120"}

// The commands of each section of TASKS.md, with the rules of the section and a server behind the gateway, print the
// lines that the section shows. The character … stands for any text.
func TestTasks(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cost, ok := costs[r.URL.Path]; ok {
			w.Header().Set("Weir-Cost", cost)
		}
		text := "ok\n"
		if r.URL.Path == "/v1/chat" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush() // chunks, as of each stream: the last one follows the settlement
			text = "data: {\"usage\":{\"prompt_tokens\":812,\"completion_tokens\":95,\"total_tokens\":907}}\n\n"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer upstream.Close()
	page, err := os.ReadFile(filepath.Join(realCheckout(t), "infra", "TASKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		rules, script, want := fenced(section, "json"), fenced(section, "sh"), fenced(section, "text")
		if rules == "" {
			continue
		}
		ran++
		title, _, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			folder := t.TempDir()
			t.Chdir(folder)
			installSelf(t, folder)
			if err := os.WriteFile("rules.json", []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			gateway := commandtest.Start(t, []string{"serve", "--upstream", upstream.URL, "--rules", "rules.json"})
			out := runShell(t, "", folder, atPort("export PATH=$PWD:$PATH WEIR_URL="+defaultGateway+"\n"+script, gateway.Port))
			if !pattern(want).MatchString(out) {
				t.Errorf("commands: got\n%s\nwant\n%s", out, want)
			}
		})
	}
	if ran < 5 {
		t.Errorf("got %d sections with rules, want at least 5", ran)
	}
}

// fenced returns the first block of the language in a section of a document.
func fenced(section, language string) string {
	_, block, _ := strings.Cut(section, "```"+language+"\n")
	block, _, _ = strings.Cut(block, "```")
	return block
}

// pattern matches the lines of want, in their order, among other lines.
func pattern(want string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(want) {
		lines = append(lines, strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", "[^\n]*"))
	}
	return regexp.MustCompile(`(?ms)^\s*` + strings.Join(lines, `$.*^\s*`) + `\s*$`)
}
