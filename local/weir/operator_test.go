package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/serve"
)

// answers runs a command with --json and decodes its output strictly.
func answers[A any](t *testing.T, args ...string) (a A) {
	t.Helper()
	code, out, errs := weir(t, append(args, "--json")...)
	if code != 0 || errs != "" {
		t.Fatalf("%q: got exit %d, stderr %q, want exit 0 and no errors", args, code, errs)
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil || decoder.More() {
		t.Fatalf("%q: got error %v in %s, want one JSON value", args, err, out)
	}
	return a
}

// leftOf returns the remaining quota of the limit at a path in the rules document.
func leftOf(t *testing.T, limits []operator.LimitUsage, path string) int64 {
	t.Helper()
	for _, l := range limits {
		if l.Path == path {
			return l.State.Remaining
		}
	}
	t.Fatalf("limit %s: got %+v, want it in the list", path, limits)
	return 0
}

// explain, usage and reset query a running gateway. After a reset, the gateway admits a caller that
// it refused before.
func TestOperator_gateway(t *testing.T) {
	for _, store := range append([]string{serve.Memory}, remoteStores...) {
		t.Run(store, func(t *testing.T) {
			l := newLocal(t, store, "../serve/testdata/design.json")
			to := []string{"--url", l.rest.URL}
			with := func(args ...string) []string { return append(args, to...) }
			token := l.token("alice")
			search := func() int { return l.search(token) }
			for range 20 {
				if status := search(); status != http.StatusOK {
					t.Fatalf("request before the limit: got status %d, want 200", status)
				}
			}
			e := answers[operator.Explanation](t, with("explain", "get", "/api/v1/%73earch", "--user", "alice")...)
			if e.Decision.Allowed || e.Decision.Status != search() || e.Decision.Limit != "rules[0].limits.free" ||
				leftOf(t, e.Limits, e.Decision.Limit) != 0 || e.Others != 1 {
				t.Errorf("explain: got %+v, want a refusal by the limit of tier free", e)
			}
			if got := answers[operator.Explanation](t, with("explain", "GET", "/api/v1/search", "--token",
				token)...); got.Caller.Subject != e.Caller.Subject || !reflect.DeepEqual(got.Decision, e.Decision) {
				t.Errorf("explain with a token: got %+v, want the caller and the decision of %+v", got, e)
			}
			if got := answers[operator.Explanation](t, with("explain", "GET", "/api/v1/search", "--token",
				token+"x")...); got.Decision.Status != http.StatusUnauthorized || got.Caller.Rejected == "" || len(got.Limits) != 0 {
				t.Errorf("explain with a bad token: got %+v, want status 401, a reason and no charged limits", got)
			}
			i := answers[operator.Usage](t, with("usage", "user:alice")...)
			if leftOf(t, i.Limits, "rules[0].limits.free") != 0 || leftOf(t, i.Limits, "rules[0].limits.paid") != 100 {
				t.Errorf("usage: got %+v, want 0 remaining of tier free and 100 of tier paid", i)
			}
			if status := search(); status != http.StatusTooManyRequests {
				t.Errorf("before the reset: got status %d, want 429", status)
			}
			if f := answers[operator.Usage](t, with("reset", "user:alice")...); len(f.Limits) != 1 || f.Limits[0].Path != "rules[0].limits.free" {
				t.Errorf("reset: got %+v, want the limit of tier free", f)
			}
			if status := search(); status != http.StatusOK {
				t.Errorf("after the reset: got status %d, want 200", status)
			}
			if i := answers[operator.Usage](t, with("usage", "user:alice")...); leftOf(t, i.Limits, "rules[0].limits.free") != 19 {
				t.Errorf("after a request: got %+v, want 19 remaining", i)
			}
			for _, want := range []string{"GET /api/v1/search by user:alice, tier free", "rules[0]  GET  /api/v1/search  charges 1 limit\n",
				"19 of 20 left", "\nnow  allowed\n"} {
				if code, out, _ := weir(t, with("explain", "GET", "/api/v1/search", "--user", "alice")...); code != 0 || !strings.Contains(out, want) ||
					strings.Contains(out, "\x1b") {
					t.Errorf("text output: got exit %d, want exit 0 and %q, output\n%s", code, want, out)
				}
			}
			if _, out, _ := weir(t, with("explain", "GET", "/api/v1/search", "--user", "zoe", "--tier", "gold")...); !strings.Contains(out,
				`note: the rules have no tier "gold": tier free decides`) {
				t.Errorf("unknown tier: want a note about the tier, got\n%s", out)
			}
			unrouted := answers[operator.Explanation](t, with("explain", "GET", "/api/v1/nowhere")...)
			if status := commandtest.Send(t, http.MethodGet, l.rest.URL+"/api/v1/nowhere", "").StatusCode; unrouted.Decision.Allowed ||
				unrouted.Decision.Status != status || !unrouted.Decision.Unrouted {
				t.Errorf("path without a route: got explanation %+v, want unrouted with the gateway's status %d", unrouted, status)
			}
			if _, out, _ := weir(t, with("explain", "GET", "/api/v1/nowhere")...); !strings.Contains(out,
				"\nnow  not routed: no API has a route for it") {
				t.Errorf("path without a route: want not routed, got\n%s", out)
			}
			if _, out, _ := weir(t, with("explain", "POST", "/api/v1/data", "--token", token+"x")...); !strings.Contains(out,
				"charges no limit; limit data: only limits by ip charge a request with a bad credential") {
				t.Errorf("bad token: want a note that limit data is not charged, got\n%s", out)
			}
			if _, out, _ := weir(t, with("explain", "GET", "/api/v1/data")...); !strings.Contains(out, "applies to POST") ||
				!strings.Contains(out, "none: the request is not limited") {
				t.Errorf("similar path: want the rule of POST and no limit, got\n%s", out)
			}
			if code, out, _ := weir(t, with("usage", "user:alice")...); code != 0 || !strings.Contains(out, "token_bucket 100 in 1m, burst 20") {
				t.Errorf("usage as text: got exit %d, want exit 0 and the limit of tier free\n%s", code, out)
			}
			if code, out, _ := weir(t, with("reset", "user:alice")...); code != 0 ||
				!strings.HasPrefix(out, "user:alice: reset 1 limit; the usage before the reset was:\n  search") {
				t.Errorf("reset as text: got exit %d, want exit 0 and the limit search\n%s", code, out)
			}
		})
	}
}

// With --store, or with the variables of a deployment's functions, the commands read the store
// directly.
func TestOperator_store(t *testing.T) {
	for _, store := range remoteStores {
		t.Run(store, func(t *testing.T) {
			l := newLocal(t, store, "../serve/testdata/design.json")
			to := []string{"--store", "dynamodb://" + checkout.Table, "--rules", l.checkout.Path("local/serve/testdata/design.json"),
				"--namespace", l.namespace}
			if store == "redis" {
				t.Setenv("STORE", os.Getenv("REDIS_URL"))
				to[1] = store
			}
			with := func(args ...string) []string { return append(args, to...) }
			search := func() int { return l.search(l.token("bob")) }
			for search() != http.StatusTooManyRequests {
				l.Set(time.Now()) // commands that read the store use the real clock
			}
			e := answers[operator.Explanation](t, with("explain", "GET", "/api/v1/search", "--user", "bob")...)
			if leftOf(t, e.Limits, "rules[0].limits.free") > 10 || !strings.Contains(strings.Join(e.Notes, " "), "--ip") {
				t.Errorf("explain: got %+v, want one call, a charged limit and a note about --ip", e)
			}
			f := answers[operator.Usage](t, with("reset", "user:bob")...)
			if len(f.Limits) != 1 || !strings.Contains(strings.Join(f.Notes, " "), "up to a second") {
				t.Errorf("reset: got %+v, want one limit and a note about other environments", f)
			}
			i := answers[operator.Usage](t, with("usage", "user:bob")...)
			if leftOf(t, i.Limits, "rules[0].limits.free") != 20 {
				t.Errorf("usage after the reset: got %+v, want 20 remaining", i)
			}
			l.Wait(time.Second + time.Millisecond) // wait until the gateway's denial cache has dropped its entry
			if status := search(); status != http.StatusOK {
				t.Errorf("after the reset: got status %d, want 200", status)
			}
			t.Setenv("NAMESPACE", l.namespace+"-other")
			if i := answers[operator.Usage](t, append(with("usage", "user:bob")[:6:6], to[6:]...)...); leftOf(t, i.Limits,
				"rules[0].limits.free") != 20 {
				t.Errorf("another namespace: got %+v, want 20 remaining", i)
			}
		})
	}
}

func TestOperator_recordsTable(t *testing.T) {
	recordsTable(t)
	for _, requests := range []string{"7", "9"} {
		file := filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(file, []byte(`{"rules":[{"endpoint":"/x","limits":{"*":{"requests":`+requests+`,"window":"1m"}}}]}`),
			0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, "rules", "publish", file)
		if _, err := checkout.MakeTable(t.Context(), os.Getenv("DYNAMODB_ENDPOINT"), checkout.Table); err != nil {
			t.Fatal(err)
		}
		e := answers[operator.Explanation](t, "explain", "GET", "/x", "--store", "dynamodb://"+checkout.Table, "--namespace",
			checkouttest.Namespace(), "--records-table", os.Getenv("RECORDS_TABLE"))
		if len(e.Limits) != 1 || strconv.FormatInt(e.Limits[0].Requests, 10) != requests || e.Version == 0 {
			t.Errorf("explanation: got %+v, want the published limit", e)
		}
	}
	createKey(t, "--id", "acme", "--tier", "paid", "--limit", "x=4/1h")
	e := answers[operator.Explanation](t, "explain", "GET", "/x", "--apikey-id", "acme", "--store", "dynamodb://"+checkout.Table,
		"--namespace", checkouttest.Namespace(), "--records-table", os.Getenv("RECORDS_TABLE"))
	if len(e.Limits) != 1 || e.Limits[0].Requests != 4 || e.Limits[0].WindowSeconds != 3600 {
		t.Errorf("explanation of a key: got %+v, want the limit of its record", e.Limits)
	}
	code, out, errs := weir(t, "explain", "GET", "/x", "--store", "dynamodb://"+checkout.Table, "--namespace",
		checkouttest.Namespace(), "--records-table", "weir-test-none")
	// Exactly one error line: the command must not fall back to other rules.
	if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "weir: --records-table: ") {
		t.Errorf("missing table: got exit %d, output %q, stderr %q, want exit 1 and one line about --records-table", code, out, errs)
	}
}

