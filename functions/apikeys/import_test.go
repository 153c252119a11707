package apikeys_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/caller"
)

const (
	foreign = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	other   = "Zm9vYmFyYmF6cXV4MTIzNDU2"
)

func imported(id, tier, key string) apikeys.Imported {
	return apikeys.Imported{Key: apikeys.Key{ID: id, Tier: tier}, Secret: key}
}

// Functions that accept foreign keys find imported ones, by the key or its SHA-256. Others make no call for them.
func TestKeys_Import(t *testing.T) {
	var function recordstest.Calls
	client, table := recordstest.Table(t, nil)
	keys := apikeys.New(client, table)
	reader := caller.NewRemoteRecords(apikeys.NewTable(records.NewTable(function.Client(client), table)))
	lookup := func(key string) (caller.Record, error) {
		accepting := caller.NewRemoteRecords(apikeys.NewTable(records.NewTable(client, table)))
		accepting.AcceptForeign = true
		return accepting.Lookup(ctx, noon, key)
	}
	own := caller.NewAPIKey() // of another region
	list := []apikeys.Imported{imported("acme", "paid", foreign), {Key: apikeys.Key{ID: "bob", Owner: "Bob"}, Digest: caller.DigestKey(other)},
		imported("acme", "", own), imported("acme", "", foreign)}
	made, err := keys.Import(ctx, noon, list, "")
	if err != nil || len(made) != 3 || made[0].ID != "acme" || made[2].Tier != "paid" || !made[0].Created.Equal(noon) {
		t.Fatalf("import: got %+v, %v; want three records, the second of acme with its tier", made, err)
	}
	for key, id := range map[string]string{foreign: "acme", other: "bob", own: "acme"} {
		if r, err := lookup(key); err != nil || r.ID != id {
			t.Errorf("lookup: got %+v, %v; want %s", r, err, id)
		}
	}
	for _, key := range []string{foreign + "x", caller.DigestKey(other), foreign[:15]} {
		if _, err := lookup(key); !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("another key: got %v, want ErrInvalidCredential", err)
		}
	}
	if _, err := reader.Lookup(ctx, noon, foreign); !errors.Is(err, caller.ErrInvalidCredential) || len(function.Keys()) > 0 {
		t.Errorf("without AcceptForeign: got %v and the calls %v, want ErrInvalidCredential and none", err, function.Keys())
	}
	if made, err := keys.Import(ctx, noon, list, ""); err != nil || len(made) != 0 {
		t.Errorf("import again: got %+v, %v; want no record", made, err)
	}
	if _, err := keys.Import(ctx, noon, []apikeys.Imported{imported("new", "", caller.NewAPIKey()), imported("eve", "", foreign)},
		""); err == nil || !strings.Contains(err.Error(), `key 2: got the id "eve", but the same key has the id "acme"`) {
		t.Errorf("another id for a key: got %v, want an error", err)
	}
	if all, err := keys.List(ctx); err != nil || len(all) != 3 {
		t.Errorf("list after a mistake: got %+v, %v; want three keys", all, err)
	}
	suspended := true
	if _, err := keys.Set(ctx, noon, "acme", apikeys.Change{Suspended: &suspended}); err != nil {
		t.Fatal(err)
	}
	if made, err := keys.Import(ctx, noon, []apikeys.Imported{imported("acme", "", other+"2")}, ""); err != nil || len(made) != 1 ||
		!made[0].Suspended {
		t.Errorf("another key of a suspended id: got %+v, %v; want it suspended", made, err)
	}
}

// A key must have a form that functions look up, and must not be guessable. Errors contain no part of the key.
func TestImported_Check(t *testing.T) {
	digest := caller.DigestKey(foreign)
	for _, c := range []struct {
		imported apikeys.Imported
		want     string
	}{
		{imported("acme", "paid", foreign), ""},
		{imported("acme", "", caller.NewAPIKey()), ""},
		{apikeys.Imported{Key: apikeys.Key{ID: "acme"}, Digest: digest}, ""},
		{imported("acme", "", "b5f0cbb0-27a4-4e61-9d5e-1e8b9f5b8a9c"), ""},
		{imported("a b", "", foreign), "id: got"},
		{imported("acme", "global", foreign), "tier: got"},
		{imported("acme", "", ""), "want a key or its SHA-256, but not both"},
		{apikeys.Imported{Key: apikeys.Key{ID: "acme"}, Secret: foreign, Digest: digest}, "but not both"},
		{apikeys.Imported{Key: apikeys.Key{ID: "acme"}, Digest: strings.ToUpper(digest)}, "sha256: want 64 lower-case"},
		{apikeys.Imported{Key: apikeys.Key{ID: "acme"}, Digest: digest[2:]}, "sha256: want 64 lower-case"},
		{imported("acme", "", foreign[:15]), "key: got 15 bytes, want 16 to 256"},
		{imported("acme", "", strings.Repeat(foreign, 9)), "key: got 288 bytes"},
		{imported("acme", "", foreign+" x"), "visible characters"},
		{imported("acme", "", foreign+",x"), "visible characters"},
		{imported("acme", "", foreign+"ü"), "visible characters"},
		{imported("acme", "", "weir_"+foreign), "with the prefix weir_"},
		{imported("acme", "", "0000000000000000000000000000000000000000"), "can be guessed"},
		{imported("acme", "", "abcabcabcabcabcabcabcabcabcabc"), "can be guessed"},
		{imported("acme", "", "1234567812345678"), "can be guessed: got about 48 bits"},
	} {
		err := c.imported.Check()
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q", c.imported, err, c.want)
		}
		if err != nil && c.imported.Secret != "" && strings.Contains(err.Error(), c.imported.Secret) {
			t.Errorf("%v: got the key in the error", err)
		}
	}
}
