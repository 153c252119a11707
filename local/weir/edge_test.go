package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter/storetest"
)

// cloud replaces the program aws, and returns the lines of its changes of a KeyValueStore. The first change meets a conflict,
// and no deletion finds its key.
func cloud(t *testing.T) (changes func() []string) {
	t.Helper()
	folder := t.TempDir()
	log := filepath.Join(folder, "log")
	program := "#!/bin/sh\n[ \"$2\" = describe-key-value-store ] && echo TAG && exit\n" +
		"[ -e " + log + " ] || { : >" + log + "; echo ConflictException >&2; exit 1; }\necho \"$@\" >>" + log + "\n" +
		"[ \"$2\" = put-key ] || { echo ResourceNotFoundException >&2; exit 1; }\n"
	if err := os.WriteFile(filepath.Join(folder, "aws"), []byte(program), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("WEIR_KEY_VALUE_STORE", "arn")
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// keyFile returns a file with an API key.
func keyFile(t *testing.T, key string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// With a KeyValueStore, the command writes the key of a block there, and deletes that of a block that it replaces or ends.
// If that fails, it writes nothing else.
func TestBlock_distribution(t *testing.T) {
	recordsTable(t)
	changes := cloud(t)
	first := keyFile(t, "weir_abc")
	ok(t, "block", "ip:2001:db8::7")
	ok(t, "block", "apikey:acme", "--key-from", first)
	ok(t, "block", "apikey:acme", "--key-from", first, "--for", "2h")
	ok(t, "block", "apikey:acme", "--key-from", keyFile(t, "weir_new"))
	ok(t, "block", "user:alice")
	ok(t, "unblock", "apikey:acme")
	key := func(subject string) string { return " --kvs-arn arn --key " + edgeKey(subject) }
	want := []string{"put-key" + key("ip:2001:db8::/64") + " --value ", "put-key" + key("apikey:weir_abc") + " --value ",
		"put-key" + key("apikey:weir_abc") + " --value ", "put-key" + key("apikey:weir_new") + " --value ",
		"delete-key" + key("apikey:weir_abc") + " --if-match TAG", "delete-key" + key("apikey:weir_new") + " --if-match TAG"}
	lines := changes()
	for i := range want {
		if len(lines) != len(want) || !strings.HasPrefix(lines[i], "cloudfront-keyvaluestore "+want[i]) {
			t.Fatalf("got %q, want %q as line %d of %d", lines, want[i], i+1, len(want))
		}
	}
	t.Setenv("IPV6_BITS", "32")
	for args, want := range map[string]string{"block apikey:acme": "--key-from",
		"block ip:2001:db8:7::1": "networks of 64 bits, got 2001:db8::/32"} {
		if code, _, errs := weir(t, strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: got exit %d, %q, want %q", args, code, errs, want)
		}
	}
	t.Setenv("IPV6_BITS", "")
	t.Setenv("WEIR_KEY_VALUE_STORE", "")
	if code, _, errs := weir(t, "unblock", "ip:2001:db8::7"); code != 2 || !strings.Contains(errs, "--key-value-store") {
		t.Errorf("unblock without the distribution: got exit %d, %q", code, errs)
	}
	t.Setenv("PATH", t.TempDir())
	before := ok(t, "block")
	if code, _, errs := weir(t, "block", "ip:203.0.113.9", "--key-value-store", "arn"); code != 1 ||
		!strings.Contains(errs, "the distribution: ") || ok(t, "block") != before {
		t.Errorf("without the program aws: got exit %d, %q, and the list\n%s, want an error and no change", code, errs, ok(t, "block"))
	}
}

// The function of the distribution refuses whom the command blocks: both make the same key of a caller.
func TestBlock_viewer(t *testing.T) {
	program := storetest.Server(t, "njs", "WEIR_NJS")
	recordsTable(t)
	changes := cloud(t)
	type request struct{ ip, key string }
	var script strings.Builder
	script.WriteString(edge.Viewer() + "\nasync function all() {\nlet r;\n")
	var wants []string
	for _, c := range []struct {
		block   []string
		request request
		want    string
	}{
		{[]string{"ip:203.0.113.7"}, request{"203.0.113.7", ""}, "403"},
		{[]string{"ip:::ffff:203.0.113.8"}, request{"203.0.113.8", ""}, "403"},
		{[]string{"ip:2001:db8::7"}, request{"2001:0db8:0000:0:1:2:3:4", ""}, "403"},
		{[]string{"ip:2001:DB8:0:a::"}, request{"2001:db8::a:0:0:0:1", ""}, "403"},
		{[]string{"ip:0:0:0:1::/64"}, request{"::1:0:0:0:9", ""}, "403"},
		{[]string{"apikey:acme", "--key-from", keyFile(t, "weir_abc")}, request{"192.0.2.1", "weir_abc"}, "403"},
		{[]string{"apikey:other", "--key-from", keyFile(t, "sk_live=Ünicode")}, request{"192.0.2.1", "sk_live=Ünicode"}, "403"},
		{nil, request{"203.0.113.9", "weir_abd"}, "undefined"},
	} {
		if c.block != nil {
			ok(t, append([]string{"block"}, c.block...)...)
		}
		headers := map[string]any{}
		if c.request.key != "" {
			headers["x-api-key"] = map[string]string{"value": c.request.key}
		}
		event := storetest.Must(json.Marshal(map[string]any{"viewer": map[string]string{"ip": c.request.ip},
			"request": map[string]any{"headers": headers}}))
		script.WriteString("r = await handler(" + string(event) + ");\nconsole.log(r.statusCode);\n")
		wants = append(wants, c.want)
	}
	entries, folder := map[string]string{}, t.TempDir()
	for _, line := range changes() {
		fields := strings.Fields(line) // cloudfront-keyvaluestore put-key --kvs-arn arn --key KEY --value END
		entries[fields[5]] = fields[7]
	}
	stub := `const entries = ` + string(storetest.Must(json.Marshal(entries))) + `;
export default {kvs: function () { return {get: function (key) {
  return key in entries ? Promise.resolve(entries[key]) : Promise.reject(new Error('KeyNotFound'));
}}; }};`
	for name, content := range map[string]string{"cloudfront": stub, "main.js": script.String() + "}\nall();\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "-p", folder, filepath.Join(folder, "main.js")).CombinedOutput()
	if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, wants) {
		t.Errorf("got %q, %v, want %q", got, err, wants)
	}
}
