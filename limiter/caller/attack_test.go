package caller_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter/caller"
)

func encoded(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// written returns a token with the given header and claims, signed with ES256.
func (i issuer) written(t testing.TB, header, claims string) string {
	t.Helper()
	content := encoded(header) + "." + encoded(claims)
	digest := sha256.Sum256([]byte(content))
	r, s, err := ecdsa.Sign(rand.Reader, i.key.(*ecdsa.PrivateKey), digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return content + "." + encoded(string(signature))
}

// body returns the claims of a valid token after a prefix.
func body(t testing.TB, before string) string {
	t.Helper()
	b, err := json.Marshal(claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	return "{" + before + string(b[1:])
}

// The header of a token cannot replace the issuer's key or the pinned algorithms.
func TestVerifier_Verify_header(t *testing.T) {
	i, stranger := newIssuer(t, "a"), newIssuer(t, "a")
	fetched := 0
	connect(t, func(*http.Request) (*http.Response, error) { fetched++; return nil, errors.New("no network") })
	v := verifier(t, keySet(t, i.set(t)))
	own, err := json.Marshal(stranger.public())
	if err != nil {
		t.Fatal(err)
	}
	huge := strings.Repeat("k", 4000)
	for _, c := range []struct {
		name   string
		signer issuer
		header string
		ok     bool
	}{
		{"valid header", i, `{"alg":"ES256","kid":"a"}`, true},
		{"no kid, and the issuer has one key", i, `{"alg":"ES256"}`, true},
		{"a type", i, `{"alg":"ES256","kid":"a","typ":"JWT"}`, true},
		{"the issuer's key, and a jwk that is ignored", i, `{"alg":"ES256","kid":"a","jwk":` + string(own) + `}`, true},
		{"jwk", stranger, `{"alg":"ES256","kid":"a","jwk":` + string(own) + `}`, false},
		{"jwk without kid", stranger, `{"alg":"ES256","jwk":` + string(own) + `}`, false},
		{"jku", stranger, `{"alg":"ES256","kid":"a","jku":"https://evil.example/jwks.json"}`, false},
		{"x5u", stranger, `{"alg":"ES256","kid":"a","x5u":"https://evil.example/cert.pem"}`, false},
		{"x5c", stranger, `{"alg":"ES256","kid":"a","x5c":["` + base64.StdEncoding.EncodeToString([]byte("cert")) + `"]}`, false},
		{"crit", i, `{"alg":"ES256","kid":"a","crit":["exp"],"exp":1}`, false},
		{"crit of an extension that go-jose supports", i, `{"alg":"ES256","kid":"a","crit":["b64"],"b64":true}`, false},
		{"crit with an empty list", i, `{"alg":"ES256","kid":"a","crit":[]}`, false},
		{"crit of an unknown extension", i, `{"alg":"ES256","kid":"a","crit":["http://example.com/x"]}`, false},
		{"kid twice", i, `{"alg":"ES256","kid":"a","kid":"a"}`, false},
		{"alg twice", i, `{"alg":"ES256","alg":"none","kid":"a"}`, false},
		{"alg none", i, `{"alg":"none","kid":"a"}`, false},
		{"alg nOnE", i, `{"alg":"nOnE","kid":"a"}`, false},
		{"no alg", i, `{"kid":"a"}`, false},
		{"alg in lower case", i, `{"alg":"es256","kid":"a"}`, false},
		{"alg not pinned", i, `{"alg":"ES384","kid":"a"}`, false},
		{"kid that is not a string", i, `{"alg":"ES256","kid":1}`, false},
		{"huge kid", i, `{"alg":"ES256","kid":"` + huge + `"}`, false},
		{"kid of a file", i, `{"alg":"ES256","kid":"../../dev/null"}`, false},
		{"deep", i, `{"alg":"ES256","kid":"a","x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, true},
	} {
		_, err := v.Verify(ctx, noon, c.signer.written(t, c.header, body(t, "")))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("%s: got error %v, want an error: %t", c.name, err, !c.ok)
		}
		if err != nil && (len(err.Error()) > 200 || strings.Contains(err.Error(), huge[:100])) {
			t.Errorf("%s: got an error with the header, want it without: %.300s", c.name, err)
		}
	}
	if fetched > 0 {
		t.Errorf("fetches of URLs in headers: got %d, want 0", fetched)
	}
}

// An attacker signs a token with the public key as a shared secret. The Verifier rejects it for every algorithm.
func TestVerifier_Verify_confusion(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := issuer{"a", key, jose.RS256}
	v, err := caller.NewVerifier(caller.TokenOptions{Keys: keySet(t, i.set(t)), Issuer: "https://issuer.example", Audience: []string{"weir"},
		Algorithms: []string{"RS256"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
		t.Error(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), key.N.Bytes(), i.set(t)} {
		for _, alg := range []string{"HS256", "RS256", "PS256", "none"} {
			content := encoded(fmt.Sprintf(`{"alg":%q,"kid":"a"}`, alg)) + "." + encoded(body(t, ""))
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(content))
			if _, err := v.Verify(ctx, noon, content+"."+encoded(string(mac.Sum(nil)))); !errors.Is(err, caller.ErrInvalidCredential) {
				t.Errorf("%s with the public key as a secret: got %v, want ErrInvalidCredential", alg, err)
			}
		}
	}
}

// A token with a duplicate member is rejected, because two parsers could read different values. Any name
// of a user is accepted.
func TestVerifier_Verify_duplicateMembers(t *testing.T) {
	i := newIssuer(t, "a")
	v := verifier(t, keySet(t, i.set(t)))
	for before, want := range map[string]string{
		"":                            "alice",
		`"sub":"admin",`:              "",
		`"iss":"https://x.example",`:  "",
		`"exp":99999999999,`:          "",
		`"org":"other",`:              "",
		`"Sub":"admin","SUB":"root",`: "alice", // JSON names are case-sensitive
		`"note":"\u0000",`:            "alice",
		`"deep":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,`: "alice",
	} {
		got, err := v.Verify(ctx, noon, i.written(t, `{"alg":"ES256","kid":"a"}`, body(t, before)))
		if got.User != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("%.40s: got %q, %v, want %q", before, got.User, err, want)
		}
	}
	for name, changes := range map[string]map[string]any{
		"exp is text": {"exp": "4102444800"}, "exp is no number": {"exp": []int{1}}, "exp is below zero": {"exp": -1}, "exp is zero": {"exp": 0},
		"nbf is text": {"nbf": "1"}, "iss in another case": {"iss": "https://ISSUER.example"},
		"iss with a slash": {"iss": "https://issuer.example/"}, "iss is a list": {"iss": []string{"https://issuer.example"}},
		"aud is empty": {"aud": []string{}}, "aud in another case": {"aud": "Weir"}, "aud with more": {"aud": "weir other"},
		"aud contains an object": {"aud": []any{map[string]any{}}},
	} {
		if _, err := v.Verify(ctx, noon, i.token(t, claims(changes))); !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("%s: got error %v, want ErrInvalidCredential", name, err)
		}
	}
	for _, user := range []string{"a|b", "user:alice", "\x00\n\x1b[31m", strings.Repeat("x", 5000), "\u202e", "../..", "global", "*"} {
		got, err := v.Verify(ctx, noon, i.token(t, claims(map[string]any{"sub": user})))
		if err != nil || got.User != user {
			t.Errorf("%.20q: got %.20q, %v, want %.20q", user, got.User, err, user)
		}
	}
}

// If two keys have the same ID, neither is used. A key set ignores keys of unsupported sizes.
func TestKeySet_Key_hostile(t *testing.T) {
	i := newIssuer(t, "a")
	if _, err := verifier(t, keySet(t, i.set(t, newIssuer(t, "a").public()))).Verify(ctx, noon, i.token(t, claims(nil))); !errors.Is(err,
		caller.ErrInvalidCredential) {
		t.Errorf("two keys with the same ID: got %v, want ErrInvalidCredential", err)
	}
	for bits, ok := range map[int]bool{1024: false, 2040: false, 2048: true, 4096: true, 4104: false, 1 << 20: false} {
		n := make([]byte, bits/8)
		for j := range n {
			n[j] = 0xff
		}
		set := fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"r","e":"AQAB","n":%q}]}`, encoded(string(n)))
		parsed, err := caller.ParseKeySet([]byte(set))
		if err == nil {
			_, err = parsed.Key(ctx, noon, "r", "RS256")
		}
		if (err == nil) != ok {
			t.Errorf("key of %d bits: got %v, want an error: %t", bits, err, !ok)
		}
	}
}

// A fetch times out if the issuer sends its document one byte at a time or endlessly.
func TestRemoteKeys_body(t *testing.T) {
	i := newIssuer(t, "a")
	for name, pause := range map[string]time.Duration{"slow": 100 * time.Millisecond, "endless": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := &trickle{pause: pause}
				connect(t, func(r *http.Request) (*http.Response, error) {
					sent.ctx = r.Context()
					return &http.Response{StatusCode: http.StatusOK, Body: sent}, nil
				})
				begun := time.Now()
				_, err := verifier(t, remoteKeys(t)).Verify(ctx, noon, i.token(t, claims(nil)))
				if took := time.Since(begun); !errors.Is(err, caller.ErrUnverified) || took > 2*time.Second {
					t.Errorf("got %v after %s, want ErrUnverified within 2 s", err, took)
				}
				synctest.Wait()
				if most := 1<<20 + 1<<16; sent.bytes > most || !sent.closed {
					t.Errorf("got %d bytes read, want at most %d; closed: %t", sent.bytes, most, sent.closed)
				}
			})
		})
	}
}

