package caller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter/caller"
)

// currentKeys is a KeySource whose keys a test can replace.
type currentKeys struct{ atomic.Pointer[caller.KeySet] }

// Key implements KeySource. If the set is nil, the keys cannot be read.
func (c *currentKeys) Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	set := c.Load()
	if set == nil {
		return nil, caller.ErrUnverified
	}
	return set.Key(ctx, now, id, algorithm)
}

// kept fails the test unless the number of tokens that v caches is want.
func kept(t *testing.T, v *caller.Verifier, want int) {
	t.Helper()
	if got, bytes := v.Verified(); got != want || (bytes > 0) != (want > 0) {
		t.Errorf("got %d tokens of %d bytes, want %d tokens", got, bytes, want)
	}
}

// The signature of a repeated token is not verified again. The test counts allocations, because a
// verification needs more than 100.
func TestVerifier_Verify_repeated(t *testing.T) {
	i := newIssuer(t, "a")
	v := verifier(t, keySet(t, i.set(t)))
	token := i.token(t, claims(nil))
	allocs := testing.AllocsPerRun(100, func() {
		if got, err := v.Verify(ctx, noon, token); err != nil || got.User != "alice" || got.Tiers[0] != "paid" || got.Values["org"][0] != "acme" {
			t.Fatalf("got %+v, %v, want user alice, tier paid and org acme", got, err)
		}
	})
	if allocs > 5 {
		t.Errorf("got %v allocations, want at most 5", allocs)
	}
	kept(t, v, 1)
}

// At each instant, a repeated token gets the same answer as an uncached token, even if the clock goes
// back.
func TestVerifier_Verify_repeatedTimes(t *testing.T) {
	i := newIssuer(t, "a")
	keys := keySet(t, i.set(t))
	token := i.token(t, claims(map[string]any{"nbf": noon.Add(-time.Hour).Unix(), "iat": noon.Add(-time.Minute).Unix(),
		"exp": noon.Add(time.Hour).Unix()}))
	for _, c := range []struct {
		after time.Duration
		valid bool
	}{
		{time.Hour, true},
		{time.Hour + time.Minute, true}, // exactly at the end of the leeway of one minute
		{time.Hour + time.Minute + 1, false},
		{24 * time.Hour, false},
		{-2 * time.Minute, true},
		{-2*time.Minute - 1, false}, // more than the leeway before the claim iat
		{-2 * time.Hour, false},
	} {
		v := verifier(t, keys)
		if _, err := v.Verify(ctx, noon, token); err != nil {
			t.Fatal(err)
		}
		now := noon.Add(c.after)
		_, first := verifier(t, keys).Verify(ctx, now, token)
		_, err := v.Verify(ctx, now, token)
		if (err == nil) != c.valid || fmt.Sprint(err) != fmt.Sprint(first) || err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Errorf("after %s: got %v, want valid %t and the answer of the first use: %v", c.after, err, c.valid, first)
		}
		if c.valid {
			kept(t, v, 1)
		} else {
			kept(t, v, 0)
		}
	}
}

// A repeated token is valid only while its key is valid.
func TestVerifier_Verify_repeatedKeys(t *testing.T) {
	i, other, stranger := newIssuer(t, "a"), newIssuer(t, "b"), newIssuer(t, "a")
	with := func(document []byte) *caller.KeySet { return keySet(t, document) }
	for name, c := range map[string]struct {
		set  *caller.KeySet
		want error
	}{
		"the same key in a new set":    {with(i.set(t)), nil},
		"an additional key":            {with(i.set(t, other.public())), nil},
		"key removed":                  {with(other.set(t)), caller.ErrInvalidCredential},
		"no keys":                      {with([]byte(`{"keys":[]}`)), caller.ErrInvalidCredential},
		"another key with the same ID": {with(stranger.set(t)), caller.ErrInvalidCredential},
		"ambiguous":                    {with(i.set(t, stranger.public())), caller.ErrInvalidCredential},
		"keys that cannot be read":     {nil, caller.ErrUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			var keys currentKeys
			keys.Store(with(i.set(t)))
			v, token := verifier(t, &keys), i.token(t, claims(nil))
			for range 2 {
				if _, err := v.Verify(ctx, noon, token); err != nil {
					t.Fatal(err)
				}
			}
			before := keys.Load()
			keys.Store(c.set)
			for range 2 {
				if _, err := v.Verify(ctx, noon, token); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			}
			keys.Store(before)
			if _, err := v.Verify(ctx, noon, token); err != nil {
				t.Errorf("the first keys again: got error %v, want none", err)
			}
		})
	}
}

