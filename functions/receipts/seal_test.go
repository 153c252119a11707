package receipts_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// A ring opens exactly what it sealed. Any other text is a forgery: a change of one bit, a part of a
// receipt, a longer text, and a receipt of another deployment or namespace.
func TestRing_forged(t *testing.T) {
	keys := receipts.NewKeys()
	ring := receipts.Fixed("dev", keys)
	text := storetest.Must(ring.Seal(ctx, noon, []byte("charges")))
	if got, err := ring.Open(ctx, noon, text); err != nil || string(got) != "charges" {
		t.Fatalf("got %q, %v; want the receipt", got, err)
	}
	forged := func(name, text string) {
		t.Helper()
		if got, err := ring.Open(ctx, noon, text); !errors.Is(err, receipts.ErrForged) {
			t.Errorf("%s: got %q, %v; want ErrForged", name, got, err)
		}
	}
	sealed := storetest.Must(base64.RawURLEncoding.DecodeString(text))
	for i := range 8 * len(sealed) {
		changed := bytes.Clone(sealed)
		changed[i/8] ^= 1 << (i % 8)
		forged("a changed bit", base64.RawURLEncoding.EncodeToString(changed))
	}
	for i := range text {
		forged("a part", text[:i])
		forged("a part", text[i+1:])
	}
	forged("a longer text", text+"A")
	forged("padding", text+"==")
	forged("a line break", text[:10]+"\n"+text[10:])
	forged("another deployment", storetest.Must(receipts.Fixed("dev", receipts.NewKeys()).Seal(ctx, noon, []byte("charges"))))
	forged("another namespace with the same keys", storetest.Must(receipts.Fixed("prod", keys).Seal(ctx, noon, []byte("charges"))))
	elsewhere := receipts.NewRing(receipts.Scope{Namespace: "dev", Region: "eu-west-1"}, func(context.Context) (receipts.Keys, error) { return keys, nil })
	forged("another region with the same keys", storetest.Must(elsewhere.Seal(ctx, noon, []byte("charges"))))
	forged("an oversized text", storetest.Must(ring.Seal(ctx, noon, make([]byte, 1491)))+"A")
}

// An oversized text is refused before it is decoded.
func TestRing_Open_oversized(t *testing.T) {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	text := strings.Repeat("A", contract.MaxReceipt+1)
	storetest.Must(ring.Seal(ctx, noon, nil)) // this call reads the keys
	if n := testing.AllocsPerRun(100, func() { _, _ = ring.Open(ctx, noon, text) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// Two receipts of the same content differ in all bytes except the version and the key id.
func TestRing_Seal_random(t *testing.T) {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	a := storetest.Must(base64.RawURLEncoding.DecodeString(storetest.Must(ring.Seal(ctx, noon, []byte("charges")))))
	b := storetest.Must(base64.RawURLEncoding.DecodeString(storetest.Must(ring.Seal(ctx, noon, []byte("charges")))))
	if !bytes.Equal(a[:5], b[:5]) || bytes.Equal(a[5:17], b[5:17]) || bytes.Equal(a[17:29], b[17:29]) || bytes.Equal(a[29:], b[29:]) {
		t.Errorf("got %x and %x, want equal headers and other salts, nonces and ciphertexts", a, b)
	}
}

// A receipt is at most contract.MaxReceipt bytes.
func TestRing_Seal_length(t *testing.T) {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	for length, fits := range map[int]bool{0: true, 1491: true, 1492: false, 1 << 20: false} {
		text, err := ring.Seal(ctx, noon, make([]byte, length))
		if fits && (err != nil || len(text) > contract.MaxReceipt) || !fits && !errors.Is(err, receipts.ErrTooLong) {
			t.Errorf("%d bytes: got a receipt of %d bytes, %v; want it to fit: %t", length, len(text), err, fits)
		}
	}
	if text := storetest.Must(ring.Seal(ctx, noon, make([]byte, 1491))); len(text) != contract.MaxReceipt {
		t.Errorf("the longest receipt: got %d bytes, want %d", len(text), contract.MaxReceipt)
	}
}

// During a rotation every ring opens the receipts of every other ring, although some have not read the
// new key yet. The previous key opens receipts until the next rotation.
func TestRing_rotation(t *testing.T) {
	before := receipts.NewKeys()
	after := receipts.Rotated(before, noon)
	old, rotated := receipts.Fixed("dev", before), receipts.Fixed("dev", after)
	for _, c := range []struct {
		name         string
		sealer, open *receipts.Ring
		at           time.Time
	}{
		{"old to new", old, rotated, noon},
		{"new to old", rotated, old, noon},
		{"new to old, as long as a ring uses keys", rotated, old, noon.Add(receipts.Stale - 1)},
		{"old to new, a life later", old, rotated, noon.Add(receipts.Stale + receipts.MaxLife)},
		{"new to new", rotated, rotated, noon.Add(receipts.Stale)},
		{"the new key", rotated, receipts.Fixed("dev", receipts.Forget(after)), noon.Add(receipts.Stale)},
	} {
		if got, err := c.open.Open(ctx, c.at, storetest.Must(c.sealer.Seal(ctx, c.at, []byte("charges")))); err != nil || string(got) != "charges" {
			t.Errorf("%s: got %q, %v; want the receipt", c.name, got, err)
		}
	}
	if _, err := receipts.Fixed("dev", receipts.Rotated(after, noon)).Open(ctx, noon, storetest.Must(old.Seal(ctx, noon, nil))); !errors.Is(err, receipts.ErrForged) {
		t.Errorf("after the second rotation: got %v, want ErrForged", err)
	}
}

// No text but a sealed receipt opens, and no text panics.
func FuzzRing_Open(f *testing.F) {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	text := storetest.Must(ring.Seal(ctx, noon, []byte("charges")))
	f.Add(text)
	f.Add("")
	f.Add("AQAAAA")
	f.Fuzz(func(t *testing.T, forged string) {
		if got, err := ring.Open(ctx, noon, forged); (err == nil) != (forged == text) {
			t.Errorf("%q: got %q, %v; want ErrForged", forged, got, err)
		}
	})
}

// BenchmarkRing measures a receipt of a typical size.
func BenchmarkRing(b *testing.B) {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	receipt := make([]byte, 300)
	text := storetest.Must(ring.Seal(ctx, noon, receipt))
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			storetest.Must(ring.Seal(ctx, noon, receipt))
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			storetest.Must(ring.Open(ctx, noon, text))
		}
	})
}
