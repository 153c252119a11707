package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/verify"
)

func root() *cobra.Command {
	root := command.Root(&cobra.Command{Use: "weir"})
	root.AddCommand(verify.Command())
	return root
}

// run runs a command line and returns its exit status and output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command.Execute(t.Context(), root(), append([]string{"verify"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// verify tests the gateway of make run as the caller of the token. It prints the number of requests first, and never the
// token.
func TestCommand(t *testing.T) {
	d, _ := served(t, serve.Memory)
	t.Setenv("WEIR_TOKEN", d.Token)
	routes := filepath.Join(t.TempDir(), "routes.txt")
	if err := os.WriteFile(routes, []byte("GET /api/v1/search\nGET /api/v1/items/{id}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "--url", d.URL+"/", "--routes", routes, "--value", "id=7", "--wait", "0s")
	if code != 0 || !strings.HasPrefix(errs, "sending at most ") || strings.Contains(out+errs, d.Token) {
		t.Fatalf("got exit %d, stderr %q, want exit 0, first the number of requests, and no token\n%s", code, errs, out)
	}
	for _, want := range []string{"pass  limit-exact    ", "pass  refused        ", "pass  routes         2 of 2 routes\n", "pass  token  ",
		": the wait is longer than --wait permits\n", " passed, 0 failed, "} {
		if !strings.Contains(out, want) {
			t.Errorf("output: got %s, want %q in it", out, want)
		}
	}
}

// A row that fails shows the answer of the deployment. --json prints the rows as one list, and progress to the standard
// error.
func TestCommand_fails(t *testing.T) {
	d, _ := served(t, serve.Memory)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another API")) }))
	t.Cleanup(other.Close)
	code, out, _ := run(t, "--url", other.URL)
	if code != 1 || !strings.Contains(out, "FAIL  allowed        want the fields") || !strings.Contains(out, "another API") ||
		!strings.Contains(out, "skip  limit-exact    the row allowed failed\n") {
		t.Errorf("an API without limits: got exit %d, output %s, want exit 1, the row and its answer", code, out)
	}
	code, out, errs := run(t, "--url", other.URL, "--json")
	var rows []verify.Result
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 1 || len(rows) != len(verify.Rows()) ||
		!strings.Contains(errs, "FAIL  allowed") {
		t.Fatalf("JSON: got exit %d, error %v, %d rows, stderr %s, want exit 1, each row and progress", code, err, len(rows), errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupting := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	t.Cleanup(interrupting.Close)
	var printed bytes.Buffer
	if code := command.Execute(ctx, root(), []string{"verify", "--url", interrupting.URL}, &printed, &printed); code != command.Interrupted ||
		!strings.Contains(printed.String(), "0 passed, 0 failed, 0 skipped") {
		t.Errorf("interrupt: got exit %d, output %s, want exit 130 and the totals", code, &printed)
	}
	if code, out, errs := run(t, "--url", d.URL, "--path", "/no/limit", "--rules",
		written(t, `{"version":1,"rules":[{"endpoint":"/a","limits":{"*":{"requests":9,"window":"1m"}}}]}`)); code != 1 ||
		!strings.Contains(out, "--path: the rules have no limit for /no/limit") {
		t.Errorf("a path without a limit: got exit %d, output %s, stderr %s, want exit 1 and the reason", code, out, errs)
	}
}

func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A mistake in a flag is reported before the first request.
func TestCommand_mistakes(t *testing.T) {
	const local = "http://127.0.0.1:1"
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{`--url: got "", want a URL`, 2, nil},
		{`--url: got "localhost", want a URL`, 2, []string{"--url", "localhost"}},
		{"--url: got", 2, []string{"--url", "http://user:secret@localhost"}},
		{"looks like production", 2, []string{"--url", "https://abc.execute-api.eu-central-1.amazonaws.com/prod"}},
		{"looks like production", 2, []string{"--url", "https://api-live.example"}},
		{`--path: got "search"`, 2, []string{"--url", local, "--path", "search"}},
		{"--write and --value: require --routes", 2, []string{"--url", local, "--write"}},
		{"--wait: got -1s", 2, []string{"--url", local, "--wait", "-1s"}},
		{"--clients: got 0", 2, []string{"--url", local, "--clients", "0"}},
		{`--tier: got "gold"`, 2, []string{"--url", local, "--tier", "gold"}},
		{"--rules: open nowhere", 1, []string{"--url", local, "--rules", "nowhere"}},
		{"has mistakes", 1, []string{"--url", local, "--rules", written(t, "{")}},
		{"--routes: open nowhere", 1, []string{"--url", local, "--routes", "nowhere"}},
		{"unexpected end of JSON input", 1, []string{"--url", local, "--routes", written(t, "{")}},
	} {
		if code, out, errs := run(t, c.args...); code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want exit %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	if code, out, _ := run(t, "--url", "https://products.invalid/alive", "--rules", written(t, "{")); code != 1 || out != "" {
		t.Errorf("names that only look like production: got exit %d, output %q, want the mistake in the rules", code, out)
	}
	t.Chdir(t.TempDir())
	if code, _, errs := run(t, "--url", local); code != 2 || !strings.Contains(errs, "--rules: required outside a checkout") {
		t.Errorf("outside a checkout: got exit %d, %s, want 2 and --rules", code, errs)
	}
}
