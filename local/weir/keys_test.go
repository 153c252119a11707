package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
)

// recordsTable creates a records table and sets RECORDS_TABLE to its name. lookup reads the record
// of a key without a cache.
func recordsTable(t *testing.T) (lookup func(key string) (caller.Record, error)) {
	t.Helper()
	client, err := boot.Config{DynamoDBEndpoint: storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), Local: true}.DynamoDBClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := "weir-test-" + rand.Text()
	if _, err := client.CreateTable(t.Context(), records.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("RECORDS_TABLE", table)
	t.Setenv("NAMESPACE", checkouttest.Namespace())
	return func(key string) (caller.Record, error) {
		return caller.NewRemoteRecords(apikeys.NewTable(records.NewTable(client, table))).Lookup(t.Context(), time.Now(), key)
	}
}

// ok runs a command line, which must exit with 0 and print no errors. It returns the output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := weir(t, args...)
	if code != 0 || errs != "" {
		t.Fatalf("%v: got exit %d, output %q, stderr %q, want exit 0 and no errors", args, code, out, errs)
	}
	return out
}

// createKey creates a key, which the standard output has alone. The standard error has the other text.
func createKey(t *testing.T, args ...string) (key, text string) {
	t.Helper()
	code, key, text := weir(t, append([]string{"keys", "create"}, args...)...)
	key = strings.TrimSuffix(key, "\n")
	if code != 0 || !strings.HasPrefix(key, "weir_") || strings.ContainsAny(key, " \n") || !strings.Contains(text, "Save the key") {
		t.Fatalf("create %v: got exit %d, output %q, stderr %q, want a key alone, and a text on the standard error", args, code, key, text)
	}
	return key, text
}