// trickle is an endless body.
type trickle struct {
	ctx    context.Context
	pause  time.Duration
	bytes  int
	closed bool
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.pause > 0 {
		select {
		case <-time.After(b.pause):
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
		p = p[:1]
	}
	for i := range p {
		p[i] = ' '
	}
	b.bytes += len(p)
	return len(p), nil
}

func (b *trickle) Close() error { b.closed = true; return nil }

var _ io.ReadCloser = (*trickle)(nil)

// stuck is a table whose reads block until the test releases them.
type stuck struct {
	secret []byte
	answer chan struct{}
	record caller.Record
}

func (s *stuck) Secret(context.Context) ([]byte, error) { return s.secret, nil }

func (s *stuck) Record(_ context.Context, hash string) (caller.Record, bool, error) {
	<-s.answer
	return s.record, hash == s.record.Hash, nil
}

// The number of running reads is bounded, even if many clients disconnect during lookups.
func TestRemoteRecords_concurrentReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := caller.NewAPIKey()
		source := &stuck{secret: secret, answer: make(chan struct{}, 1), record: caller.Record{ID: "k", Hash: caller.HashAPIKey(secret, key)}}
		r := caller.NewRemoteRecords(source)
		known := func(at time.Duration) {
			t.Helper()
			if record, err := r.Lookup(ctx, noon.Add(at), key); err != nil || record.ID != "k" {
				t.Errorf("at %s: got %+v, %v, want the record k", at, record, err)
			}
		}
		source.answer <- struct{}{}
		known(0)
		gone, hangUp := context.WithCancel(ctx)
		hangUp()
		refused := 0
		for range 5000 {
			_, err := r.Lookup(gone, noon, caller.NewAPIKey())
			if !errors.Is(err, caller.ErrUnverified) {
				t.Fatalf("got error %v, want ErrUnverified", err)
			}
			if strings.Contains(err.Error(), "too many concurrent lookups (want at most 1000)") {
				refused++
			}
		}
		if n := r.Reading(); n != 1000 || refused != 4000 {
			t.Errorf("got %d concurrent reads, %d of 5000 lookups refused, want 1000 and 4000", n, refused)
		}
		known(time.Minute) // the cached record is due for a new read, but may still be used
		close(source.answer)
		synctest.Wait()
		if n := r.Reading(); n != 0 {
			t.Errorf("running reads: got %d, want 0", n)
		}
		known(2 * time.Minute)
	})
}
