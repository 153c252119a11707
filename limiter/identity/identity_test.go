package identity_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// longKey is an API key of the greatest length.
var longKey = strings.Repeat("x", 256)

func apiKeys(t testing.TB) *identity.APIKeys {
	t.Helper()
	list := fmt.Sprintf(`[{"id":"k1","hash":%q,"tier":"enterprise","owner":"acme"},{"id":"k2","hash":%q},{"id":"long","hash":%q},{"id":"longer","hash":%q}]`,
		identity.HashAPIKey(secret, "key-one"), identity.HashAPIKey(secret, "key-two"), identity.HashAPIKey(secret, longKey), identity.HashAPIKey(secret, longKey+"x"))
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
		{"longest API key", all, identity.Credentials{APIKey: longKey}, " long  ", nil},
		{"API key that is too long", all, identity.Credentials{APIKey: longKey + "x"}, "   ", limiter.ErrInvalidCredential},
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

// How long a token may be: a longer one is not even parsed.
func TestVerifier_Verify_long(t *testing.T) {
	v := verifier(t, keySet(t, newIssuer(t, "a").set(t)))
	for length, want := range map[int]string{8192: "invalid credential: not a token signed with [ES256]", 8193: "invalid credential: token of 8193 bytes"} {
		if _, err := v.Verify(ctx, noon, strings.Repeat("a", length)); err == nil || err.Error() != want {
			t.Errorf("%d bytes: got %v, want %s", length, err, want)
		}
	}
}

// Numbers and booleans count as their text, to the last digit; null, lists and objects as
// absent.
func TestVerifier_Verify_claims(t *testing.T) {
	i := newIssuer(t, "a")
	v, err := identity.NewVerifier(identity.TokenOptions{Keys: keySet(t, i.set(t)), Issuer: "https://issuer.example", Audience: "weir", Algorithms: []string{"ES256"}, UserClaim: "uid"})
	if err != nil {
		t.Fatal(err)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	got, err := v.Verify(ctx, noon, i.token(t, claims(map[string]any{
		"uid": raw("9007199254740993"), "org": raw("42"), "rate": raw("1.50"), "staff": raw("true"), "bot": raw("false"),
		"name": raw(`"a \"b\" ü"`), "empty": "", "list": raw(`["x"]`), "object": raw(`{"a":1}`), "null": raw("null"),
	})))
	if err != nil || got.User != "9007199254740993" {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, want := range map[string]string{"org": "42", "rate": "1.50", "staff": "true", "bot": "false", "name": `a "b" ü`, "empty": ""} {
		if text, ok := got.Text[name]; !ok || text != want {
			t.Errorf("%s: got %q (%t), want %q", name, text, ok, want)
		}
	}
	for _, name := range []string{"list", "object", "null", "roles"} {
		if text, ok := got.Text[name]; ok {
			t.Errorf("%s: got %q, want none", name, text)
		}
	}
	for _, user := range []any{"", raw("null"), []string{"alice"}} {
		if _, err := v.Verify(ctx, noon, i.token(t, claims(map[string]any{"uid": user}))); !errors.Is(err, limiter.ErrInvalidCredential) {
			t.Errorf("uid %v: got error %v", user, err)
		}
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
	with := func(key string) string { // beside the issuer's
		return strings.Replace(string(i.set(t)), `{"keys":[`, `{"keys":[`+key+",", 1)
	}
	for name, c := range map[string]struct {
		document string
		ok       bool
	}{
		"good":                   {string(i.set(t)), true},
		"one for something else": {string(i.set(t, encryption)), true},
		"private":                {string(private), false},
		"secret":                 {with(`{"kty":"oct","k":"c2VjcmV0","kid":"s"}`), false},
		"private beside public":  {string(i.set(t, jose.JSONWebKey{Key: i.key, KeyID: "p"})), false},
		"no keys":                {`{}`, false},
		"keys are no list":       {`{"keys":{}}`, false},
		"only one for something": {`{"keys":[{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08","use":"enc"}]}`, false},
		"empty":                  {`{"keys":[]}`, false},
		"not JSON":               {`keys`, false},
		"too many":               {`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"oct","k":"c2VjcmV0"},`, 101), ",") + `]}`, false},
	} {
		set, err := identity.ParseKeySet([]byte(c.document))
		if (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want one: %t", name, err, !c.ok)
		}
		if err != nil {
			continue
		}
		if _, err := verifier(t, set).Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is not understood is left out, and the rest of the set stays (RFC 7517, 5).
	for name, key := range map[string]string{
		"curve":         `{"kty":"EC","crv":"secp256k1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"a","use":"sig"}`,
		"key agreement": `{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08","kid":"a","use":"enc"}`,
		"type":          `{"kty":"AKP","alg":"ML-DSA-44","pub":"abcd","kid":"a","use":"sig"}`,
		"member":        `{"kty":"EC","crv":"P-256","kid":"a"}`,
		"point":         `{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ","kid":"a"}`,
		"no object":     `42`,
	} {
		set, err := identity.ParseKeySet([]byte(with(key)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := verifier(t, set).Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
			t.Errorf("beside a %s that is not understood: %v", name, err)
		}
	}
}

// A key is picked by its id and by what it can sign; of two that could have signed a
// token none is.
func TestKeySet_Key(t *testing.T) {
	public := func(key crypto.PublicKey, err error) crypto.PublicKey {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	curve := func(c elliptic.Curve) crypto.PublicKey {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		return public(key.Public(), err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edKey, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// None says its algorithm, and none its id but for the last two.
	all := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: rsaKey.Public()}, {Key: curve(elliptic.P256())}, {Key: curve(elliptic.P384())}, {Key: curve(elliptic.P521())}, {Key: edKey},
	}}
	named := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: rsaKey.Public(), KeyID: "r", Algorithm: "RS384"}, {Key: curve(elliptic.P256()), KeyID: "e"}, {Key: curve(elliptic.P256()), KeyID: "f"},
	}}
	for _, c := range []struct {
		set           jose.JSONWebKeySet
		id, algorithm string
		want          int // -1 is none
	}{
		{all, "", "RS256", 0}, {all, "", "RS512", 0}, {all, "", "PS256", 0}, {all, "", "ES256", 1}, {all, "", "ES384", 2}, {all, "", "ES512", 3}, {all, "", "EdDSA", 4},
		{all, "", "HS256", -1}, {all, "", "", -1}, {all, "a", "ES256", -1},
		{named, "r", "RS384", 0}, {named, "", "RS384", 0}, {named, "r", "RS256", -1}, {named, "", "RS256", -1}, {named, "r", "ES256", -1},
		{named, "e", "ES256", 1}, {named, "f", "ES256", 2}, {named, "", "ES256", -1}, {named, "e", "ES384", -1},
	} {
		document, err := json.Marshal(c.set)
		if err != nil {
			t.Fatal(err)
		}
		key, err := keySet(t, document).Key(ctx, noon, c.id, c.algorithm)
		if c.want < 0 {
			if !errors.Is(err, limiter.ErrInvalidCredential) {
				t.Errorf("%q %s: got error %v", c.id, c.algorithm, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(key.Key, c.set.Keys[c.want].Key) {
			t.Errorf("%q %s: got %+v, %v, want key %d", c.id, c.algorithm, key, err, c.want)
		}
	}
}

// The issuer is asked once, again for a key id that is new, and left alone after
// that, whatever tokens come; for less time if it did not answer.
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
	later := func(d time.Duration) { now = now.Add(d) }
	down = true
	check(first, limiter.ErrUnverified, 1)
	down = false
	later(3*time.Second - 1)
	check(first, limiter.ErrUnverified, 1) // cooling down
	later(1)
	check(first, nil, 2)
	check(first, nil, 2)
	document = second.set(t, first.public())
	later(30*time.Second - 1)
	check(second, limiter.ErrInvalidCredential, 2) // cooling down
	later(-30 * time.Second)
	check(second, limiter.ErrInvalidCredential, 2) // a request that has waited
	later(30*time.Second + 1)
	check(second, nil, 3)
	check(first, nil, 3)
	for range 5 {
		check(newIssuer(t, "forged"), limiter.ErrInvalidCredential, 3)
	}
	later(time.Minute)
	down = true
	check(newIssuer(t, "new"), limiter.ErrUnverified, 4) // nobody knows
	check(newIssuer(t, "new"), limiter.ErrUnverified, 4)
	check(first, nil, 4)
	later(3 * time.Second)
	check(newIssuer(t, "new"), limiter.ErrUnverified, 5)
	down = false
	later(2 * time.Hour)
	check(first, nil, 6) // no longer fresh
	later(2 * time.Hour)
	down = true
	check(first, nil, 7) // stale keys are better than none
	later(30*time.Second - 1)
	check(first, nil, 7)
	later(1)
	check(first, nil, 8)
	later(-3 * time.Hour) // the clock was wrong
	check(second, nil, 8)
	check(newIssuer(t, "new"), limiter.ErrUnverified, 9)
}

// network answers the requests of the default client without one.
type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }

// connect makes n the network of a test.
func connect(t *testing.T, n network) {
	t.Helper()
	before := http.DefaultTransport
	http.DefaultTransport = n
	t.Cleanup(func() { http.DefaultTransport = before })
}

// answer is what a server says.
func answer(status int, header http.Header, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
}

func remoteKeys(t *testing.T) *identity.RemoteKeys {
	t.Helper()
	keys, err := identity.NewRemoteKeys("https://issuer.example/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// slow is an issuer that takes a second to answer, and how often it was asked.
func slow(t *testing.T, document func() []byte) *atomic.Int64 {
	t.Helper()
	var asked atomic.Int64
	connect(t, func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(time.Second):
			return answer(http.StatusOK, nil, document()), nil
		}
	})
	return &asked
}

// A client that hangs up ends no fetch: the keys come, and who waits for them gets them.
func TestRemoteKeys_hangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newIssuer(t, "first"), newIssuer(t, "second")
		document := first.set(t)
		asked := slow(t, func() []byte { return document })
		v := verifier(t, remoteKeys(t))
		gone, hangUp := context.WithCancel(ctx)
		hangUp()
		token := func(i issuer) string { return i.token(t, claims(map[string]any{"exp": noon.Add(time.Hour).Unix()})) }
		if _, err := v.Verify(gone, noon, token(first)); !errors.Is(err, limiter.ErrUnverified) {
			t.Errorf("who hung up: %v", err)
		}
		if _, err := v.Verify(ctx, noon, token(first)); err != nil || asked.Load() != 1 {
			t.Errorf("who waited: %v, after %d fetches", err, asked.Load())
		}
		document = second.set(t)
		later := noon.Add(31 * time.Second)
		if _, err := v.Verify(gone, later, token(newIssuer(t, "forged"))); !errors.Is(err, limiter.ErrUnverified) {
			t.Errorf("who hung up: %v", err)
		}
		if _, err := v.Verify(ctx, later, token(second)); err != nil || asked.Load() != 2 {
			t.Errorf("a new key: %v, after %d fetches", err, asked.Load())
		}
		now := noon.Add(2 * time.Hour) // the keys are stale now, and better than none
		if _, err := v.Verify(gone, now, second.token(t, claims(map[string]any{"exp": now.Unix()}))); err != nil {
			t.Errorf("who hung up and has a key: %v", err)
		}
		if _, err := v.Verify(ctx, now, token(first)); !errors.Is(err, limiter.ErrInvalidCredential) || asked.Load() != 3 {
			t.Errorf("a key that is gone: %v, after %d fetches", err, asked.Load())
		}
	})
}

