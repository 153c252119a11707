package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Import writes keys of JSON lines, which functions with FOREIGN_API_KEYS=accept accept. After a mistake it writes
// nothing. No output has a key.
func TestKeys_import(t *testing.T) {
	recordsTable(t)
	const first, second, third = "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "Zm9vYmFyYmF6cXV4MTIzNDU2", "b5f0cbb0-27a4-4e61-9d5e-1e8b9f5b8a9c"
	file := filepath.Join(t.TempDir(), "keys")
	run := func(text string, args ...string) (code int, out, errs string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs = weir(t, append([]string{"keys", "import", file}, args...)...)
		for _, key := range []string{first, second, third, "aaaaaaaaaaaaaaaa"} {
			if strings.Contains(out+errs, key) {
				t.Errorf("%s: got a key in %q and %q", text, out, errs)
			}
		}
		return code, out, errs
	}
	lines := `{"key":"` + first + `","id":"acme","tier":"paid"}` + "\n\n" + `{"sha256":"` + caller.DigestKey(second) +
		`","id":"bob","owner":"Bob"}` + "\n"
	for _, c := range []struct{ text, args, want string }{
		{"", "", "got no keys"},
		{"key,id\n" + first + ",acme\n", "", "key 1: want a JSON object"},
		{lines + `{"key":"` + first + `","name":"acme"}`, "", "key 3: want a JSON object with the members"},
		{lines + `{"key":"` + first + `","id":7}`, "", "key 3: want a JSON object with the members"},
		{lines + `{"key":"` + first + `"}`, "", "key 3: id: got"},
		{lines + `{"key":"aaaaaaaaaaaaaaaa","id":"carl"}`, "", "key 3: the key can be guessed: got about 0 bits of entropy, want at least 56; " +
			"give this caller a new key"},
		{strings.Replace(lines, "paid", "piad", 1), "", `tier: got "piad", want a tier that a rule names: enterprise, free or paid (did you ` +
			`mean "paid"?); default_tier free decides`},
		{lines, "--tier=piad", `tier: got "piad"`},
		{lines + `{"key":"` + first + `","id":"eve"}`, "", `key 3: got the id "eve", but the same key has the id "acme"`},
	} {
		if code, out, errs := run(c.text, strings.Fields(c.args)...); code != 1 || out != "" || !strings.Contains(errs, c.want) ||
			strings.Contains(ok(t, "keys", "list"), "acme") {
			t.Errorf("%s: got exit %d, output %q, stderr %q, want exit 1, %s and no new key", c.text, code, out, errs, c.want)
		}
	}
	if code, out, errs := run(lines, "--tier", "free"); code != 0 || errs != "" ||
		out != "imported 2 keys\nfunctions with FOREIGN_API_KEYS=accept use them within ten seconds\n" {
		t.Errorf("import: got exit %d, output %q, stderr %q, want two keys", code, out, errs)
	}
	if code, out, errs := run(lines+`{"key":"`+third+`","id":"acme"}`, "--json", "--tier", "free"); code != 0 || errs != "" ||
		strings.Count(out, `"id": "acme"`) != 1 || !strings.Contains(out, `"tier": "paid"`) {
		t.Errorf("one new key: got exit %d, output %q, stderr %q, want the new key of acme with its tier", code, out, errs)
	}
	for setting, want := range map[string]string{"ignore": "foreign", "refuse": "401", "accept": "acme paid"} {
		if got := identified(t, setting, first); got != want {
			t.Errorf("FOREIGN_API_KEYS=%s, imported key: got %q, want %q", setting, got, want)
		}
	}
	for setting, want := range map[string]string{"ignore": "foreign", "refuse": "401", "accept": "401"} {
		if got := identified(t, setting, first+"x"); got != want {
			t.Errorf("FOREIGN_API_KEYS=%s, another foreign key: got %q, want %q", setting, got, want)
		}
	}
	if got := identified(t, "accept", second); got != "bob free" {
		t.Errorf("key that was imported by its hash: got %q, want bob", got)
	}
}

// identified returns who sends a request with an API key, for functions with a setting of foreign keys.
func identified(t *testing.T, foreign, key string) string {
	t.Helper()
	values := map[string]string{
		"FOREIGN_API_KEYS": foreign, "RECORDS_TABLE": os.Getenv("RECORDS_TABLE"), "DYNAMODB_ENDPOINT": os.Getenv("DYNAMODB_ENDPOINT"),
		"WEIR_LOCAL": "true",
		"STORE":      "memory:", "NAMESPACE": "test", "RULES_FILE": "../../functions/rules.json", "RULES_VERSION": "1",
	}
	config, err := clients.Load(func(name string) (string, bool) { v, ok := values[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	e, err := config.Environment(t.Context(), storetest.Must(memstore.New(memstore.Options{})),
		boot.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{APIKey: key})
	switch {
	case errors.Is(err, caller.ErrInvalidCredential):
		return "401"
	case err != nil:
		t.Fatal(err)
	case who.ForeignKey:
		return "foreign"
	}
	return who.APIKey + " " + who.Tier
}
