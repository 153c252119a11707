package identity_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/identity"
)

var (
	ctx     = context.Background()
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	address = netip.MustParseAddr("203.0.113.7")
	prefix  = netip.MustParsePrefix("203.0.113.7/32")
	secret  = []byte("0123456789abcdef")
)

// issuer signs tokens.
type issuer struct {
	id  string
	key crypto.Signer
	alg jose.SignatureAlgorithm
}

func newIssuer(t testing.TB, id string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{id, key, jose.ES256}
}

func (i issuer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.key.Public(), KeyID: i.id, Algorithm: string(i.alg), Use: "sig"}
}

func (i issuer) set(t testing.TB, more ...jose.JSONWebKey) []byte {
	t.Helper()
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: append([]jose.JSONWebKey{i.public()}, more...)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// claims are those of a valid token, with changes; a nil removes one.
func claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": "https://issuer.example", "aud": "weir", "sub": "alice", "tier": "paid", "org": "acme", "roles": []string{"x"},
		"exp": noon.Add(time.Hour).Unix(), "nbf": noon.Add(-time.Hour).Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (i issuer) token(t testing.TB, c map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: i.alg, Key: jose.JSONWebKey{Key: i.key, KeyID: i.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func verifier(t testing.TB, keys identity.KeySource) *identity.Verifier {
	t.Helper()
	v, err := identity.NewVerifier(identity.TokenOptions{Keys: keys, Issuer: "https://issuer.example", Audience: "weir", Algorithms: []string{"ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func keySet(t testing.TB, document []byte) *identity.KeySet {
	t.Helper()
	s, err := identity.ParseKeySet(document)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apiKeys(t testing.TB) *identity.APIKeys {
	t.Helper()
	list := fmt.Sprintf(`[{"id":"k1","hash":%q,"tier":"enterprise","owner":"acme"},{"id":"k2","hash":%q}]`,
		identity.HashAPIKey(secret, "key-one"), identity.HashAPIKey(secret, "key-two"))
	keys, err := identity.ParseAPIKeys([]byte(list), secret)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestIdentifier_Caller(t *testing.T) {
	i := newIssuer(t, "a")
	all := identity.New(identity.Options{Tokens: verifier(t, keySet(t, i.set(t))), APIKeys: apiKeys(t)})
	strict := identity.New(identity.Options{Tokens: verifier(t, keySet(t, i.set(t))), APIKeys: apiKeys(t), RequireCredential: true})
	none := identity.New(identity.Options{})
	good, noTier := "Bearer "+i.token(t, claims(nil)), "bearer "+i.token(t, claims(map[string]any{"tier": nil}))
	expired := "Bearer " + i.token(t, claims(map[string]any{"exp": noon.Add(-time.Hour).Unix()}))
	for _, c := range []struct {
		name       string
		identifier *identity.Identifier
		with       identity.Credentials
		want       string // user, key, tier, org
		err        error
	}{
		{"nobody", all, identity.Credentials{}, "   ", nil},
		{"token", all, identity.Credentials{Authorization: good}, "alice  paid acme", nil},
		{"API key", all, identity.Credentials{APIKey: "key-one"}, " k1 enterprise ", nil},
		{"API key without a tier", all, identity.Credentials{APIKey: "key-two"}, " k2  ", nil},
		{"both, the token's tier wins", all, identity.Credentials{Authorization: good, APIKey: "key-one"}, "alice k1 paid acme", nil},
		{"both, the token has no tier", all, identity.Credentials{Authorization: noTier, APIKey: "key-one"}, "alice k1 enterprise acme", nil},
		{"bad token", all, identity.Credentials{Authorization: expired}, "   ", limiter.ErrInvalidCredential},
		{"bad token, good API key", all, identity.Credentials{Authorization: expired, APIKey: "key-one"}, "   ", limiter.ErrInvalidCredential},
		{"good token, bad API key", all, identity.Credentials{Authorization: good, APIKey: "key-three"}, "   ", limiter.ErrInvalidCredential},
		{"endless API key", all, identity.Credentials{APIKey: strings.Repeat("x", 257)}, "   ", limiter.ErrInvalidCredential},
		{"empty bearer", all, identity.Credentials{Authorization: "Bearer"}, "   ", limiter.ErrInvalidCredential},
		{"another scheme", all, identity.Credentials{Authorization: "Basic YTpi"}, "   ", nil},
		{"credential required", strict, identity.Credentials{}, "   ", limiter.ErrMissingCredential},
		{"another scheme, credential required", strict, identity.Credentials{Authorization: "Basic YTpi"}, "   ", limiter.ErrMissingCredential},
		{"API key where one is required", strict, identity.Credentials{APIKey: "key-one"}, " k1 enterprise ", nil},
		{"credentials mean nothing", none, identity.Credentials{Authorization: expired, APIKey: "key-three"}, "   ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.with.Address = address
			got, err := c.identifier.Caller(ctx, noon, c.with)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			if text := fmt.Sprintf("%s %s %s %s", got.User, got.APIKey, got.Tier, got.Claims["org"]); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if got.Rejected != (err != nil) || got.IP != prefix {
				t.Errorf("rejected %t, address %s", got.Rejected, got.IP)
			}
		})
	}
}

func TestVerifier_Verify(t *testing.T) {
	i, stranger := newIssuer(t, "a"), newIssuer(t, "a")
	v := verifier(t, keySet(t, i.set(t)))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	body, err := json.Marshal(claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	good := i.token(t, claims(nil))
	pieces := strings.Split(good, ".")
	at := func(name string, d time.Duration) map[string]any {
		return claims(map[string]any{name: noon.Add(d).Unix()})
	}
	for _, c := range []struct {
		name, token string
		ok          bool
	}{
		{"good", good, true},
		{"one of several audiences", i.token(t, claims(map[string]any{"aud": []string{"x", "weir"}})), true},
		{"expired within the leeway", i.token(t, at("exp", -59*time.Second)), true},
		{"not yet valid within the leeway", i.token(t, at("nbf", 59*time.Second)), true},
		{"expired", i.token(t, at("exp", -61*time.Second)), false},
		{"not yet valid", i.token(t, at("nbf", 61*time.Second)), false},
		{"never expires", i.token(t, claims(map[string]any{"exp": nil})), false},
		{"another issuer", i.token(t, claims(map[string]any{"iss": "https://evil.example"})), false},
		{"no issuer", i.token(t, claims(map[string]any{"iss": nil})), false},
		{"another audience", i.token(t, claims(map[string]any{"aud": "other"})), false},
		{"no audience", i.token(t, claims(map[string]any{"aud": nil})), false},
		{"no user", i.token(t, claims(map[string]any{"sub": nil})), false},
		{"user is no text", i.token(t, claims(map[string]any{"sub": 42})), false},
		{"another key of the same id", stranger.token(t, claims(nil)), false},
		{"unknown key id", issuer{"b", i.key, i.alg}.token(t, claims(nil)), false},
		{"algorithm not pinned", issuer{"a", edKey, jose.EdDSA}.token(t, claims(nil)), false},
		{"alg none", part(`{"alg":"none","kid":"a"}`) + "." + part(string(body)) + ".", false},
		{"alg none, signed", part(`{"alg":"none","kid":"a"}`) + "." + pieces[1] + "." + pieces[2], false},
		{"shared secret", part(`{"alg":"HS256","kid":"a"}`) + "." + pieces[1] + "." + pieces[2], false},
		{"claims changed", pieces[0] + "." + part(strings.Replace(string(body), "alice", "admin", 1)) + "." + pieces[2], false},
		{"signature cut", good[:len(good)-4], false},
		{"two parts", pieces[0] + "." + pieces[1], false},
		{"nothing", "", false},
		{"endless", strings.Repeat("a", 9<<10), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := v.Verify(ctx, noon, c.token)
			if c.ok != (err == nil) {
				t.Fatalf("got error %v, want one: %t", err, !c.ok)
			}
			if err != nil && !errors.Is(err, limiter.ErrInvalidCredential) {
				t.Errorf("error %v is not ErrInvalidCredential", err)
			}
			if err != nil && c.token != "" && strings.Contains(err.Error(), c.token) {
				t.Errorf("the error tells the token: %v", err)
			}
			if c.ok && (got.User != "alice" || got.Tier != "paid" || got.Text["org"] != "acme") {
				t.Errorf("claims %+v", got)
			}
		})
	}
}

func TestNewVerifier(t *testing.T) {
	keys := keySet(t, newIssuer(t, "a").set(t))
	good := identity.TokenOptions{Keys: keys, Issuer: "i", Audience: "a", Algorithms: []string{"RS256", "EdDSA"}}
	if _, err := identity.NewVerifier(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*identity.TokenOptions){
		"token keys are missing":             func(o *identity.TokenOptions) { o.Keys = nil },
		"token issuer is missing":            func(o *identity.TokenOptions) { o.Issuer = "" },
		"token audience is missing":          func(o *identity.TokenOptions) { o.Audience = "" },
		"token algorithms are missing":       func(o *identity.TokenOptions) { o.Algorithms = nil },
		`token algorithm: got "HS256", want`: func(o *identity.TokenOptions) { o.Algorithms = []string{"HS256"} },
		`token algorithm: got "none", want`:  func(o *identity.TokenOptions) { o.Algorithms = []string{"none"} },
	} {
		o := good
		change(&o)
		if _, err := identity.NewVerifier(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestParseKeySet(t *testing.T) {
	i := newIssuer(t, "a")
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key, KeyID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	encryption := i.public()
	encryption.Use = "enc"
	for name, c := range map[string]struct {
		document string
		ok       bool
	}{
		"good":                   {string(i.set(t)), true},
		"one for something else": {string(i.set(t, encryption)), true},
		"private":                {string(private), false},
		"secret":                 {`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}`, false},
		"empty":                  {`{"keys":[]}`, false},
		"not JSON":               {`keys`, false},
		"too many":               {`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"oct","k":"c2VjcmV0"},`, 101), ",") + `]}`, false},
	} {
		if _, err := identity.ParseKeySet([]byte(c.document)); (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want one: %t", name, err, !c.ok)
		}
	}
	// Without a key id the only key that fits is taken, and of two none.
	nameless := issuer{"", i.key, i.alg}
	if _, err := verifier(t, keySet(t, i.set(t))).Verify(ctx, noon, nameless.token(t, claims(nil))); err != nil {
		t.Error(err)
	}
	if _, err := verifier(t, keySet(t, i.set(t, newIssuer(t, "b").public()))).Verify(ctx, noon, nameless.token(t, claims(nil))); !errors.Is(err, limiter.ErrInvalidCredential) {
		t.Errorf("two keys and no id: got error %v", err)
	}
}

// The issuer is asked once, again for a key id that is new, and left alone after
// that, whatever tokens come.
func TestRemoteKeys(t *testing.T) {
	first, second := newIssuer(t, "first"), newIssuer(t, "second")
	document, fetches, down := first.set(t), 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches++
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(document)
	}))
	defer server.Close()
	keys, err := identity.NewRemoteKeys(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	v := verifier(t, keys)
	now := noon
	check := func(i issuer, want error, wantFetches int) {
		t.Helper()
		c := claims(map[string]any{"exp": now.Add(time.Hour).Unix()})
		if _, err := v.Verify(ctx, now, i.token(t, c)); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("got error %v, want %v", err, want)
		}
		if fetches != wantFetches {
			t.Errorf("%d fetches, want %d", fetches, wantFetches)
		}
	}
	down = true
	check(first, limiter.ErrUnverified, 1)
	down = false
	check(first, limiter.ErrUnverified, 1) // cooling down
	now = now.Add(30 * time.Second)
	check(first, nil, 2)
	check(first, nil, 2)
	document = second.set(t, first.public())
	check(second, limiter.ErrInvalidCredential, 2) // cooling down
	now = now.Add(30 * time.Second)
	check(second, nil, 3)
	check(first, nil, 3)
	for range 5 {
		check(newIssuer(t, "forged"), limiter.ErrInvalidCredential, 3)
	}
	now = now.Add(2 * time.Hour)
	check(first, nil, 4) // no longer fresh
	now, down = now.Add(2*time.Hour), true
	check(first, nil, 5) // stale keys are better than none
}

func TestNewRemoteKeys(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://issuer.example/jwks.json": true, "http://127.0.0.1:1/x": true, "http://[::1]/x": true, "http://localhost/x": true,
		"http://issuer.example/jwks.json": false, "file:///etc/passwd": false, "://": false, "": false,
	} {
		if _, err := identity.NewRemoteKeys(address); (err == nil) != ok {
			t.Errorf("%q: got error %v, want one: %t", address, err, !ok)
		}
	}
}

func TestParseAPIKeys(t *testing.T) {
	hash := identity.HashAPIKey(secret, "k")
	for want, c := range map[string]struct{ list, secret string }{
		"API key secret: got 5 bytes, want at least 16":       {"[]", "short"},
		"API key records: json: unknown field \"key\"":        {`[{"id":"a","key":"k"}]`, string(secret)},
		"API key records: [0].id is missing":                  {`[{"hash":"` + hash + `"}]`, string(secret)},
		`API key records: [0].hash of "a" is not 64 lower`:    {`[{"id":"a","hash":"abc"}]`, string(secret)},
		`API key records: [1].hash of "b" is that of "a" too`: {`[{"id":"a","hash":"` + hash + `"},{"id":"b","hash":"` + hash + `"}]`, string(secret)},
	} {
		if _, err := identity.ParseAPIKeys([]byte(c.list), []byte(c.secret)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "203.0.113.7:4711": "203.0.113.7/32", "::ffff:203.0.113.7": "203.0.113.7/32", "[::ffff:203.0.113.7]:80": "203.0.113.7/32",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"": "invalid Prefix", "@": "invalid Prefix", "203.0.113.07": "invalid Prefix", "300.1.1.1": "invalid Prefix", "1.2.3.4, 5.6.7.8": "invalid Prefix",
	} {
		if got := identity.Prefix(identity.ParseAddress(text), 64).String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if got := identity.Prefix(netip.MustParseAddr("2001:db8:1:2:3::4"), 48).String(); got != "2001:db8:1::/48" {
		t.Errorf("48 bits: %s", got)
	}
	for want, headers := range map[string][]string{
		"203.0.113.7": {"10.0.0.1, 203.0.113.7"}, "203.0.113.8": {"10.0.0.1", "1.1.1.1,203.0.113.8"}, "invalid IP": {"10.0.0.1, "}, "203.0.113.9": {"203.0.113.9"},
	} {
		if got := identity.LastHop(headers).String(); got != want {
			t.Errorf("%q: got %s, want %s", headers, got, want)
		}
	}
	if identity.LastHop(nil).IsValid() {
		t.Error("an address from no header")
	}
	// Two spellings of one address are one subject.
	a, b := identity.ParseAddress("::ffff:203.0.113.7"), identity.ParseAddress("203.0.113.7:1")
	if limiter.IP(identity.Prefix(a, 64)) != limiter.IP(identity.Prefix(b, 64)) {
		t.Error("a mapped address is another caller")
	}
}

func FuzzVerify(f *testing.F) {
	i := newIssuer(f, "a")
	v := verifier(f, keySet(f, i.set(f)))
	good := i.token(f, claims(nil))
	f.Add(good)
	f.Add("a.b.c")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		if c, err := v.Verify(ctx, noon, token); err == nil && c.User != "alice" {
			t.Errorf("accepted %q as %q", token, c.User)
		}
	})
}