// A cached token does not keep a replaced key set in memory.
func TestVerifier_Verify_repeatedKeys_freed(t *testing.T) {
	i := newIssuer(t, "a")
	var keys currentKeys
	keys.Store(keySet(t, i.set(t)))
	v := verifier(t, &keys)
	if _, err := v.Verify(ctx, noon, i.token(t, claims(nil))); err != nil {
		t.Fatal(err)
	}
	old := weak.Make(keys.Load())
	keys.Store(keySet(t, i.set(t)))
	runtime.GC()
	if old.Value() != nil {
		t.Error("replaced key set: got it still in memory, want it freed")
	}
	kept(t, v, 1)
}

// Bad tokens are not cached. The number and the size of cached valid tokens are bounded.
func TestVerifier_Verify_bound(t *testing.T) {
	i, stranger := newIssuer(t, "a"), newIssuer(t, "a")
	v := verifier(t, keySet(t, i.set(t)))
	user := func(i issuer, n int, more string) string {
		return i.token(t, claims(map[string]any{"sub": fmt.Sprint("user-", n), "more": more}))
	}
	good := user(i, 0, "")
	for n := range 20 {
		for _, bad := range []string{user(stranger, n, ""), fmt.Sprintf("%d.e30.AAAA", n), good[:len(good)-8] + fmt.Sprintf("%08d", n),
			strings.Repeat("a", n)} {
			if _, err := v.Verify(ctx, noon, bad); err == nil {
				t.Fatalf("bad token %s: got no error, want one", bad)
			}
		}
	}
	if _, err := v.Verify(ctx, noon, i.token(t, claims(map[string]any{"exp": noon.Add(-time.Hour).Unix()}))); err == nil {
		t.Error("expired token: got no error, want one")
	}
	kept(t, v, 0)
	first := user(i, 0, "")
	for n := range 2010 {
		if _, err := v.Verify(ctx, noon, user(i, n, "")); err != nil {
			t.Fatal(err)
		}
	}
	kept(t, v, 2000)
	if _, err := v.Verify(ctx, noon, first); err != nil {
		t.Errorf("evicted token: got error %v, want none", err)
	}
	large := strings.Repeat("x", 5000)
	for n := range 800 {
		if _, err := v.Verify(ctx, noon, user(i, n, large)); err != nil {
			t.Fatal(err)
		}
		if _, bytes := v.Verified(); bytes > 4<<20 {
			t.Fatalf("got %d bytes, want at most 4 MiB", bytes)
		}
	}
	if tokens, _ := v.Verified(); tokens < 600 {
		t.Errorf("got %d large tokens, want at least 600", tokens)
	}
}

// Concurrent requests with valid, expired and forged tokens get the same answers as without
// concurrency, while the keys are read again.
func TestVerifier_Verify_concurrent(t *testing.T) {
	i, stranger := newIssuer(t, "a"), newIssuer(t, "a")
	var keys currentKeys
	keys.Store(keySet(t, i.set(t)))
	v := verifier(t, &keys)
	good := []string{i.token(t, claims(nil)), i.token(t, claims(map[string]any{"tier": "free"}))}
	bad := []string{stranger.token(t, claims(nil)), i.token(t, claims(map[string]any{"exp": noon.Add(-time.Hour).Unix()}))}
	var valid, invalid atomic.Int64
	var wg sync.WaitGroup
	const goroutines, rounds = 8, 25
	for g := range goroutines {
		wg.Go(func() {
			for n := range rounds {
				if n%10 == g {
					keys.Store(keySet(t, i.set(t)))
				}
				for _, token := range good {
					if got, err := v.Verify(ctx, noon, token); err == nil && got.User == "alice" {
						valid.Add(1)
					}
				}
				for _, token := range bad {
					if _, err := v.Verify(ctx, noon, token); errors.Is(err, caller.ErrInvalidCredential) {
						invalid.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if want := int64(2 * goroutines * rounds); valid.Load() != want || invalid.Load() != want {
		t.Errorf("got %d valid and %d invalid answers, want %d of each", valid.Load(), invalid.Load(), want)
	}
	kept(t, v, 2)
}
