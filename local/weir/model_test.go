package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// A stream and a JSON answer of a server in Node.js and in Flask are metered to the token, in nano-dollars by the model of the
// request. The server reports nothing.
func TestModel(t *testing.T) {
	prices := storetest.Must(filepath.Abs("../../limiter/rules/examples/prices.json"))
	for name, start := range map[string]func(*testing.T) *exec.Cmd{
		"Node.js": func(t *testing.T) *exec.Cmd {
			storetest.Program(t, "node")
			return exec.CommandContext(t.Context(), "node", storetest.Must(filepath.Abs("testdata/model.mjs")))
		},
		"Flask": func(t *testing.T) *exec.Cmd {
			python := filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python")
			return exec.CommandContext(t.Context(), python, storetest.Must(filepath.Abs("testdata/model.py")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := "http://127.0.0.1:" + started(t, start(t))
			t.Chdir(t.TempDir())
			gateway := commandtest.Start(t, []string{"serve", "--upstream", upstream, "--rules", prices})
			left := 20_000_000_000
			for _, c := range []struct {
				body string
				cost int
			}{
				{`{"model":"small","stream":true,"max_tokens":34}`, 12*150 + 34*600},
				{`{"model":"small","max_tokens":34}`, 12*150 + 34*600},
				{`{"model":"new","stream":true,"max_tokens":7}`, 12*2500 + 7*10000},
			} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/v1/chat/completions", strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				if r := commandtest.Do(t, request); r.StatusCode != http.StatusOK || !strings.Contains(r.Text, "word ") {
					t.Fatalf("%s: got %s %s, want the words", c.body, r.Status, r.Text)
				}
				left -= c.cost
				want, out := fmt.Sprintf(" %d of 20000000000 left", left), ""
				for range 100 { // a settlement can end after the answer
					text, err := commandtest.Command(t, []string{"usage", "ip:127.0.0.1"}, "WEIR_URL="+gateway.URL).CombinedOutput()
					out = string(text)
					if err != nil || strings.Contains(out, want) {
						break
					}
				}
				if !strings.Contains(out, want) {
					t.Errorf("%s: got the usage %s, want%s", c.body, out, want)
				}
			}
		})
	}
}

// started starts a program and returns the first line that it prints.
func started(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	return lines.Text()
}