// Keys that are there are used while others are fetched, and one fetch serves all.
func TestRemoteKeys_meanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newIssuer(t, "first")
		asked := slow(t, func() []byte { return first.set(t) })
		v := verifier(t, remoteKeys(t))
		begun, now := time.Now(), noon
		verify := func(i issuer, want error, took time.Duration) {
			t.Helper()
			begun := time.Now()
			if _, err := v.Verify(ctx, now, i.token(t, claims(map[string]any{"exp": now.Add(time.Hour).Unix()}))); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("got error %v, want %v", err, want)
			}
			if got := time.Since(begun); got != took {
				t.Errorf("took %s, want %s", got, took)
			}
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { verify(first, nil, time.Second) })
		}
		wg.Wait()
		now = now.Add(31 * time.Second)
		wg.Go(func() { verify(newIssuer(t, "forged"), limiter.ErrInvalidCredential, time.Second) })
		synctest.Wait()
		verify(first, nil, 0)
		wg.Wait()
		now = now.Add(2 * time.Hour)
		wg.Go(func() { verify(first, nil, time.Second) }) // who finds them stale
		synctest.Wait()
		verify(first, nil, 0)
		wg.Wait()
		if got := time.Since(begun); asked.Load() != 3 || got != 3*time.Second {
			t.Errorf("%d fetches in %s", asked.Load(), got)
		}
	})
}

