package main

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

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/verify"
)

// verify tests the gateway of make run as the caller of the token. It prints the number of requests first, and never the
// token.
func TestVerify(t *testing.T) {
	l := newLocal(t, "memory", "../../functions/rules.json")
	token := l.token("vera")
	t.Setenv(tokenVariable, token)
	args := []string{"verify", "--url", l.rest.URL + "/", "--template", "infra/golden/dynamodb.template.json", "--wait", "0s"}
	code, out, errs := weir(t, args...)
	if code != 0 || !strings.HasPrefix(errs, "sending at most ") {
		t.Fatalf("got exit %d, stderr %q, want exit 0 and first the number of requests\n%s", code, errs, out)
	}
	for _, want := range []string{
		"pass  limit-exact ", "pass  rest-refused-body ", "pass  table-ttl ", "1 of 1 tables\n", " rows: requires --http-url\n",
		": Retry-After is 1s: the wait is longer than --wait permits\n", " passed, 0 failed, ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output: got %s, want %q in it", out, want)
		}
	}
	if strings.Contains(out+errs, token) {
		t.Error("output: got the token in it, want no token")
	}
	const used = "rows were skipped because a limit is used up: run again after its window, or raise --wait\n"
	if code, again, _ := weir(t, append(args, "--all")...); code != 0 || !strings.Contains(again, used) || !strings.Contains(again, "skip  http-refused ") || strings.Contains(out, "skip  http-refused") || strings.Contains(out, used) {
		t.Errorf("second run: got exit %d, output %s, want exit 0, each skipped row and %q, which the first run does not print", code, again, used)
	}
	if left := l.search(l.token("walter")); left != http.StatusOK {
		t.Errorf("another caller after the run: got status %d, want 200", left)
	}
}

// The public form of a run keeps the command's own words.
func TestVerify_readable(t *testing.T) {
	l := newLocal(t, "memory", "../../functions/rules.json")
	code, out, _ := weir(t, "verify", "--url", l.rest.URL, "--wait", "0s", "--json")
	if code != 0 || strings.Contains(out, "[…]") || !strings.Contains(out, "only a person can test it") {
		t.Errorf("got exit %d, output %s, want exit 0 and nothing removed", code, out)
	}
}

// A mistake in a flag is reported before the first request.
func TestVerify_mistakes(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# A page"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`--path: got "search", want a path that begins with /`:                 {"--path", "search"},
		"--report: no folder " + filepath.Join(page, "x"):                      {"--report", filepath.Join(page, "x", "report.md")},
		"--write: requires --stack":                                            {"--write"},
		"--region: requires --stack":                                           {"--region", "eu-central-1"},
		"--template: " + page + ": not a CloudFormation template in JSON: inv": {"--template", page},
	} {
		if code, out, errs := weir(t, append([]string{"verify", "--url", "http://127.0.0.1:1"}, args...)...); code == 0 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want %q and no row", args, code, out, errs, want)
		}
	}
	t.Chdir(t.TempDir())
	if code, _, errs := weir(t, "verify", "--url", "http://127.0.0.1:1"); code != 2 || !strings.Contains(errs, "--rules: required outside a checkout") {
		t.Errorf("outside a checkout: got exit %d, %s, want 2 and --rules", code, errs)
	}
}

// A row that fails shows the answer of the deployment. --json prints the same as one object, and progress to
// the standard error.
func TestVerify_fails(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another API")) }))
	t.Cleanup(other.Close)
	code, out, _ := weir(t, "verify", "--http-url", other.URL)
	if code != 1 || !strings.Contains(out, "FAIL  http-allowed-fields ") || !strings.Contains(out, "another API") || !strings.Contains(out, "by hand: ") {
		t.Errorf("an API without limits: got exit %d, output %s, want exit 1, the row and its answer", code, out)
	}
	code, out, errs := weir(t, "verify", "--http-url", other.URL, "--json")
	var all verified
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 1 || !strings.Contains(errs, "FAIL  http-allowed-fields") {
		t.Fatalf("JSON: got exit %d, error %v, stderr %s, want exit 1, JSON and progress", code, err, errs)
	}
	if all.Failed == 0 || all.Requests == 0 || all.Passed+all.Failed+all.Skipped != len(verify.Rows()) {
		t.Errorf("JSON: got %d passed, %d failed, %d skipped, %d requests, want one outcome for each row", all.Passed, all.Failed, all.Skipped, all.Requests)
	}
	for _, r := range all.Rows {
		if r.Outcome == verify.Fail && (r.Expected == "" || r.Observed == "") || r.Outcome == verify.Skip && r.Reason == "" || r.Hand == "" {
			t.Errorf("row %+v: got no description, want one", r)
		}
	}
	if code, out, _ := weir(t, "verify", "--http-url", "http://127.0.0.1:1"); code != 1 || strings.Count(out, "FAIL ") != 1 || !strings.Contains(out, "no answer") {
		t.Errorf("nothing at the URL: got exit %d, output %s, want exit 1 and one failure, no answer", code, out)
	}
}

// The URL of another kind of API fails one row, which names the flag for this URL.
func TestVerify_otherKind(t *testing.T) {
	for want, c := range map[string]struct{ flag, field string }{
		"an HTTP API; give its URL with --http-url": {"--url", "Apigw-Requestid"},
		"a REST API; give its URL with --url":       {"--http-url", "X-Amz-Apigw-Id"},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(c.field, "JKJaXmPLvHcESHA=") }))
		code, out, _ := weir(t, "verify", c.flag, api.URL, "--wait", "0s")
		api.Close()
		if code != 1 || strings.Count(out, "FAIL ") != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: got exit %d, output %s, want exit 1 and one failure, %s", c.flag, code, out, want)
		}
	}
}

// An interrupted run prints its results so far.
func TestVerify_interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	t.Cleanup(other.Close)
	var out, errs bytes.Buffer
	if code := command.Execute(ctx, rootCommand(), []string{"verify", "--url", other.URL}, &out, &errs); code != command.Interrupted || !strings.Contains(out.String(), "0 passed, 0 failed, 0 skipped") {
		t.Errorf("got exit %d, output %s, want exit 130 and the totals", code, &out)
	}
}

func TestVerify_usage(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"--url: required", 2, nil},
		{"--url: got \"localhost\", want a URL", 2, []string{"--url", "localhost"}},
		{"--http-url: got", 2, []string{"--http-url", "http://user:secret@localhost"}},
		{"looks like production", 2, []string{"--url", "https://abc.execute-api.eu-central-1.amazonaws.com/prod"}},
		{"looks like production", 2, []string{"--layer-url", "https://api-live.example"}},
		{"--wait: got -1s", 2, []string{"--url", "http://127.0.0.1:1", "--wait", "-1s"}},
		{"--clients: got 0", 2, []string{"--url", "http://127.0.0.1:1", "--clients", "0"}},
		{"--tier: got \"gold\"", 2, []string{"--url", "http://127.0.0.1:1", "--tier", "gold"}},
		{"--rules: open nowhere", 1, []string{"--url", "http://127.0.0.1:1", "--rules", "nowhere"}},
		{"has mistakes", 1, []string{"--url", "http://127.0.0.1:1", "--rules", broken}},
		{"template: ", 1, []string{"--template", broken}},
	} {
		if code, _, errs := weir(t, append([]string{"verify"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: got exit %d, stderr %q, want exit %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
	for _, name := range []string{"https://x.example/dev", "https://products.example/dev", "https://x.example/alive"} {
		if production.MatchString(name) {
			t.Errorf("%s: looks like production, want it does not", name)
		}
	}
}
