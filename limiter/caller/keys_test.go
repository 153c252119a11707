package caller_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter/caller"
)

func TestParseKeySet(t *testing.T) {
	i := newIssuer(t, "a")
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key, KeyID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	encryption := i.public()
	encryption.Use = "enc"
	with := func(key string) string { // returns a set of the issuer's key and another key
		return strings.Replace(string(i.set(t)), `{"keys":[`, `{"keys":[`+key+",", 1)
	}
	for name, c := range map[string]struct {
		document string
		ok       bool
	}{
		"good":                                {string(i.set(t)), true},
		"a signing key and an encryption key": {string(i.set(t, encryption)), true},
		"private":                             {string(private), false},
		"secret":                              {with(`{"kty":"oct","k":"c2VjcmV0","kid":"s"}`), false},
		"a public key and a private key":      {string(i.set(t, jose.JSONWebKey{Key: i.key, KeyID: "p"})), false},
		"no keys":                             {`{}`, false},
		"keys are not a list":                 {`{"keys":{}}`, false},
		"an encryption key only": {`{"keys":[{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08",` +
			`"use":"enc"}]}`, false},
		"null":     {`{"keys":null}`, false},
		"not JSON": {`keys`, false},
		"too many": {`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"oct","k":"c2VjcmV0"},`, 101), ",") + `]}`, false},
	} {
		set, err := caller.ParseKeySet([]byte(c.document))
		if (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want an error: %t", name, err, !c.ok)
		}
		if err != nil {
			continue
		}
		if _, err := verifier(t, set).Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
	}
	// Keys of an unknown form are ignored, and the other keys are used (RFC 7517, 5).
	for name, key := range map[string]string{
		"curve": `{"kty":"EC","crv":"secp256k1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",` +
			`"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"a","use":"sig"}`,
		"key agreement": `{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08","kid":"a","use":"enc"}`,
		"type":          `{"kty":"AKP","alg":"ML-DSA-44","pub":"abcd","kid":"a","use":"sig"}`,
		"member":        `{"kty":"EC","crv":"P-256","kid":"a"}`,
		"point":         `{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ","kid":"a"}`,
		"no object":     `42`,
	} {
		set, err := caller.ParseKeySet([]byte(with(key)))
		if err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
			continue
		}
		if _, err := verifier(t, set).Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
			t.Errorf("with a key whose %s is unknown: got error %v, want none", name, err)
		}
	}
}

// The key ID and the algorithm select a key. If two keys fit, neither is used.
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
	// This set contains keys without an algorithm or an ID.
	all := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: rsaKey.Public()}, {Key: curve(elliptic.P256())}, {Key: curve(elliptic.P384())}, {Key: curve(elliptic.P521())}, {Key: edKey},
	}}
	named := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: rsaKey.Public(), KeyID: "r", Algorithm: "RS384"}, {Key: curve(elliptic.P256()), KeyID: "e"}, {Key: curve(elliptic.P256()),
			KeyID: "f"},
	}}
	for _, c := range []struct {
		set           jose.JSONWebKeySet
		id, algorithm string
		want          int // -1 means none
	}{
		{all, "", "RS256", 0}, {all, "", "RS512", 0}, {all, "", "PS256", 0}, {all, "", "ES256", 1}, {all, "", "ES384", 2}, {all, "", "ES512", 3},
		{all, "", "EdDSA", 4},
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
			if !errors.Is(err, caller.ErrInvalidCredential) {
				t.Errorf("%q %s: got error %v, want ErrInvalidCredential", c.id, c.algorithm, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(key.Key, c.set.Keys[c.want].Key) {
			t.Errorf("%q %s: got %+v, %v, want key %d", c.id, c.algorithm, key, err, c.want)
		}
	}
}

// The keys are fetched once, and once more for a new key ID. During a cooldown, no other fetch begins,
// for any token, even if the issuer fails. While there are no keys, the cooldown is shorter.
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
	keys, err := caller.NewRemoteKeys(server.URL)
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
			t.Errorf("got %d fetches, want %d", fetches, wantFetches)
		}
	}
	later := func(d time.Duration) { now = now.Add(d) }
	down = true
	who, err := caller.New(caller.Options{Tokens: v}).Caller(ctx, now, caller.Credentials{Authorization: "Bearer " +
		first.token(t, claims(map[string]any{"exp": now.Add(time.Hour).Unix()}))})
	if !who.Unverified || !who.Rejected || !errors.Is(err, caller.ErrUnverified) {
		t.Errorf("got caller %+v, %v, want one that could not be verified", who, err)
	}
	check(first, caller.ErrUnverified, 1)
	down = false
	later(3*time.Second - 1)
	check(first, caller.ErrUnverified, 1) // no fetch, because the cooldown has not ended
	later(1)
	check(first, nil, 2)
	check(first, nil, 2)
	check(newIssuer(t, "forged"), caller.ErrInvalidCredential, 3) // the additional fetch for an unknown key
	document = second.set(t, first.public())
	later(30*time.Second - 1)
	check(second, caller.ErrInvalidCredential, 3) // no fetch, because the cooldown has not ended
	later(-30 * time.Second)
	check(second, caller.ErrInvalidCredential, 3) // the clock of this request is behind
	later(30*time.Second + 1)
	check(second, nil, 4)
	check(first, nil, 4)
	for range 5 {
		check(newIssuer(t, "forged"), caller.ErrInvalidCredential, 4)
	}
	later(time.Minute)
	down = true
	check(newIssuer(t, "new"), caller.ErrUnverified, 5) // ErrUnverified, because the key may be newer than the last good fetch
	check(newIssuer(t, "new"), caller.ErrUnverified, 5)
	check(first, nil, 5)
	later(30*time.Second - 1)
	check(newIssuer(t, "new"), caller.ErrUnverified, 5)
	later(1)
	check(newIssuer(t, "new"), caller.ErrUnverified, 6)
	down = false
	later(2 * time.Hour)
	check(first, nil, 7) // the keys are no longer fresh, so they are fetched again
	later(2 * time.Hour)
	down = true
	check(first, nil, 8) // the fetch fails, so the stale keys are used
	later(30*time.Second - 1)
	check(first, nil, 8)
	later(1)
	check(first, nil, 9)
	later(-3 * time.Hour) // the clock was ahead and is set back
	check(second, nil, 9)
	check(newIssuer(t, "new"), caller.ErrUnverified, 10)
}

