package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/command/commandtest"
)

const upstreamRules = `{"rules":[{"endpoint":"/hello/*","limits":{"free":{"name":"hello","requests":2,"window":"1h"},` +
	`"paid":{"name":"hello","requests":5,"window":"1h"}}}]}`

// The binary alone, in an empty folder without a home and without other programs, limits a server, and its commands
// act on this run.
func TestServe_upstream(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, "hello "+r.URL.Path)
	}))
	defer upstream.Close()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rules.json", []byte(upstreamRules), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := []string{"HOME=", "PATH=", "RECORDS_TABLE=", "DYNAMODB_ENDPOINT=", "REDIS_URL="}
	p := commandtest.Start(t, []string{"serve", "--upstream", upstream.URL, "--rules", "rules.json"}, alone...)
	run := func(args ...string) string {
		t.Helper()
		c := commandtest.Command(t, args, append(alone, "WEIR_URL="+p.URL)...)
		var errs strings.Builder
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("weir %v: got error %v, output %s%s, want none", args, err, out, &errs)
		}
		return strings.TrimSpace(string(out))
	}
	get := func(want int, remaining string, header ...string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/hello/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if len(header) > 0 {
			request.Header.Set(header[0], header[1])
		}
		if r := commandtest.Do(t, request); r.StatusCode != want || r.Header.Get("X-RateLimit-Remaining") != remaining || want == http.StatusOK &&
			r.Text != "hello /hello/x" {
			t.Errorf("answer: got %s %v %s, want %d with %s remaining", r.Status, r.Header, r.Text, want, remaining)
		}
	}
	get(200, "1")
	get(200, "0")
	get(429, "0")
	get(200, "4", "Authorization", "Bearer "+run("token", "--user", "alice", "--tier", "paid"))
	if text := run("explain", "GET", "/hello/x"); !strings.Contains(text, "429") {
		t.Errorf("explain: got %s, want a 429", text)
	}
	for _, path := range []string{"", "limits.js", "console.css"} {
		if r := commandtest.Send(t, http.MethodGet, p.URL+"/_weir/"+path, ""); r.StatusCode != http.StatusOK {
			t.Errorf("console, %s: got %s, want 200", path, r.Status)
		}
	}
	var made struct {
		apikeys.Key
		APIKey string
	}
	if err := json.Unmarshal([]byte(run("keys", "create", "--id", "acme", "--tier", "paid", "--local", "--json")), &made); err != nil ||
		made.ID != "acme" {
		t.Fatalf("create: got %+v, error %v, want acme", made, err)
	}
	get(200, "4", "x-api-key", made.APIKey)
	if key := run("keys", "create", "--local"); !strings.HasPrefix(key, "weir_") || strings.ContainsAny(key, " \n") {
		t.Errorf("create: got the output %q, want the key alone", key)
	}
	run("keys", "set", "acme", "--limit", "hello=9", "--local")
	get(200, "7", "x-api-key", made.APIKey)
	run("keys", "set", "acme", "--suspended", "--local")
	get(401, "", "x-api-key", made.APIKey)
	run("keys", "set", "acme", "--suspended=false", "--no-limits", "--local")
	get(200, "2", "x-api-key", made.APIKey)
	if text := run("keys", "list", "--local"); !strings.Contains(text, "acme") || !strings.Contains(text, "sample-free") {
		t.Errorf("list: got %s, want acme and the sample keys", text)
	}
	if text := run("keys", "revoke", "acme", "--local"); !strings.Contains(text, "applies the change to the next request") {
		t.Errorf("revoke: got %s, want the time of the change", text)
	}
	get(401, "", "x-api-key", made.APIKey)
	for args, want := range map[string]string{
		"keys list --local --table weir":                  "--table and --local: got both",
		"keys list":                                       "--table: required",
		"keys set nobody --suspended --local":             `"nobody": no such key`,
		"serve --upstream http://127.0.0.1:1":             "--rules: required with --upstream",
		"serve --upstream 127.0.0.1:1 --rules rules.json": "want a URL without a path",
		"serve --upstream http://127.0.0.1:1 --rules rules.json --store dynamodb --port " +
			strconv.Itoa(commandtest.FreePorts(t)): "DynamoDB Local: run this inside a checkout of Weir, or set DYNAMODB_ENDPOINT",
		"serve": "not inside a checkout of Weir (no functions/rules.json here or in a parent directory); change to a checkout, or limit your " +
			"own server with --upstream URL --rules FILE",
		// the document of weir serve
		"keys set sample-free --tier gold --local":       `rules.json: tier: got "gold", want a tier that a rule names`,
		"keys set sample-free --limit goodbye=9 --local": "limit goodbye: no limit of this name counts by apikey",
	} {
		c := commandtest.Command(t, strings.Fields(args), alone...)
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("weir %s: got error %v, output %s, want %q", args, err, out, want)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{".weir", "rules.json"}) {
		t.Errorf("files: got %v, want only .weir and rules.json", got)
	}
}