// An issuer that does not answer is not waited for without end.
func TestRemoteKeys_timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connect(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begun := time.Now()
		v := verifier(t, remoteKeys(t))
		if _, err := v.Verify(ctx, noon, newIssuer(t, "a").token(t, claims(nil))); !errors.Is(err, limiter.ErrUnverified) || time.Since(begun) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// A redirection leads from https to nothing less, and does not go on for ever.
func TestRemoteKeys_redirect(t *testing.T) {
	i := newIssuer(t, "a")
	for _, c := range []struct {
		chain []string
		ok    bool
	}{
		{[]string{"https://issuer.example/a", "https://keys.example/b"}, true},
		{[]string{"https://issuer.example/a", "http://issuer.example/b"}, false},
		{[]string{"https://issuer.example/a", "http://127.0.0.1/b"}, false},
		{[]string{"https://issuer.example/a", "https://b.example/", "https://c.example/", "https://d.example/"}, true},
		{[]string{"https://issuer.example/a", "https://b.example/", "https://c.example/", "https://d.example/", "https://e.example/"}, false},
		{[]string{"http://127.0.0.1/a", "http://127.0.0.1/b"}, true},
		{[]string{"http://127.0.0.1/a", "https://issuer.example/b"}, true},
		{[]string{"http://127.0.0.1/a", "http://issuer.example/b"}, false},
	} {
		t.Run(strings.Join(c.chain, " "), func(t *testing.T) {
			connect(t, func(r *http.Request) (*http.Response, error) {
				next := slices.Index(c.chain, r.URL.String()) + 1
				if next == len(c.chain) {
					return answer(http.StatusOK, nil, i.set(t)), nil
				}
				return answer(http.StatusFound, http.Header{"Location": {c.chain[next]}}, nil), nil
			})
			keys, err := identity.NewRemoteKeys(c.chain[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := keys.Key(ctx, noon, "a", "ES256"); (err == nil) != c.ok {
				t.Errorf("got error %v, want one: %t", err, !c.ok)
			}
		})
	}
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