// A key that the issuer adds soon after a fetch is valid at once. For any key IDs, there is at most one
// fetch in half a minute, and one more in ten minutes.
func TestRemoteKeys_newKey(t *testing.T) {
	first, second := newIssuer(t, "first"), newIssuer(t, "second")
	document, fetches := first.set(t), 0
	v := verifier(t, caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) {
		fetches++
		return document, time.Time{}, nil
	}))
	token := func(i issuer) string {
		return i.token(t, claims(map[string]any{"exp": noon.Add(2 * time.Hour).Unix()}))
	}
	verify := func(token string, after time.Duration) error {
		_, err := v.Verify(ctx, noon.Add(after), token)
		return err
	}
	if err := verify(token(first), 0); err != nil {
		t.Fatal(err)
	}
	document = second.set(t, first.public())
	if err := verify(token(second), time.Second); err != nil || fetches != 2 {
		t.Errorf("a key that is one second old: got %v, %d fetches, want no error and 2 fetches", err, fetches)
	}
	forged := token(newIssuer(t, "forged"))
	for after := 2 * time.Second; after <= time.Hour; after += time.Second {
		if err := verify(forged, after); !errors.Is(err, caller.ErrInvalidCredential) {
			t.Fatalf("an invented key ID: got %v, want ErrInvalidCredential", err)
		}
	}
	if most := 2 + 120 + 6; fetches > most {
		t.Errorf("fetches in an hour: got %d, want at most %d", fetches, most)
	}
}

// network answers requests of the default client without a real connection.
type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }

func connect(t *testing.T, n network) {
	t.Helper()
	before := http.DefaultTransport
	http.DefaultTransport = n
	t.Cleanup(func() { http.DefaultTransport = before })
}

func answer(status int, header http.Header, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
}

func remoteKeys(t *testing.T) *caller.RemoteKeys {
	t.Helper()
	keys, err := caller.NewRemoteKeys("https://issuer.example/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Redirects stay on https, and their number is bounded.
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
			keys, err := caller.NewRemoteKeys(c.chain[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := keys.Key(ctx, noon, "a", "ES256"); (err == nil) != c.ok {
				t.Errorf("got error %v, want an error: %t", err, !c.ok)
			}
		})
	}
}

func TestNewRemoteKeys(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://issuer.example/jwks.json": true, "http://127.0.0.1:1/x": true, "http://[::1]/x": true, "http://localhost/x": true,
		"http://issuer.example/jwks.json": false, "file:///etc/passwd": false, "://": false, "": false,
	} {
		if _, err := caller.NewRemoteKeys(address); (err == nil) != ok {
			t.Errorf("%q: got error %v, want an error: %t", address, err, !ok)
		}
	}
}

// A copy of the keys is validated like the issuer's document.
func TestNewFetchedKeys(t *testing.T) {
	i := newIssuer(t, "a")
	fetches := 0
	v := verifier(t, caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) {
		fetches++
		if fetches == 1 {
			return []byte("{}"), time.Time{}, nil
		}
		return i.set(t), time.Time{}, nil
	}))
	for _, c := range []struct {
		after   time.Duration
		want    error
		fetches int
	}{{0, caller.ErrUnverified, 1}, {time.Second, caller.ErrUnverified, 1}, {3 * time.Second, nil, 2}, {59 * time.Minute, nil, 2}} {
		if _, err := v.Verify(ctx, noon.Add(c.after), i.token(t, claims(nil))); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) ||
			fetches != c.fetches {
			t.Errorf("after %s: got %v, %d fetches, want %v, %d fetches", c.after, err, fetches, c.want, c.fetches)
		}
	}
}

