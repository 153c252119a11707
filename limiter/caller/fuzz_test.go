package caller_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
)

// FuzzParseKeySet searches for a key set that breaks the parser or yields an unusable key.
func FuzzParseKeySet(f *testing.F) {
	i := newIssuer(f, "a")
	f.Add(i.set(f), "a", "ES256")
	for _, set := range []string{
		`{"keys":[{"kty":"RSA","kid":"r","e":"AQAB","n":"AQAB"}]}`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}`, `{"keys":[{"kty":"oct","k":"AA"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-521","kid":1}]}`, `{"keys":[null,[],{}]}`, `{"keys":[{"kty":"RSA","x5c":["AA"]}]}`, `{"keys":1}`, ``,
	} {
		f.Add([]byte(set), "", "RS256")
	}
	good := i.token(f, claims(nil))
	f.Fuzz(func(t *testing.T, document []byte, id, algorithm string) {
		set, err := caller.ParseKeySet(document)
		if err != nil {
			return
		}
		if !json.Valid(document) {
			t.Fatal("got no error for a text that is not JSON, want an error")
		}
		key, err := set.Key(ctx, noon, id, algorithm)
		if err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("got error %v, want ErrInvalidCredential or none", err)
		}
		if err == nil && (!key.IsPublic() || id != "" && key.KeyID != id || strings.HasPrefix(algorithm, "HS")) {
			t.Errorf("%q %s: got %+v, want a public key with this ID", id, algorithm, key)
		}
		_, _ = verifier(t, set).Verify(ctx, noon, good)
	})
}

// FuzzParseAPIKeys searches for a list of records that breaks the parser, or that makes a key without a
// record valid.
func FuzzParseAPIKeys(f *testing.F) {
	f.Add([]byte(`[{"id":"a","tier":"paid","owner":"o","hash":"`+caller.HashAPIKey(secret, "k")+`"}]`), "k")
	f.Add([]byte(`[{"id":"","hash":""}]`), "")
	f.Add([]byte(`[{}]{`), "\x00")
	f.Fuzz(func(t *testing.T, list []byte, key string) {
		keys, err := caller.ParseAPIKeys(list, secret)
		if err != nil {
			return
		}
		record, err := keys.Lookup(ctx, noon, key)
		if err == nil && (record.ID == "" || record.Hash != caller.HashAPIKey(secret, key) || !strings.Contains(string(list), record.Hash[:8])) {
			t.Errorf("key %q: got %+v, want no record", key, record)
		}
	})
}

// FuzzIdentifier_Caller searches for credentials that break the parser or identify the wrong caller.
func FuzzIdentifier_Caller(f *testing.F) {
	i := newIssuer(f, "a")
	good := i.token(f, claims(nil))
	source := newTable(string(secret))
	known := source.add(string(secret), "k")
	all := caller.New(caller.Options{Tokens: verifier(f, keySet(f, i.set(f))), APIKeys: caller.NewRemoteRecords(source)})
	for _, authorization := range []string{"", "Bearer " + good, "bearer  " + good, "Bearer", "BEARER ", "Basic YTpi", "Bearer " + good +
		", Bearer " + good, "Bearer\t" + good, good} {
		for _, key := range []string{"", known, known[:20], "weir_", known + ", " + known} {
			f.Add(authorization, key, "203.0.113.7")
		}
	}
	f.Fuzz(func(t *testing.T, authorization, key, address string) {
		got, err := all.Caller(ctx, noon, caller.Credentials{Authorization: authorization, APIKey: key, Address: caller.ParseAddress(address)})
		if got.Rejected != (err != nil) || err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("got rejected %t and error %v, want both or neither, and only ErrInvalidCredential", got.Rejected, err)
		}
		if err != nil && (got.User != "" || got.APIKey != "" || got.Tier != "" || got.Claims != nil) {
			t.Errorf("rejected caller: got %+v, want only the address", got)
		}
		if got.User != "" && (got.User != "alice" || !strings.Contains(authorization, ".")) || got.APIKey != "" && key != known {
			t.Errorf("got %+v for %q and %q, want an identity only of a valid credential", got, authorization, key)
		}
	})
}

// FuzzAddress searches for an address that has two prefixes, or that is not in its prefix.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "::ffff:203.0.113.7", "[2001:db8::1]:80", "fe80::1%eth0", "10.0.0.1, 203.0.113.7",
		"1.2.3.4:99999", "[::]", "%", "for=1.2.3.4"} {
		f.Add(s, 64)
		f.Add(s, 128)
		f.Add(s, 0)
	}
	f.Fuzz(func(t *testing.T, s string, bits int) {
		bits &= 0x7f
		for _, addr := range []netip.Addr{caller.ParseAddress(s), caller.LastHop([]string{"192.0.2.1", s})} {
			prefix := caller.Prefix(addr, bits)
			if !addr.IsValid() {
				if prefix.IsValid() {
					t.Errorf("%q: got %s, want no address", s, prefix)
				}
				continue
			}
			if !prefix.Contains(addr.Unmap().WithZone("")) || prefix.Addr().Is4In6() || prefix.Addr().Zone() != "" || prefix != prefix.Masked() {
				t.Errorf("%q: got %s for %s, want a masked prefix that contains the address, without a zone", s, prefix, addr)
			}
			if again := caller.Prefix(caller.ParseAddress(addr.String()), bits); again != prefix {
				t.Errorf("%q: got %s, but %s for another spelling; want the same prefix", s, prefix, again)
			}
		}
	})
}