// Outside a checkout, the commands use only the rules in the records table.
func TestOperator_released(t *testing.T) {
	recordsTable(t)
	if _, err := checkout.MakeTable(t.Context(), os.Getenv("DYNAMODB_ENDPOINT"), checkout.Table); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rules.json", []byte(`{"rules":[{"endpoint":"/x","limits":{"*":{"requests":7,"window":"1m"}}}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	question := []string{"explain", "GET", "/x", "--store", "dynamodb://" + checkout.Table, "--namespace", checkouttest.Namespace(),
		"--records-table", os.Getenv("RECORDS_TABLE")}
	if code, out, errs := weir(t, question...); code != 1 || out != "" ||
		!strings.Contains(errs, "publish them with `weir rules publish FILE`") {
		t.Errorf("no rules: got exit %d, output %q, stderr %q, want exit 1 and the command that publishes rules", code, out, errs)
	}
	ok(t, "rules", "publish", "rules.json")
	if e := answers[operator.Explanation](t, question...); len(e.Limits) != 1 || e.Limits[0].Requests != 7 {
		t.Errorf("explanation: got %+v, want the published limit", e.Limits)
	}
}

// If a command cannot get an answer, it prints one line with the reason and a remedy.
func TestOperator_mistakes(t *testing.T) {
	checkouttest.Scratch(t)
	for name, value := range map[string]string{"STORE": "dynamodb://weir", "NAMESPACE": "", "DYNAMODB_ENDPOINT": ""} {
		t.Setenv(name, value)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"explain"}, 2, "arguments: got none, want METHOD PATH"},
		{[]string{"explain", "GET"}, 2, `got ["GET"], want METHOD PATH`},
		{[]string{"explain", "GET", "/", "--claim", "org"}, 2, "want name=value"},
		{[]string{"usage"}, 2, "arguments: got none, want SUBJECT"},
		{[]string{"usage", "user:a", "--url", "http://example.com"}, 2, "on this machine"},
		{[]string{"usage", "user:a", "--store", "memory", "--namespace", "x"}, 2, "use --url"},
		{[]string{"usage", "user:a", "--store", "dyn", "--namespace", "x"}, 2, `--store: got "dyn"`},
		{[]string{"usage", "user:a", "--store", "redis://127.0.0.1:1", "--url", "http://127.0.0.1:1"}, 2, "want one of them"},
		{[]string{"usage", "user:a", "--store", "redis://h", "--rules", "x", "--records-table", "y"}, 2,
			"from which the functions read their rules"},
		{[]string{"usage", "user:a", "--rules", "x"}, 2, "--rules: requires --store"},
		{[]string{"usage", "user:a", "--store", "redis://h"}, 2, "--namespace: required"},
		{[]string{"usage", "user:a", "--store", "dynamodb://a/b", "--namespace", "x"}, 2, "STORE: got"},
		{[]string{"usage", "user:a", "--store", "redis://u:hunter2@127.0.0.1:1", "--namespace", "x"}, 1,
			"the store at redis://127.0.0.1:1 does not answer"},
		{[]string{"usage", "user:a", "--store", "redis://127.0.0.1:1", "--namespace", "x", "--rules", "nowhere.json"}, 1,
			"nowhere.json"},
		{[]string{"usage", "user:a", "--url", "http://127.0.0.1:1"}, 1, "start one with make run"},
		{[]string{"reset", "user:a", "--url", "http://127.0.0.1:1", "--json"}, 1, "start one with make run"},
	} {
		code, out, errs := weir(t, c.args...)
		if lines := strings.Count(errs, "\n"); code != c.code || lines != c.code || !strings.Contains(errs, c.want) || out != "" ||
			strings.Contains(errs, "hunter2") {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want exit %d and %q without a password", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// With --rules, RULES_FROM of this process has no effect. Otherwise the rules come from the records table. redis also names a
// store with TLS.
func TestTarget_lookup(t *testing.T) {
	t.Setenv("RULES_FROM", "table")
	if value, ok := (&target{store: "redis"}).lookup("RULES_FROM"); ok || value != "" {
		t.Errorf("RULES_FROM from the environment: got %q, want none", value)
	}
	t.Setenv("RULES_FROM", "")
	if value, _ := (&target{store: "redis", recordsTable: "x"}).lookup("RULES_FROM"); value != contract.RulesTable {
		t.Errorf("RULES_FROM by --records-table: got %q, want %q", value, contract.RulesTable)
	}
	t.Setenv("STORE", "rediss://h")
	if c, err := (&target{store: "redis", namespace: "x"}).load(); err != nil || c.Store != "rediss://h" {
		t.Errorf("--store redis: got %q and error %v, want the URL in STORE", c.Store, err)
	}
}

// A field that is given twice is repeated, as in a request.
func TestParseHeaders(t *testing.T) {
	got, err := parseHeaders([]string{"mcp-name: a", "Mcp-Name:b", "x-plan: gold "})
	if want := (http.Header{"Mcp-Name": {"a", "b"}, "X-Plan": {"gold"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
}