// If the keys cannot be fetched again, they stay valid until they are a day old. The age of a copy is
// the age of the original document.
func TestRemoteKeys_stale(t *testing.T) {
	i := newIssuer(t, "a")
	for _, c := range []struct {
		name      string
		copied    time.Time
		fails     bool // fetches after the first one fail
		goodUntil time.Duration
		why       string
	}{
		{"the issuer fails", time.Time{}, true, 24 * time.Hour, "no route"},
		{"the copy cannot be read", noon.Add(-10 * time.Minute), true, 24*time.Hour - 10*time.Minute, "no route"},
		{"the copy is old", noon.Add(-3 * time.Hour), false, 21 * time.Hour, "look at the log of the function that copies the issuer's keys"},
		{"the copy is too old", noon.Add(-240 * time.Hour), false, 0, "look at the log of the function that copies the issuer's keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fetches := 0
			v := verifier(t, caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) {
				fetches++
				if c.fails && fetches > 1 {
					return nil, time.Time{}, errors.New("no route")
				}
				return i.set(t), c.copied, nil
			}))
			verify := func(after time.Duration) error {
				now := noon.Add(after)
				_, err := v.Verify(ctx, now, i.token(t, claims(map[string]any{"exp": now.Add(time.Hour).Unix()})))
				return err
			}
			for _, after := range []time.Duration{0, time.Minute, c.goodUntil - 1} {
				if after < 0 || after >= c.goodUntil {
					continue
				}
				if err := verify(after); err != nil {
					t.Errorf("after %s: got error %v, want none", after, err)
				}
			}
			if c.goodUntil > 0 && fetches != 2 { // an old copy does not cause a read every minute
				t.Errorf("got %d fetches, want 2", fetches)
			}
			for _, after := range []time.Duration{c.goodUntil, c.goodUntil + time.Minute, 365 * 24 * time.Hour} {
				if err := verify(after); !errors.Is(err, caller.ErrUnverified) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("after %s: got %v, want ErrUnverified: %s", after, err, c.why)
				}
			}
		})
	}
}

// An empty key set withdraws all keys.
func TestRemoteKeys_withdrawn(t *testing.T) {
	i := newIssuer(t, "a")
	document := i.set(t)
	v := verifier(t, caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) { return document, time.Time{}, nil }))
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{0, nil}, {time.Hour - 1, nil}, {time.Hour, caller.ErrInvalidCredential}} {
		now := noon.Add(c.after)
		if _, err := v.Verify(ctx, now, i.token(t, claims(map[string]any{"exp": now.Add(time.Hour).Unix()}))); !errors.Is(err, c.want) ||
			(err == nil) != (c.want == nil) {
			t.Errorf("after %s: got error %v, want %v", c.after, err, c.want)
		}
		document = []byte(`{"keys":[]}`)
	}
}

// An ambiguous token is rejected, even while the issuer fails. It causes no fetch, because a newer
// key set cannot resolve the ambiguity.
func TestRemoteKeys_ambiguous(t *testing.T) {
	first, second := newIssuer(t, "a"), newIssuer(t, "b")
	fetches := 0
	keys := caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) {
		fetches++
		if fetches > 1 {
			return nil, time.Time{}, errors.New("no route")
		}
		return first.set(t, second.public()), time.Time{}, nil
	})
	key := func(after time.Duration, id string, want error, wantFetches int) {
		t.Helper()
		if _, err := keys.Key(ctx, noon.Add(after), id, "ES256"); !errors.Is(err, want) || (err == nil) != (want == nil) ||
			fetches != wantFetches {
			t.Errorf("after %s: got error %v and %d fetches, want %v and %d", after, err, fetches, want, wantFetches)
		}
	}
	key(0, "a", nil, 1)
	key(time.Minute, "", caller.ErrInvalidCredential, 1)
	key(time.Minute, "c", caller.ErrUnverified, 2)
	key(2*time.Minute, "", caller.ErrInvalidCredential, 2)
	// The keys are stale, so a fetch follows. A newer set may contain only one of the two keys.
	key(2*time.Hour, "", caller.ErrInvalidCredential, 3)
}

// A fetch has a timeout of two seconds. A request uses the result of the fetch even if the context of
// the request ends at the same instant.
func TestNewFetchedKeys_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, "a")
		begun := time.Now()
		keys := caller.NewFetchedKeys(func(ctx context.Context) ([]byte, time.Time, error) {
			<-ctx.Done()
			return nil, time.Time{}, ctx.Err()
		})
		if _, err := keys.Key(ctx, noon, "a", "ES256"); !errors.Is(err, caller.ErrUnverified) || time.Since(begun) != 2*time.Second {
			t.Errorf("got %v after %s, want ErrUnverified after 2 s", err, time.Since(begun))
		}
		for range 50 { // select chooses at random if both channels are ready
			keys := caller.NewFetchedKeys(func(context.Context) ([]byte, time.Time, error) { return i.set(t), time.Time{}, nil })
			if _, err := keys.Key(ending{ctx}, noon, "a", "ES256"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// ending is a context that ends when all goroutines of the synctest bubble wait.
type ending struct{ context.Context }

func (ending) Done() <-chan struct{} {
	synctest.Wait()
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (ending) Err() error { return context.Canceled }
