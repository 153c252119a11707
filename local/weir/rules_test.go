package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
)

// Publish and get: each publication gets a higher version than the previous one.
func TestRules(t *testing.T) {
	recordsTable(t)
	file := filepath.Join(t.TempDir(), "rules.json")
	write := func(requests int) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":%d,"window":"1m"}}}]}`,
			requests), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	history := func() (all []rulestore.Version) {
		t.Helper()
		if err := json.Unmarshal([]byte(ok(t, "rules", "history", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if out := ok(t, "rules", "history"); !strings.HasPrefix(out, "no rules in weir-test-") || len(history()) != 0 {
		t.Errorf("empty table: got %q, want a line that there are no rules", out)
	}
	for _, args := range [][]string{{"rules", "get"}, {"rules", "get", "--version", "7"}} {
		if code, out, errs := weir(t, args...); code != 1 || out != "" || !strings.Contains(errs, "no ") {
			t.Errorf("%v in an empty table: got exit %d, output %q, stderr %q, want exit 1 and an error", args, code, out, errs)
		}
	}
	write(5)
	out := ok(t, "rules", "publish", file, "--note", "the first")
	first := history()[0]
	if want := fmt.Sprintf("published %s; functions with rulesFrom=table use it within a minute\n",
		command.RulesVersion(first.Version)); !strings.HasSuffix(out, want) || first.Note != "the first" || first.Bytes != 85 {
		t.Errorf("publish: got %+v, %q, want %q", first, out, want)
	}
	if out := ok(t, "rules", "publish", file); out != fmt.Sprintf("nothing was published: %s, which is in force, has the same document\n",
		command.RulesVersion(first.Version)) || len(history()) != 1 {
		t.Errorf("same document again: got %q, want no new version", out)
	}
	write(6)
	var put struct {
		Version, Replaces int64
		Note, Diff        string
	}
	if err := json.Unmarshal([]byte(ok(t, "rules", "publish", file, "--json")), &put); err != nil || put.Version <= first.Version ||
		put.Replaces != first.Version || !strings.Contains(put.Diff, "-          \"requests\": 5,\n+          \"requests\": 6,\n") {
		t.Errorf("publish: got %+v, error %v, want a higher version and the difference", put, err)
	}
	if got, want := ok(t, "rules", "get"), read(t, file); got != want {
		t.Errorf("diff: got %s, want %s", got, want)
	}
	var got struct {
		Version  int64
		Note     string
		Document struct{ Rules []any }
	}
	if err := json.Unmarshal([]byte(ok(t, "rules", "get", "--version", fmt.Sprint(first.Version), "--json")), &got); err != nil ||
		got.Version != first.Version || got.Note != "the first" || len(got.Document.Rules) != 1 {
		t.Errorf("get: got %+v, error %v, want the first version with its note", got, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(read(t, file), "{", `{"refusal":"openai",`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "rules", "publish", file, "--json"); !strings.Contains(out, `"refusal": "openai"`) {
		t.Errorf("another form of refusals: got %s, want a report", out)
	}
	lines := strings.Split(ok(t, "rules", "history"), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "VERSION ") || !strings.HasSuffix(lines[3], "  the first") {
		t.Errorf("history: got %q, want a header and 3 versions", lines)
	}
}

// deploy publishes a document as the deployment of a namespace does, with one limit for /x.
func deploy(t *testing.T, namespace string, requests int) {
	t.Helper()
	client, err := boot.Config{DynamoDBEndpoint: os.Getenv("DYNAMODB_ENDPOINT"), Local: true}.DynamoDBClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintf(w, `{"rules":[{"endpoint":"/x","limits":{"*":{"requests":%d,"window":"1m"}}}]}`, requests)
	_ = w.Close()
	_, _, err = (&rulestore.Publisher{API: client, Clock: time.Now}).Publish(t.Context(), cfn.Event{RequestType: cfn.RequestCreate,
		ResourceProperties: map[string]any{
			contract.PropertyTable: os.Getenv("RECORDS_TABLE"), contract.PropertyNamespace: namespace,
			contract.PropertyDocument: base64.StdEncoding.EncodeToString(packed.Bytes()),
		}})
	if err != nil {
		t.Fatal(err)
	}
}

// Functions with the rules of their deployment do not read published rules. Publish then publishes nothing,
// unless the flag says that the deployment has changed. It warns if it cannot know the source of the functions.
func TestRules_deployed(t *testing.T) {
	recordsTable(t)
	namespace := os.Getenv("NAMESPACE")
	ok(t, "rules", "publish", endpoints(t, 3))
	ok(t, "rules", "publish", endpoints(t, 4))
	if code, out, errs := weir(t, "rules", "get", "--deployed"); code != 1 || out != "" ||
		!strings.Contains(errs, "want a deployment without rulesFrom") {
		t.Errorf("get before a deployment: got exit %d, output %q, stderr %q, want exit 1", code, out, errs)
	}
	deploy(t, namespace, 7)
	createKey(t, "--id", "acme", "--limit", "x=5") // keys are checked against the rules in force
	if code, _, errs := weir(t, "keys", "set", "acme", "--limit", "e0=5"); code != 1 ||
		!strings.Contains(errs, "limit e0: no limit of this name counts by apikey") {
		t.Errorf("limit of the published rules: got exit %d, stderr %q, want exit 1", code, errs)
	}
	before := ok(t, "rules", "history")
	for _, args := range [][]string{{"publish", endpoints(t, 5)}} {
		code, out, errs := weir(t, append([]string{"rules"}, args...)...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "functions of namespace "+namespace+
			" use the rules of their deployment") || ok(t, "rules", "history") != before {
			t.Errorf("%s: got exit %d, output %q, stderr %q, want exit 1, one line, and nothing published", args[0], code, out, errs)
		}
		t.Setenv("RULES_FROM", "table")
		if out := ok(t, append([]string{"rules"}, args...)...); !strings.Contains(out, "published version") {
			t.Errorf("%s with RULES_FROM=table: got %q, want a publication", args[0], out)
		}
		t.Setenv("RULES_FROM", "")
		before = ok(t, "rules", "history")
	}
	if out := ok(t, "rules", "get", "--deployed"); !strings.Contains(out, `"requests":7`) {
		t.Errorf("get --deployed: got %s, want the document of the deployment", out)
	}
	ok(t, "rules", "publish", endpoints(t, 6), "--namespace", "other")
	t.Setenv("RULES_FROM", "table")
	ok(t, "rules", "publish", endpoints(t, 4))
	t.Setenv("RULES_FROM", "")
	t.Setenv("NAMESPACE", "")
	if code, out, errs := weir(t, "rules", "publish", endpoints(t, 5)); code != 0 ||
		!strings.Contains(out, "functions with rulesFrom=table") || !strings.HasPrefix(errs, "warning: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("no namespace: got exit %d, output %q, stderr %q, want one line with a warning", code, out, errs)
	}
	if code, _, errs := weir(t, "rules", "get", "--deployed"); code != 2 || !strings.Contains(errs, "--namespace") {
		t.Errorf("get without a namespace: got exit %d, stderr %q, want exit 2", code, errs)
	}
}

// Publish rejects a document that enforces no limit, unless --unlimited is given, or the document in force
// enforces none either.
func TestRules_unlimited(t *testing.T) {
	recordsTable(t)
	file := func(document string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(name, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	rule := func(mode string, requests int) string {
		return fmt.Sprintf(`{"endpoint":"*",%s"limits":{"*":{"name":"all","requests":%d,"window":"1m"}}}`, mode, requests)
	}
	enforced, empty := file(`{"rules":[`+rule("", 5)+`]}`), file(`{"rules":[]}`)
	shadow, again := file(`{"rules":[`+rule(`"mode":"shadow",`, 5)+`]}`), file(`{"rules":[`+rule(`"mode":"shadow",`, 6)+`]}`)
	marked := file(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":5,"window":"1m","mode":"mark"}}}]}`)
	usage := file(`{"usage":{"endpoint":"/limits","limit":{"requests":9,"window":"1m"}},"rules":[]}`)
	refused := func(want string, args ...string) {
		t.Helper()
		before := ok(t, "rules", "history")
		code, out, errs := weir(t, append([]string{"rules"}, args...)...)
		if code != 1 || out != "" || errs != "weir: "+want+"; callers would have no limit; to accept this, add --unlimited\n" {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want exit 1 and one line that names --unlimited", args, code, out, errs)
		}
		if got := ok(t, "rules", "history"); got != before {
			t.Errorf("%q: got the versions %s, want none more than %s", args, got, before)
		}
	}
	refused(empty+": nothing was published, because the document has no rules", "publish", empty)
	ok(t, "rules", "publish", empty, "--unlimited")
	ok(t, "rules", "publish", enforced)
	for name, document := range map[string]string{"shadow": shadow, "mark": marked, "usage": usage} {
		want := "no rule refuses a request"
		if document == usage {
			want = "the document has no rules"
		}
		t.Run(name, func(*testing.T) { refused(document+": nothing was published, because "+want, "publish", document) })
	}
	ok(t, "rules", "publish", shadow, "--unlimited")
	ok(t, "rules", "publish", again)
	ok(t, "rules", "publish", enforced)
}

// Publish rejects a document that restarts counts, unless --restart-counts is given.
func TestRules_restartCounts(t *testing.T) {
	recordsTable(t)
	seven, twelve := endpoints(t, 7), endpoints(t, 12)
	history := func() (all []rulestore.Version) {
		t.Helper()
		if err := json.Unmarshal([]byte(ok(t, "rules", "history", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	ok(t, "rules", "publish", seven)
	const want = "7 counts restart, because they move to other items: rules[0].limits.* (e0), "
	refused := func(args ...string) {
		t.Helper()
		before := len(history())
		code, out, errs := weir(t, args...)
		if code != 1 || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "--restart-counts") ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want exit 1 and one line with %q and --restart-counts", args, code, out, errs, want)
		}
		if len(history()) != before {
			t.Errorf("%q: got a new version, want none", args)
		}
	}
	refused("rules", "publish", twelve)
	if out := ok(t, "rules", "publish", twelve, "--restart-counts"); !strings.Contains(out, "\n"+want) {
		t.Errorf("publish: got %s, want a line with %q", out, want)
	}
	ok(t, "rules", "publish", endpoints(t, 13)) // with 13 endpoints, limits count in the same items as with 12, so no count restarts
	var put published
	if err := json.Unmarshal([]byte(ok(t, "rules", "publish", seven, "--restart-counts", "--json")), &put); err != nil ||
		len(put.Restarts) != 7 {
		t.Errorf("publish: got %+v, error %v, want 7 restarts", put, err)
	}
}

// Publish fails if another version was published at the same time.
func TestRules_conflict(t *testing.T) {
	recordsTable(t)
	put := func(requests int) (file string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":%d,"window":"1m"}}}]}`,
			requests), 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, "rules", "publish", file)
		return file
	}
	history := func() (all []rulestore.Version) {
		t.Helper()
		if err := json.Unmarshal([]byte(ok(t, "rules", "history", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := put(5)
	put(6)
	endpoint := os.Getenv("DYNAMODB_ENDPOINT")
	client, err := boot.Config{DynamoDBEndpoint: endpoint, Local: true}.DynamoDBClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	responses := 0
	newest := history()[0].Version
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.ModifyResponse = func(*http.Response) (err error) { // the proxy publishes a version between its read and its write
		responses++
		if responses == 2 { // after the rules of the deployment and those in force
			_, err = rulestore.New(client, os.Getenv("RECORDS_TABLE")).Publish(t.Context(), time.Now(), []byte(`{"rules":[]}`), "", newest, 0)
		}
		return err
	}
	door := httptest.NewServer(proxy)
	defer door.Close()
	t.Setenv("DYNAMODB_ENDPOINT", door.URL)
	if code, out, errs := weir(t, "rules", "publish", first); code != 1 || out != "" ||
		!strings.Contains(errs, "another version was published at the same time") {
		t.Errorf("got exit %d, output %q, stderr %q, want exit 1 and a message about the other version", code, out, errs)
	}
	if all := history(); len(all) != 3 {
		t.Errorf("history: got %+v, want 3 versions", all)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// weir rules publish rejects an invalid document without a call to AWS. It checks the document for
// every kind of store, because it does not know the store of the functions.
func TestRules_put_mistakes(t *testing.T) {
	t.Setenv("RECORDS_TABLE", "")
	bad := "../../limiter/rules/testdata/bad/five.json"
	_, want, _ := weir(t, "check", bad)
	if code, out, errs := weir(t, "rules", "publish", bad, "--table", "none"); code != 1 || out != want || errs != "" {
		t.Errorf("got exit %d, output %q, stderr %q, want the output of weir check: %q", code, out, errs, want)
	}
	var result checked
	if code, out, _ := weir(t, "rules", "publish", bad, "--json", "--table", "none"); code != 1 ||
		json.Unmarshal([]byte(out), &result) != nil || result.OK || len(result.Problems) != 5 {
		t.Errorf("--json: got exit %d, result %+v, want exit 1 and 5 problems", code, result)
	}
	// This leaky bucket lets a request wait longer than --max-delay.
	deep := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(deep, []byte(`{"rules":[{"endpoint":"*","cost":50,"limits":{"*":{"name":"q","requests":10,"window":"1s",`+
		`"algorithm":"leaky_bucket","burst":100}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := weir(t, "rules", "publish", deep, "--max-delay", "1s", "--table", "none"); code != 1 ||
		!strings.Contains(out, "cost: got 50, want at most 11") {
		t.Errorf("wait above --max-delay: got exit %d, output %q, want exit 1 and a cost of at most 11", code, out)
	}
	for want, args := range map[string][]string{
		"--table: required":                 {"rules", "history"},
		"want one of get, history, publish": {"rules", "delete"},
		"arguments: got none, want FILE":    {"rules", "publish"},
	} {
		if code, _, errs := weir(t, args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2 and %q", args, code, errs, want)
		}
	}
}

// Without a document in force no count restarts, and with one that cannot be parsed every count may.
func TestRulesOptions_compare(t *testing.T) {
	r, err := rules.Parse([]byte(`{"rules":[]}`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{"": "[]", `{"rules":[]}`: "[]", `{"rules":[{"limit":7}]}`: "[" + everyCount + "]"} {
		var result published
		err := (&rulesOptions{unlimited: true, restartCounts: true}).compare(&result, []byte(document), r, "f")
		if got := fmt.Sprint(result.Restarts); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", document, got, err, want)
		}
	}
	if got := restartText([]string{everyCount}); got != everyCount {
		t.Errorf("text for a document that cannot be parsed: got %q, want everyCount", got)
	}
}
