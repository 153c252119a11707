package caller_test

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
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx     = context.Background()
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	address = netip.MustParseAddr("203.0.113.7")
	prefix  = netip.MustParsePrefix("203.0.113.7/32")
	secret  = []byte("0123456789abcdef")
)

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

// claims returns the claims of a valid token with changes. The value nil removes a claim.
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

func verifier(t testing.TB, keys caller.KeySource) *caller.Verifier {
	t.Helper()
	v, err := caller.NewVerifier(caller.TokenOptions{Keys: keys, Issuer: "https://issuer.example", Audience: []string{"weir"},
		Algorithms: []string{"ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func keySet(t testing.TB, document []byte) *caller.KeySet {
	t.Helper()
	s, err := caller.ParseKeySet(document)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// longKey is an API key of the maximum length.
var longKey = strings.Repeat("x", 256)

func apiKeys(t testing.TB) *caller.APIKeys {
	t.Helper()
	list := fmt.Sprintf(`[{"id":"k1","hash":%q,"tier":"enterprise","owner":"acme"},{"id":"k2","hash":%q},{"id":"gone","hash":%q,`+
		`"suspended":true},{"id":"long","hash":%q},{"id":"longer","hash":%q}]`,
		caller.HashAPIKey(secret, "key-one"), caller.HashAPIKey(secret, "key-two"), caller.HashAPIKey(secret, "key-suspended"),
		caller.HashAPIKey(secret, longKey), caller.HashAPIKey(secret, longKey+"x"))
	keys, err := caller.ParseAPIKeys([]byte(list), secret)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestIdentifier_Caller(t *testing.T) {
	i := newIssuer(t, "a")
	all := caller.New(caller.Options{Tokens: verifier(t, keySet(t, i.set(t))), APIKeys: apiKeys(t)})
	strict := caller.New(caller.Options{Tokens: verifier(t, keySet(t, i.set(t))), APIKeys: apiKeys(t), RequireCredential: true})
	refusing := caller.New(caller.Options{APIKeys: apiKeys(t), RefuseForeignKeys: true})
	none := caller.New(caller.Options{})
	good, noTier := "Bearer "+i.token(t, claims(nil)), "bearer "+i.token(t, claims(map[string]any{"tier": nil}))
	expired := "Bearer " + i.token(t, claims(map[string]any{"exp": noon.Add(-time.Hour).Unix()}))
	for _, c := range []struct {
		name       string
		identifier *caller.Identifier
		with       caller.Credentials
		want       string // expected user, API key, tier and claim org
		err        error
	}{
		{"anonymous", all, caller.Credentials{}, "   ", nil},
		{"token", all, caller.Credentials{Authorization: good}, "alice  paid acme", nil},
		{"API key", all, caller.Credentials{APIKey: "key-one"}, " k1 enterprise ", nil},
		{"API key without a tier", all, caller.Credentials{APIKey: "key-two"}, " k2  ", nil},
		{"both, the token's tier takes precedence", all, caller.Credentials{Authorization: good, APIKey: "key-one"}, "alice k1 paid acme", nil},
		{"both, the token has no tier", all, caller.Credentials{Authorization: noTier, APIKey: "key-one"}, "alice k1 enterprise acme", nil},
		{"bad token", all, caller.Credentials{Authorization: expired}, "   ", caller.ErrInvalidCredential},
		{"bad token, good API key", all, caller.Credentials{Authorization: expired, APIKey: "key-one"}, "   ", caller.ErrInvalidCredential},
		{"good token, bad API key", all, caller.Credentials{Authorization: good, APIKey: "weir_three"}, "   ", caller.ErrInvalidCredential},
		{"two API keys, one of Weir's", all, caller.Credentials{APIKey: "key-three, weir_three"}, "   ", caller.ErrInvalidCredential},
		{"foreign API key", all, caller.Credentials{APIKey: "key-three"}, "foreign    ", nil},
		{"foreign API key that contains weir_", all, caller.Credentials{APIKey: "acmeweir_1"}, "foreign    ", nil},
		{"two foreign API keys", all, caller.Credentials{APIKey: "key-three, acmeweir_1"}, "foreign    ", nil},
		{"two API keys, the first of Weir's", all, caller.Credentials{APIKey: "weir_three, key-three"}, "   ", caller.ErrInvalidCredential},
		{"two API keys without a space", all, caller.Credentials{APIKey: "key-three,weir_three"}, "   ", caller.ErrInvalidCredential},
		{"good token, foreign API key", all, caller.Credentials{Authorization: good, APIKey: "key-three"}, "foreign alice  paid acme", nil},
		{"bad token, foreign API key", all, caller.Credentials{Authorization: expired, APIKey: "key-three"}, "foreign    ",
			caller.ErrInvalidCredential},
		{"foreign API key, refused", refusing, caller.Credentials{APIKey: "key-three"}, "   ", caller.ErrInvalidCredential},
		{"foreign API key, credential required", strict, caller.Credentials{APIKey: "key-three"}, "foreign    ", caller.ErrMissingCredential},
		{"foreign API key and a token, credential required", strict, caller.Credentials{Authorization: good, APIKey: "key-three"},
			"foreign alice  paid acme", nil},
		{"suspended API key", all, caller.Credentials{APIKey: "key-suspended"}, "   ", caller.ErrSuspended},
		{"good token, suspended API key", all, caller.Credentials{Authorization: good, APIKey: "key-suspended"}, "   ", caller.ErrSuspended},
		{"longest API key", all, caller.Credentials{APIKey: longKey}, " long  ", nil},
		{"API key that is too long", all, caller.Credentials{APIKey: "weir_" + longKey}, "   ", caller.ErrInvalidCredential},
		{"a tab after bearer", all, caller.Credentials{Authorization: "Bearer\t" + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a vertical tab", all, caller.Credentials{Authorization: "Bearer\v" + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a line break", all, caller.Credentials{Authorization: "bearer\r\n " + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a space that is not ASCII", all, caller.Credentials{Authorization: "Bearer\u00a0" + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"NUL", all, caller.Credentials{Authorization: "Bearer\x00" + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a tab and a space", all, caller.Credentials{Authorization: "Bearer \t" + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"white space before bearer", all, caller.Credentials{Authorization: "\tBearer " + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a comma after bearer", all, caller.Credentials{Authorization: "Bearer," + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a token after another scheme", all, caller.Credentials{Authorization: "Basic YTpi, " + good}, "   ", caller.ErrInvalidCredential},
		{"a bare token after a scheme", all, caller.Credentials{Authorization: "Basic YTpi," + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"two bare tokens", all, caller.Credentials{Authorization: good[7:] + ", " + good[7:]}, "   ", caller.ErrInvalidCredential},
		{"a scheme with parameters", all, caller.Credentials{Authorization: `Digest realm="bearer x", uri="/"`}, "   ", nil},
		{"another scheme with the prefix Bearer", all, caller.Credentials{Authorization: "Bearer-x " + good[7:]}, "   ", nil},
		{"a bare token", all, caller.Credentials{Authorization: good[7:]}, "alice  paid acme", nil},
		{"a bad bare token", all, caller.Credentials{Authorization: expired[7:]}, "   ", caller.ErrInvalidCredential},
		{"a bare token and a parameter", all, caller.Credentials{Authorization: good[7:] + " x"}, "   ", nil},
		{"a text with two dots", all, caller.Credentials{Authorization: "a.b.c"}, "   ", nil},
		{"empty bearer", all, caller.Credentials{Authorization: "Bearer"}, "   ", caller.ErrInvalidCredential},
		{"another scheme", all, caller.Credentials{Authorization: "Basic YTpi"}, "   ", nil},
		{"credential required", strict, caller.Credentials{}, "   ", caller.ErrMissingCredential},
		{"another scheme, credential required", strict, caller.Credentials{Authorization: "Basic YTpi"}, "   ", caller.ErrMissingCredential},
		{"API key where one is required", strict, caller.Credentials{APIKey: "key-one"}, " k1 enterprise ", nil},
		{"credentials are ignored", none, caller.Credentials{Authorization: expired, APIKey: "key-three"}, "   ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.with.Address = address
			got, err := c.identifier.Caller(ctx, noon, c.with)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			text := fmt.Sprintf("%s %s %s %s", got.User, got.APIKey, got.Tier, strings.Join(got.Claims["org"], ","))
			if got.ForeignKey {
				text = "foreign " + text
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if got.Rejected != (err != nil) || got.IP != prefix {
				t.Errorf("got rejected %t and address %s, want %t and %s", got.Rejected, got.IP, err != nil, prefix)
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
		{"client_id without aud", i.token(t, claims(map[string]any{"aud": nil, "client_id": "weir"})), true},
		{"another client_id without aud", i.token(t, claims(map[string]any{"aud": nil, "client_id": "other"})), false},
		{"client_id beside another aud", i.token(t, claims(map[string]any{"aud": "other", "client_id": "weir"})), false},
		{"client_id beside an empty aud", i.token(t, claims(map[string]any{"aud": []string{}, "client_id": "weir"})), false},
		{"client_id beside null", i.token(t, claims(map[string]any{"aud": json.RawMessage("null"), "client_id": "weir"})), false},
		{"client_id is an object", i.token(t, claims(map[string]any{"aud": nil, "client_id": map[string]any{"weir": 1}})), false},
		{"no user", i.token(t, claims(map[string]any{"sub": nil})), false},
		{"user is not a string", i.token(t, claims(map[string]any{"sub": 42})), false},
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
				t.Fatalf("got error %v, want an error: %t", err, !c.ok)
			}
			if err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
				t.Errorf("got error %v, want ErrInvalidCredential", err)
			}
			if want := `audience ["other"], want "https://issuer.example" and one of ["weir"]`; strings.HasPrefix(c.name, "another client_id") &&
				!strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %s", err, want)
			}
			if err != nil && c.token != "" && strings.Contains(err.Error(), c.token) {
				t.Errorf("got an error with the token, want it without: %v", err)
			}
			if c.ok && (got.User != "alice" || fmt.Sprint(got.Tiers, got.Values["org"]) != "[paid] [acme]") {
				t.Errorf("got claims %+v, want user alice, tier paid and org acme", got)
			}
		})
	}
}

// A token above the maximum length is not parsed.
func TestVerifier_Verify_long(t *testing.T) {
	v := verifier(t, keySet(t, newIssuer(t, "a").set(t)))
	for length, want := range map[int]string{8192: "invalid credential: not a token signed with [ES256]",
		8193: "invalid credential: token: too long (got 8193 bytes, want at most 8192)"} {
		if _, err := v.Verify(ctx, noon, strings.Repeat("a", length)); err == nil || err.Error() != want {
			t.Errorf("%d bytes: got %v, want %s", length, err, want)
		}
	}
}

// A claim has the values that its token spells, by its path. A form that cannot count has none.
func TestVerifier_Verify_claims(t *testing.T) {
	i := newIssuer(t, "a")
	v := storetest.Must(caller.NewVerifier(caller.TokenOptions{Keys: keySet(t, i.set(t)), Issuer: "https://issuer.example",
		Audience: []string{"web", "weir"}, Algorithms: []string{"ES256"}, Claims: caller.ClaimNames{User: "uid", Tier: "realm.roles",
			Others: map[string]string{"first": "org.id", "none": "org.name"}}}))
	const values = `{"uid": 9007199254740993, "rate": 1.50, "staff": true, "name": "a \"b\" ü", "empty": "", "null": null,
		"list": ["x", 1, null],
		"no": [], "lists": [["x"]], "object": {"a": 1}, "large": 123456789012345678901, "org": {"id": "o1"}, "org.id": "exact",
		"realm": {"roles": ["a", "b"]}, "a": {"b": {"c": {"d": 1, "e": {"f": 1}}}}, "cognito:groups": ["g"]}`
	var changes map[string]any
	if err := json.Unmarshal([]byte(values), &changes); err != nil {
		t.Fatal(err)
	}
	changes["uid"], changes["rate"], changes["large"] = json.RawMessage("9007199254740993"), json.RawMessage("1.50"),
		json.RawMessage("123456789012345678901")
	got, err := v.Verify(ctx, noon, i.token(t, claims(changes)))
	if err != nil || got.User != "9007199254740993" || fmt.Sprint(got.Tiers) != "[a b]" {
		t.Fatalf("got %+v, %v, want user 9007199254740993 and tiers a and b", got, err)
	}
	for name, want := range map[string]string{
		"rate": "[1.50]", "staff": "[true]", "name": `[a "b" ü]`, "list": "[x 1]", "lists": "[]", "object": "[]", "object.a": "[1]",
		"large": "[]", "org": "[]", "org.id": "[exact]", "first": "[exact]", "realm.roles": "[a b]", "a.b.c.d": "[1]", "a.b.c.e": "[]",
		"cognito:groups": "[g]", "empty": "", "null": "", "no": "", "none": "", "a.b.c.e.f": "",
	} {
		values, ok := got.Values[name]
		if text := fmt.Sprint(values); ok != (want != "") || ok && text != want {
			t.Errorf("%s: got %s (%t), want %s", name, text, ok, want)
		}
	}
	for _, user := range []any{"", nil, []string{"alice", "bob"}, map[string]any{"a": 1}} {
		if _, err := v.Verify(ctx, noon, i.token(t, claims(map[string]any{"uid": user}))); !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("uid %v: got error %v, want ErrInvalidCredential", user, err)
		}
	}
}

func TestNewVerifier(t *testing.T) {
	keys := keySet(t, newIssuer(t, "a").set(t))
	good := caller.TokenOptions{Keys: keys, Issuer: "i", Audience: []string{"a"}, Algorithms: []string{"RS256", "EdDSA"}}
	if _, err := caller.NewVerifier(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*caller.TokenOptions){
		"token keys: required":                         func(o *caller.TokenOptions) { o.Keys = nil },
		"token issuer: required":                       func(o *caller.TokenOptions) { o.Issuer = "" },
		"token audience: required":                     func(o *caller.TokenOptions) { o.Audience = nil },
		"token algorithms: required":                   func(o *caller.TokenOptions) { o.Algorithms = nil },
		`token algorithms: unknown (got "HS256", want`: func(o *caller.TokenOptions) { o.Algorithms = []string{"HS256"} },
		`token algorithms: unknown (got "none", want`:  func(o *caller.TokenOptions) { o.Algorithms = []string{"none"} },
	} {
		o := good
		change(&o)
		if _, err := caller.NewVerifier(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestParseAPIKeys(t *testing.T) {
	hash := caller.HashAPIKey(secret, "k")
	for want, c := range map[string]struct{ list, secret string }{
		"API key secret: got 5 bytes, want at least 16":             {"[]", "short"},
		"API key records: json: cannot unmarshal object":            {`{}`, string(secret)},
		"API key records: invalid character":                        {`[] []`, string(secret)},
		`API key records: [0] of "a": json: unknown field "key"`:    {`[{"id":"a","key":"k"}]`, string(secret)},
		`API key records: [0] of "": id: missing`:                   {`[{"hash":"` + hash + `"}]`, string(secret)},
		`API key records: [0] of "a": hash: invalid (want 64 lower`: {`[{"id":"a","hash":"abc"}]`, string(secret)},
		`API key records: [1] of "b": hash: duplicate of the hash of "a"`: {`[{"id":"a","hash":"` + hash + `"},{"id":"b","hash":"` + hash + `"}]`,
			string(secret)},
		`API key records: [1] of "b": limits of the record: anchor: `: {`[{"id":"a","hash":"` + hash + `"},{"id":"b","hash":"` + hash[1:] +
			`0","limits":{"anchor":32,"changed":7}}]`, string(secret)},
	} {
		if _, err := caller.ParseAPIKeys([]byte(c.list), []byte(c.secret)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "203.0.113.7:4711": "203.0.113.7/32", "::ffff:203.0.113.7": "203.0.113.7/32",
		"[::ffff:203.0.113.7]:80": "203.0.113.7/32",
		"2001:db8:1:2:3::4":       "2001:db8:1:2::/64", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"[2001:db8:1:2:3::4]": "2001:db8:1:2::/64", "[::1": "invalid Prefix", "[]": "invalid Prefix",
		"": "invalid Prefix", "@": "invalid Prefix", "203.0.113.07": "invalid Prefix", "300.1.1.1": "invalid Prefix",
		"1.2.3.4, 5.6.7.8": "invalid Prefix",
	} {
		if got := caller.Prefix(caller.ParseAddress(text), 64).String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if got := caller.Prefix(netip.MustParseAddr("2001:db8:1:2:3::4"), 48).String(); got != "2001:db8:1::/48" {
		t.Errorf("48 bits: got %s, want 2001:db8:1::/48", got)
	}
	for want, headers := range map[string][]string{
		"203.0.113.7": {"10.0.0.1, 203.0.113.7"}, "203.0.113.8": {"10.0.0.1", "1.1.1.1,203.0.113.8"}, "invalid IP": {"10.0.0.1, "},
		"203.0.113.9": {"203.0.113.9"},
	} {
		if got := caller.LastHop(headers).String(); got != want {
			t.Errorf("%q: got %s, want %s", headers, got, want)
		}
	}
	if caller.LastHop(nil).IsValid() {
		t.Error("got an address without a header, want none")
	}
	// Two spellings of one address are one subject.
	a, b := caller.ParseAddress("::ffff:203.0.113.7"), caller.ParseAddress("203.0.113.7:1")
	if limiter.IP(caller.Prefix(a, 64)) != limiter.IP(caller.Prefix(b, 64)) {
		t.Error("a mapped address: got another subject, want the same")
	}
}

// FuzzClaimNames_Of searches for claims that break the reader, or whose paths need much more memory than they have.
func FuzzClaimNames_Of(f *testing.F) {
	f.Add([]byte(`{"sub":"a","org":{"id":1,"x":[null,[2]]},"org.id":"b","":{"":{"":{"":{"":0}}}}}`))
	f.Add([]byte(strings.Repeat(`{"`+strings.Repeat("n", 200)+`":`, 9) + "0" + strings.Repeat("}", 9)))
	f.Fuzz(func(t *testing.T, claims []byte) {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(claims, &members)
		got, bytes := caller.ClaimNames{}.Of(members, nil), 0
		for path, values := range got.Values {
			if _, exact := members[path]; !exact && len(path) > 256 {
				t.Errorf("got a path of %d bytes, want at most 256", len(path))
			}
			bytes += len(strings.Join(values, ""))
		}
		if bytes > 3*len(claims) || got.User != "" && got.User != got.Values["sub"][0] {
			t.Errorf("got %d bytes and user %q from %q", bytes, got.User, claims)
		}
	})
}