// Create prints a new key; list never prints a key. A key is valid until it is revoked. --id sets
// the id of a key.
func TestKeys(t *testing.T) {
	lookup := recordsTable(t)
	if out := ok(t, "keys", "list"); !strings.HasPrefix(out, "no API keys in weir-test-") {
		t.Errorf("empty table: got %q, want a line that there are no API keys", out)
	}
	if out := ok(t, "keys", "list", "--json"); out != "[]\n" {
		t.Errorf("empty table, --json: got %q, want []", out)
	}
	first, _ := createKey(t, "--id", "acme", "--tier", "paid", "--owner", "Acme Ltd.")
	if r, err := lookup(first); err != nil || r.ID != "acme" || r.Tier != "paid" || r.Owner != "Acme Ltd." {
		t.Errorf("record of the key: got %+v, error %v, want id acme, tier paid and the owner", r, err)
	}
	if code, out, errs := weir(t, "keys", "create", "--id", "acme"); code != 1 || out != "" ||
		errs != "weir: \"acme\": the id already has a key; add a second key with --add, or choose another --id\n" {
		t.Errorf("duplicate id: got exit %d, output %q, stderr %q, want exit 1 and the remedy --add", code, out, errs)
	}
	var made struct{ ID, Tier, Hash, APIKey string }
	if err := json.Unmarshal([]byte(ok(t, "keys", "create", "--id", "acme", "--add", "--json")), &made); err != nil || made.ID != "acme" ||
		made.Tier != "paid" || made.Hash == "" {
		t.Fatalf("second key: got %+v, error %v, want a key with id acme and tier paid", made, err)
	}
	if r, err := lookup(made.APIKey); err != nil || r.ID != "acme" || r.Tier != "paid" {
		t.Errorf("second key: got record %+v, error %v, want id acme and tier paid", r, err)
	}
	var random struct{ ID, APIKey string }
	if err := json.Unmarshal([]byte(ok(t, "keys", "create", "--json")), &random); err != nil || !strings.HasPrefix(random.ID, "key-") {
		t.Errorf("random id: got %+v, error %v, want an id that begins with key-", random, err)
	}
	list := ok(t, "keys", "list")
	if lines := strings.Split(list, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "ID ") || !strings.HasPrefix(lines[1], "acme ") ||
		!strings.HasPrefix(lines[3], "key-") {
		t.Errorf("list: got %q, want a header and the keys, with acme before key-", list)
	}
	for _, key := range []string{first, made.APIKey, random.APIKey} {
		if strings.Contains(list, key) || strings.Contains(ok(t, "keys", "list", "--json"), key) {
			t.Error("list: got an API key in the output, want none")
		}
	}
	if out := ok(t, "keys", "set", "acme", "--suspended"); strings.Count(out, ": suspended\n") != 2 {
		t.Errorf("suspend: got %q, want two suspended keys", out)
	}
	if r, err := lookup(first); err != nil || !r.Suspended || strings.Count(ok(t, "keys", "list"), " suspended ") != 2 {
		t.Errorf("suspended key: got record %+v, error %v, want it suspended", r, err)
	}
	var lifted []apikeys.Key
	if err := json.Unmarshal([]byte(ok(t, "keys", "set", "acme", "--suspended=false", "--json")), &lifted); err != nil || len(lifted) != 2 ||
		lifted[0].Suspended {
		t.Errorf("lift: got %+v, error %v, want two active keys", lifted, err)
	}
	if out := ok(t, "keys", "set", "acme", "--suspended=false"); out != "acme: no change\n" {
		t.Errorf("lift again: got %q, want no change", out)
	}
	if code, _, errs := weir(t, "keys", "set", "nobody", "--suspended"); code != 1 || errs != "weir: \"nobody\": no such key\n" {
		t.Errorf("suspend of an unknown id: got exit %d, stderr %q, want exit 1", code, errs)
	}
	if code, _, errs := weir(t, "keys", "set", "acme"); code != 2 || !strings.Contains(errs, "flags: got none, want --limit") {
		t.Errorf("set without a flag: got exit %d, stderr %q, want exit 2", code, errs)
	}
	if out := ok(t, "keys", "revoke", "acme", "--hash", made.Hash); !strings.HasPrefix(out, "revoked acme, hash "+made.Hash) ||
		strings.Count(out, "\n") != 2 {
		t.Errorf("revoke: got %q, want one revoked key of acme", out)
	}
	if _, err := lookup(made.APIKey); err == nil {
		t.Error("lookup of a revoked key: got a record, want an error")
	}
	if _, err := lookup(first); err != nil {
		t.Error(err)
	}
	var revoked []apikeys.Key
	if err := json.Unmarshal([]byte(ok(t, "keys", "revoke", "acme", "--json")), &revoked); err != nil || len(revoked) != 1 ||
		revoked[0].ID != "acme" {
		t.Errorf("revoke of an id: got %+v, error %v, want one record of acme", revoked, err)
	}
	if out := ok(t, "keys", "revoke", random.ID, "--json"); !strings.Contains(out, random.ID) {
		t.Errorf("revoke: got %q, want the id of the key", out)
	}
	if code, out, _ := weir(t, "keys", "revoke", "nobody", "--json"); code != 1 || out != "[]\n" {
		t.Errorf("revoke of an unknown id: got exit %d, output %q, want exit 1 and []", code, out)
	}
	if code, _, errs := weir(t, "keys", "revoke", "acme"); code != 1 || errs != "weir: \"acme\": no such key\n" {
		t.Errorf("second revoke: got exit %d, stderr %q, want exit 1 and no such key", code, errs)
	}
}

func TestKeys_mistakes(t *testing.T) {
	t.Setenv("RECORDS_TABLE", "")
	for _, args := range [][]string{{"keys", "list"}, {"keys", "spin"}, {"keys", "create", "x"}, {"keys", "revoke"}, {"keys", "revoke", ""},
		{"keys", "revoke", "a", "b"}, {"keys", "create", "--table", "t", "--add"}, {"keys", "set", "acme", "--suspended=no"}} {
		if code, _, errs := weir(t, args...); code != 2 || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, "--help") {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2 and two lines with --help", args, code, errs)
		}
	}
	for want, region := range map[string]string{"weir: AWS_REGION: required: ": "", "weir: no AWS credentials; ": "eu-central-1"} {
		t.Run(region, func(t *testing.T) {
			for _, name := range []string{"DYNAMODB_ENDPOINT", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
				t.Setenv(name, "")
			}
			t.Setenv("HOME", t.TempDir())
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			t.Setenv("AWS_REGION", region)
			if code, _, errs := weir(t, "keys", "list", "--table", "weir"); code != 1 || strings.Count(errs, "\n") != 1 ||
				!strings.HasPrefix(errs, want) {
				t.Errorf("got exit %d, stderr %q, want exit 1 and one line that begins with %q", code, errs, want)
			}
		})
	}
	storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")
	for want, args := range map[string][]string{
		`weir: --table: no table "weir-test-none" in this account`: {"keys", "list", "--table", "weir-test-none"},
		`weir: id: got "a b", want 1 to 64`:                        {"keys", "create", "--table", "weir-test-none", "--id", "a b"},
	} {
		if code, _, errs := weir(t, args...); code != 1 || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, want) {
			t.Errorf("%v: got exit %d, stderr %q, want exit 1 and one line that begins with %q", args, code, errs, want)
		}
	}
}

