package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// TestMain runs the program itself if a test started this binary as weir.
func TestMain(m *testing.M) {
	if !commandtest.Main(main) {
		m.Run()
	}
}

// weir runs a command line and returns its exit status and output.
func weir(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command.Execute(t.Context(), rootCommand(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheck(t *testing.T) {
	good, bad := "../serve/testdata/design.json", "../../limiter/rules/testdata/bad/five.json"
	ok := good + ": ok, 2 rules, tiers: enterprise, free, paid\n  a request writes at most 2 items of the store, for example a request to " +
		"/api/v1/data\n" +
		"  note: line 6: rules[1].limits: this rule has no limit for callers of tier enterprise or paid\n" +
		"  note: line 8: rules[1].limits.global: more than 500 requests a second: on DynamoDB each environment admits a share of the limit " +
		"that follows its share of the demand. The sum stays within 5 % of the limit, except for some seconds after demand rises. Callers " +
		"never exceed a limit with the field lease\n"
	if code, out, _ := weir(t, "check", good); code != 0 || out != ok {
		t.Errorf("valid document: got exit %d, output %q, want exit 0 and %q", code, out, ok)
	}
	code, out, _ := weir(t, "check", bad)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 1 || len(lines) != 5 {
		t.Fatalf("five mistakes: got exit %d, output %q, want exit 1 and 5 lines", code, out)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, bad+":2: rules[0].") {
			t.Errorf("problem: got %q, want a line that begins with the file, the line number and the path", line)
		}
	}
	var result checked
	code, out, _ = weir(t, "check", "--json", bad)
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 1 || result.OK || len(result.Problems) != 5 ||
		result.Problems[0].Path != "rules[0].endpoint" {
		t.Errorf("JSON: got exit %d, error %v, output %q, want exit 1 and 5 problems", code, err, out)
	}
	code, out, _ = weir(t, "check", "--json", "nowhere.json")
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 1 || result.OK || result.File != "nowhere.json" ||
		len(result.Problems) != 1 {
		t.Errorf("missing file, JSON: got exit %d, error %v, output %q, want exit 1 and one problem", code, err, out)
	}
	for document, want := range map[string]string{
		`{"rules":[]}`: "-: ok, 0 rules: nothing is limited\n",
		`{"rules":[{"endpoint":"*","limits":{"*":{"requests":1,"window":"1m"}}}]}`: "-: ok, 1 rule\n" +
			"  a request writes at most 1 item of the store, for example a request to /{}\n",
		"\ufeff{}": "-:1:1: the document begins with a byte order mark; save it as UTF-8 without the mark\n",
	} {
		var out bytes.Buffer
		c := rootCommand()
		c.SetArgs([]string{"check", "-"})
		c.SetIn(strings.NewReader(document))
		c.SetOut(&out)
		err := c.ExecuteContext(t.Context())
		if out.String() != want || (err == nil) != strings.Contains(want, "ok") {
			t.Errorf("%q: got error %v, output %q, want %q", document, err, &out, want)
		}
	}
	if code, _, errs := weir(t, "check", "--again", "x", "nowhere.json"); code != 2 ||
		!strings.HasPrefix(errs, "weir: unknown flag: --again (did you mean \"against\"?)\n") {
		t.Errorf("misspelled flag: got exit %d, stderr %q, want exit 2 and the flag", code, errs)
	}
	if code, _, errs := weir(t, "check", "nowhere.json"); code != 1 || strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, "nowhere.json") {
		t.Errorf("missing file: got exit %d, stderr %q, want exit 1 and one line with the file", code, errs)
	}
}

// With --against, weir check prints the limits whose counts restart.
func TestCheck_against(t *testing.T) {
	seven, twelve := endpoints(t, 7), endpoints(t, 12)
	const restart = "  7 counts restart, because they move to other items: rules[0].limits.* (e0), rules[1].limits.* (e1), " +
		"rules[2].limits.* (e2)"
	if code, out, _ := weir(t, "check", twelve); code != 0 || strings.Contains(out, "restart") ||
		!strings.Contains(out, "note: line 1: rules: the limits of one caller do not fit one item") {
		t.Errorf("without --against: got exit %d, output %s, want exit 0, a note, and no restarts", code, out)
	}
	if code, out, _ := weir(t, "check", "--against", seven, twelve); code != 0 || !strings.Contains(out, restart) {
		t.Errorf("against seven endpoints: got exit %d, output %s, want exit 0 and %q", code, out, restart)
	}
	if code, out, _ := weir(t, "check", "--against", twelve, endpoints(t, 13)); code != 0 || strings.Contains(out, "restart") {
		t.Errorf("against twelve endpoints: got exit %d, output %s, want exit 0 and no restarts", code, out)
	}
	two, three := `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":9,"window":"1d","shards":2}}}]}`,
		filepath.Join(t.TempDir(), "three.json")
	before := filepath.Join(t.TempDir(), "two.json")
	if err := errors.Join(os.WriteFile(before, []byte(two), 0o600), os.WriteFile(three, []byte(strings.Replace(two, `:2}`, `:3}`, 1)),
		0o600)); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := weir(t, "check", "--against", before, three); !strings.Contains(out,
		"  1 count restarts, because it moves to another item: rules[0].limits.* (a)\n") {
		t.Errorf("one count: got %s, want 1 count restarts", out)
	}
	var result checked
	code, out, _ := weir(t, "check", "--json", "--against", twelve, seven)
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || len(result.Restarts) != 7 {
		t.Errorf("JSON: got exit %d, error %v, output %s, want exit 0 and 7 restarts", code, err, out)
	}
	if code, out, errs := weir(t, "check", "--against", "../../limiter/rules/testdata/bad/five.json", seven); code != 1 || out != "" ||
		!strings.Contains(errs, "--against: ") {
		t.Errorf("against an invalid document: got exit %d, output %s, stderr %s, want exit 1 and a problem of --against", code, out, errs)
	}
}

// An interrupt ends a command that waits for input, and a command that computes. The exit status is
// 130, and no error is printed.
func TestInterrupt(t *testing.T) {
	checkouttest.Scratch(t)
	typing, never, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = typing
	t.Cleanup(func() { os.Stdin = stdin; _ = never.Close(); _ = typing.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"check", "-"}, {"check", "-", "--json"}, {"rules", "publish", "-", "--table", "x"}, {"why", "user:a"}, {"usage", "user:a"},
	} {
		var out, errs bytes.Buffer
		code := command.Execute(ctx, rootCommand(), args, &out, &errs)
		if code != command.Interrupted || strings.Contains(errs.String(), "context canceled") {
			t.Errorf("%q: got exit %d, output %q, stderr %q, want exit %d and no error", args, code, &out, &errs, command.Interrupted)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"check"}, {"check", "a", "b"}, {"frobnicate"}, {"serve", "--prot", "1"}, {"serve", "x"},
		{"token", "--claim", "x"},
		{"serve", "--regions", "1"}, {"serve", "--regions", "11"}, {"serve", "--regions", "eu-central-1,us-east-1"}, {"serve", "--port", "0"},
		{"serve", "--port", "65535"}, {"serve", "--port", "-1"}, {"serve", "--port", "abc"}, {"token", "--user", ""},
		{"token", "--claim", "sub=bob"}, {"token", "--claim", "tier=gold"}} {
		if code, _, errs := weir(t, args...); code != 2 || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, "--help") {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2 and two lines with --help", args, code, errs)
		}
	}
	for want, args := range map[string][]string{
		"--edge: no longer exists; weir block and the":     {"check", "x", "--edge"},
		"hash: no longer exists; weir usage prints":        {"hash", "user:alice"},
		"rules rollback: no longer exists; weir rules get": {"rules", "rollback", "--to", "7"},
		"why --stack: no longer exists; the stack has":     {"why", "user:hash", "--stack=prod"},
		"reset --yes: no longer exists; the command asks":  {"reset", "user:a", "--yes"},
	} {
		if code, _, errs := weir(t, args...); code != 2 || !strings.HasPrefix(errs, "weir: "+want) {
			t.Errorf("%v: got exit %d, stderr %q, want exit 2 and %q", args, code, errs, want)
		}
	}
	if _, _, errs := weir(t, "serve", "--port", "abc"); errs != "weir: invalid argument \"abc\" for \"--port\" flag: want 1 to 65534\nTry: "+
		"weir serve --help\n" {
		t.Errorf("--port abc: got stderr %q, want the range of ports and the help", errs)
	}
	if _, _, errs := weir(t, "keys", "set", "acme", "--suspended=no"); errs != "weir: invalid argument \"no\" for \"--suspended\" flag: "+
		"want true or false\nTry: weir keys set --help\n" {
		t.Errorf("--suspended=no: got stderr %q, want the values and the help", errs)
	}
	if code, out, _ := weir(t, "--version"); code != 0 || !strings.HasPrefix(out, "weir version ") {
		t.Errorf("--version: got exit %d, output %q, want exit 0 and the version", code, out)
	}
	if code, out, _ := weir(t); code != 0 || !strings.Contains(out, "serve") {
		t.Errorf("no arguments: got exit %d, output %q, want exit 0 and the list of commands", code, out)
	}
}

// check --store reports a Redis server that evicts counts.
func TestCheck_store(t *testing.T) {
	address := storetest.Server(t, "redis", "REDIS_URL")
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	for _, policy := range []string{"allkeys-lru", "noeviction"} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if out := ok(t, "check", "--store", address, endpoints(t, 3)); strings.Contains(out, "note: --store: ") != (policy != "noeviction") ||
			strings.Contains(out, "maxmemory-policy is "+policy) != (policy != "noeviction") {
			t.Errorf("%s: got %s, want a note unless the server keeps all keys", policy, out)
		}
	}
	if code, _, errs := weir(t, "check", "--store", "dynamodb", endpoints(t, 3)); code != 2 || !strings.Contains(errs, "--store") {
		t.Errorf("another store: got exit %d, stderr %q, want exit 2", code, errs)
	}
}
