package apikeys

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

// Imported is a key that another system created.
type Imported struct {
	Key // ID, Tier and Owner
	// Secret is the API key itself: a key of Weir, or a foreign key (caller.IsForeignKey). Digest is its SHA-256 in
	// hexadecimal digits (caller.DigestKey). An Imported has one of them.
	Secret, Digest string
}

// minBits is the entropy from which others cannot guess a key. The table has the secret of the hashes, so its readers can
// try billions of keys a second.
const minBits = 56

// Check returns an error if the key cannot be imported. The error contains no part of the key. Check does not recognize keys that consist
// of words.
func (i Imported) Check() error {
	switch digest, err := hex.DecodeString(i.Digest); {
	case (i.Secret == "") == (i.Digest == ""):
		return errors.New("want a key or its SHA-256, but not both")
	case i.Digest != "" && (err != nil || len(digest) != 32 || strings.ToLower(i.Digest) != i.Digest):
		return errors.New("sha256: want 64 lower-case hexadecimal digits")
	case i.Secret != "" && !caller.WellFormed(i.Secret) && !caller.IsForeignKey(i.Secret):
		return fmt.Errorf("key: got %d bytes, want 16 to 256 visible characters without a comma; with the prefix weir_, want a key that weir "+
			"keys create printed", len(i.Secret))
	}
	if err := i.validate(); err != nil {
		return err
	}
	if i.Secret == "" {
		return nil
	}
	if bits := entropy(i.Secret); bits < minBits {
		return fmt.Errorf("the key can be guessed: got about %.0f bits of entropy, want at least %d; give this caller a new key", bits, minBits)
	}
	return nil
}

// entropy returns the Shannon entropy of the characters of a text, in bits. It is too high for words, and a little too
// low for short random texts.
func entropy(text string) (bits float64) {
	counts := map[rune]float64{}
	for _, r := range text {
		counts[r]++
	}
	n := float64(len(text))
	for _, c := range counts {
		bits -= c * math.Log2(c/n)
	}
	return bits
}

// hash returns the hash in the record of the key.
func (i Imported) hash(secret []byte) string {
	if caller.WellFormed(i.Secret) {
		return caller.HashAPIKey(secret, i.Secret)
	}
	return caller.HashAPIKey(secret, cmp.Or(i.Digest, caller.DigestKey(i.Secret)))
}

// Import writes the records of keys, which must pass Check. It returns the written keys, even with an
// error. Keys that the table has are left out, so a failed Import can be repeated. If the id has keys, the new one gets
// Suspended and Limits of the newest. A key without a tier gets the tier of the newest key, or else the argument tier.
func (t *Keys) Import(ctx context.Context, now time.Time, list []Imported, tier string) (written []Key, err error) {
	for n, i := range list {
		i.Tier = cmp.Or(i.Tier, tier)
		if err := i.Check(); err != nil {
			return nil, fmt.Errorf("key %d: %w", n+1, err)
		}
	}
	all, err := t.all(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := t.secret(ctx, len(all) == 0)
	if err != nil {
		return nil, err
	}
	ids, newest := map[string]string{}, map[string]Key{}
	for _, k := range all {
		t.warn(k.malformed)
		ids[k.item] = k.ID
		if k.malformed == nil {
			newest[k.ID] = k.Key
		}
	}
	var hashes []string // of the keys that the table lacks; "" for one that it has
	for n, i := range list {
		hash := i.hash(secret)
		id, known := ids[prefix+hash]
		if known && id != i.ID {
			return nil, fmt.Errorf("key %d: got the id %q, but the same key has the id %q", n+1, i.ID, id)
		}
		ids[prefix+hash] = i.ID
		if known {
			hash = ""
		}
		hashes = append(hashes, hash)
	}
	for n, hash := range hashes {
		if hash == "" {
			continue
		}
		k := list[n].after(newest[list[n].ID])
		k.Tier = cmp.Or(k.Tier, tier)
		k, err = t.put(ctx, now, k, hash)
		if err != nil {
			return written, err
		}
		newest[k.ID], written = k, append(written, k)
	}
	return written, nil
}