// If DynamoDB throttles the table, a command retries and prints its progress.
func TestKeysOptions_open(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("DYNAMODB_ENDPOINT", "")
	page, requests := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		switch requests++; {
		case requests == 1:
			w.WriteHeader(http.StatusInternalServerError)
		case page == 0:
			page++
			_, _ = io.WriteString(w, `{"Items":[{"pk":{"S":"apikey#a"},"id":{"S":"a"}}],"LastEvaluatedKey":{"pk":{"S":"apikey#a"}}}`)
		default:
			_, _ = io.WriteString(w, `{"Items":[{"pk":{"S":"apikey#b"},"id":{"S":"b"}}]}`)
		}
	}))
	defer server.Close()
	t.Setenv("DYNAMODB_ENDPOINT", server.URL)
	if code, out, errs := weir(t, "keys", "list", "--table", "weir"); code != 0 || strings.Count(out, "\n") != 3 ||
		errs != "weir: 1 keys read; reading more\n" {
		t.Errorf("got exit %d, output %q, stderr %q, want exit 0, three lines and a progress line", code, out, errs)
	}
}

// Create and set write no tier that the rules do not name.
func TestKeys_tier(t *testing.T) {
	recordsTable(t)
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"rules":[{"endpoint":"/a","limits":{"paid":{"requests":9,"window":"1m"},"*":{"requests":9,`+
		`"window":"1m"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	declared := filepath.Join(t.TempDir(), "declared.json")
	if err := os.WriteFile(declared,
		[]byte(`{"tiers":["free","paid"],"rules":[{"endpoint":"/a","limits":{"*":{"requests":9,"window":"1m"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text := document + `: tier: got "pade", want a tier that a rule names: paid (did you mean "paid"?); default_tier free decides`
	refused := "weir: " + text + "\n"
	createKey(t, "--id", "acme", "--tier", "paid", "--rules", document)
	create, set := []string{"keys", "create", "--id", "other", "--tier", "pade", "--rules", document}, []string{"keys", "set", "acme",
		"--tier", "pade", "--rules", document}
	for _, args := range [][]string{create, set} {
		if code, out, errs := weir(t, args...); code != 1 || out != "" || errs != refused {
			t.Errorf("%v: got exit %d, output %q, stderr %q, want exit 1 and %q", args, code, out, errs, refused)
		}
		if list := ok(t, "keys", "list"); strings.Contains(list, "pade") {
			t.Errorf("%v: got the tier in %q, want no change", args, list)
		}
	}
	for _, tier := range []string{"paid", "free", ""} {
		ok(t, "keys", "set", "acme", "--tier", tier, "--rules", document)
	}
	if code, out, errs := weir(t, "keys", "set", "acme", "--tier", "pade", "--rules", declared); code != 1 || out != "" || errs != "weir: "+
		declared+`: tier: got "pade", want a tier of "tiers": free or paid (did you mean "paid"?); default_tier free decides`+"\n" {
		t.Errorf("set of a tier that is not declared: got exit %d, output %q, stderr %q, want exit 1 and one error", code, out, errs)
	}
	if code, _, errs := weir(t, "keys", "create", "--id", "new", "--tier", "Paid", "--rules", declared); code != 1 ||
		!strings.Contains(errs, `got "Paid"`) || strings.Contains(ok(t, "keys", "list"), "new") {
		t.Errorf("create with a tier that is not declared: got exit %d, stderr %q, want exit 1 and no key", code, errs)
	}
	ok(t, "keys", "set", "acme", "--tier", "paid", "--rules", declared)
	if code, out, errs := weir(t, "keys", "set", "acme", "--tier", "pade", "--rules", "none.json"); code != 1 || out != "" ||
		!strings.HasPrefix(errs, "weir: --rules: open none.json: ") {
		t.Errorf("set with a missing document: got exit %d, output %q, stderr %q, want exit 1", code, out, errs)
	}
	t.Chdir(t.TempDir()) // outside a checkout, nothing names the tiers
	if code, _, errs := weir(t, "keys", "set", "acme", "--tier", "pade"); code != 0 ||
		!strings.Contains(errs, "weir: warning: found no rules, so tiers and limits are not checked") {
		t.Errorf("without rules: got exit %d, stderr %q, want exit 0 and a warning", code, errs)
	}
}

// Create and set write limits that fit the rules, and list shows them. After a mistake, they print
// one error and write nothing.
func TestKeys_limits(t *testing.T) {
	lookup := recordsTable(t)
	document := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(document, []byte(`{"rules":[{"endpoint":"/a","limits":{"*":[{"name":"search","requests":9,"window":"1m"},
		{"name":"month","requests":9,"period":"month"},{"name":"people","requests":9,"window":"1m","per":["user"]}]}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	key, text := createKey(t, "--id", "acme", "--limit", "month=2000000", "--anchor", "31", "--rules", document)
	if r, err := lookup(key); err != nil || r.Limits.String() != "month=2000000 anchor=31" ||
		!strings.Contains(text, "limits month=2000000 anchor=31") {
		t.Errorf("create: got %+v, %v, text %q; want the limits", r, err, text)
	}
	set := func(args ...string) []string {
		return append([]string{"keys", "set", "acme", "--rules", document}, args...)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--limit", "search=5", "--limit", "search=6"}, 2, "--limit: got two limits search, want one"},
		{[]string{"--limit", "search=0"}, 2, "requests: out of range (got 0, want 1 to 999999999999999)"},
		{[]string{"--anchor", "monday"}, 1, "anchor: got monday, but no limit"},
		{[]string{"--limit", "serch=5"}, 1, `(did you mean "search"?)`},
		{[]string{"--limit", "people=5"}, 1, "limit people: no limit of this name counts by apikey, want "},
		{[]string{"--limit", "month=5/1h"}, 1, "limit month: got the window 1h, want only a number"},
	} {
		if code, out, errs := weir(t, set(c.args...)...); code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: got exit %d, output %q, stderr %q; want exit %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	if r, err := lookup(key); err != nil || r.Suspended || r.Limits.String() != "month=2000000 anchor=31" {
		t.Errorf("after mistakes: got %+v, %v; want the first limits", r, err)
	}
	if out := ok(t, set("--limit", "search=5000/1m", "--tier", "paid")...); !strings.Contains(out,
		": active, tier paid, limits month=2000000 search=5000/1m anchor=31\n") {
		t.Errorf("set: got %q, want the tier and the limits", out)
	}
	var list []apikeys.Key
	if _, out, _ := weir(t, "keys", "list", "--json"); json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 ||
		list[0].Limits.String() != "month=2000000 search=5000/1m anchor=31" {
		t.Errorf("list --json: got %+v, want the limits", list)
	}
	if out := ok(t, "keys", "list"); !strings.Contains(out, "month=2000000 search=5000/1m anchor=31") {
		t.Errorf("list: got %q, want the limits", out)
	}
	ok(t, "rules", "publish", document, "--table", os.Getenv("RECORDS_TABLE"))
	ok(t, "keys", "list")
	if _, _, errs := weir(t, "keys", "set", "acme", "--limit", "serch=5"); !strings.Contains(errs, "limits do not fit version ") {
		t.Errorf("set with published rules: got %q, want an error about the version", errs)
	}
	ok(t, "keys", "set", "acme", "--limit", "search=", "--anchor", "")
	if out := ok(t, "keys", "set", "acme", "--no-limits"); !strings.Contains(out, ": active, no limits of its own\n") {
		t.Errorf("remove: got %q, want no limits", out)
	}
	if code, _, errs := weir(t, "keys", "create", "--id", "acme", "--add", "--limit", "search=5"); code != 2 ||
		!strings.Contains(errs, "--add: got limits") {
		t.Errorf("add with limits: got exit %d, %q; want exit 2", code, errs)
	}
}
