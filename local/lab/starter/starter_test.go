// Package starter tests a copy of local/starter in an empty folder.
package starter

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A copy under another name, with another route and another rule, passes its tests, synthesizes its stack and limits its
// own route, without an edit of Weir.
func TestStarter(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "shop")
	run(t, "../../..", "make", "--no-print-directory", "starter", "TO="+copied, "MODULE=example.com/shop")
	files, err := filepath.Glob(filepath.Join(copied, "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("copy: got %v, %v, want the files of local/starter", files, err)
	}
	replace(t, filepath.Join(copied, "functions/api/api.go"), `"GET /orders/{id}"`, `"GET /carts/{id}"`)
	replace(t, filepath.Join(copied, "functions/rules.json"), `"/orders/{id}"`, `"/carts/{id}"`)
	replace(t, filepath.Join(copied, "functions/rules.json"), `"requests": 5`, `"requests": 3`)
	for _, event := range []string{"rest-authorizer.json", "http-api.json"} {
		replace(t, filepath.Join(copied, "events", event), "/orders/", "/carts/")
	}
	run(t, copied, "make", "--no-print-directory", "check")
	run(t, copied, "make", "--no-print-directory", "test")
	run(t, copied, "make", "--no-print-directory", "synth", "CONTEXT=stage=prod")
	if _, err := os.Stat(filepath.Join(copied, "infra/cdk.out/Limits-prod.template.json")); err != nil {
		t.Error(err)
	}
	url := serve(t, copied)
	var statuses []int
	for range 4 {
		statuses = append(statuses, get(t, url+"/carts/7"))
	}
	if statuses[0] != 200 || statuses[2] != 200 || statuses[3] != 429 {
		t.Errorf("statuses: got %v, want three times 200, then 429", statuses)
	}
	if got := get(t, url+"/api/v1/search"); got != http.StatusForbidden {
		t.Errorf("a route of Weir's sample: got %d, want 403", got)
	}
}

// serve starts the local gateway of the copy and returns its URL when it accepts connections.
func serve(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "serve")
	run(t, folder, "go", "build", "-trimpath", "-o", program, "./local/serve")
	port := freePort(t)
	ctx, stop := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, program, "-port", port)
	c.Dir, c.WaitDelay = folder, 5*time.Second
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = c.Wait() // interrupted
	})
	url := "http://127.0.0.1:" + port
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), url) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return url
		}
	}
	t.Fatalf("serve: ended before it printed %s", url)
	return ""
}

// freePort returns a port at which this one and the next are free.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func get(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func run(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "MAKEFLAGS=") // of the make that runs this test
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func replace(t *testing.T, path, old, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(content, []byte(old)) {
		t.Fatalf("%s: got %v, want a file with %s", path, err, old)
	}
	err = os.WriteFile(path, bytes.ReplaceAll(content, []byte(old), []byte(text)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
}
