package caller

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// maxAPIKey is the maximum length, in bytes, of an API key that Lookup accepts.
const maxAPIKey = 256

// Record is the stored record of an API key. It does not contain the key, only a keyed hash of the
// key. The hash is useless without the secret.
type Record struct {
	ID    string `json:"id"`   // limits count by the ID, which stays the same when the caller gets a new key
	Hash  string `json:"hash"` // result of HashAPIKey for the key
	Tier  string `json:"tier,omitempty"`
	Owner string `json:"owner,omitempty"`
	// If Suspended is true, each request with this key fails with ErrSuspended, even if it has a valid
	// token.
	Suspended bool `json:"suspended,omitempty"`
	// Limits replace numbers in the rules document for this caller. nil means that they were never set.
	Limits *Limits `json:"limits,omitempty"`
	// Created is the time of the key's creation, for operators. No decision depends on it.
	Created time.Time `json:"created,omitzero"`
}

// HashAPIKey returns the HMAC-SHA256 of an API key in hexadecimal digits.
func HashAPIKey(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil))
}

// DigestKey returns the SHA-256 of an API key in hexadecimal digits. RemoteRecords hashes a foreign key's digest instead
// of the key, because some operators have only digests of their keys.
func DigestKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// KeyRecords finds the record of an API key. It is safe for concurrent use.
type KeyRecords interface {
	// Lookup returns the record of an API key at the time now. The error wraps ErrInvalidCredential if there is
	// no record, or ErrUnverified if the records could not be read. The error contains no part of the key.
	Lookup(ctx context.Context, now time.Time, key string) (Record, error)
}

// APIKeys is an immutable list of records. It implements KeyRecords.
type APIKeys struct {
	secret []byte
	byHash map[string]Record
}

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 16

// RecordError is a mistake in one record of a list. It contains no part of a key or a hash.
type RecordError struct {
	Index int
	ID    string // "" if the record has none
	Err   error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("API key records: [%d] of %q: %v", e.Index, e.ID, e.Err)
}

// Unwrap returns e.Err.
func (e *RecordError) Unwrap() error { return e.Err }

// ParseAPIKeys parses a JSON list of records. Their hashes must be computed with secret. If one record has a
// mistake, the error is a *RecordError.
func ParseAPIKeys(list, secret []byte) (*APIKeys, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("API key secret: got %d bytes, want at least %d", len(secret), minSecret)
	}
	var records []json.RawMessage
	if err := json.Unmarshal(list, &records); err != nil {
		return nil, fmt.Errorf("API key records: %w", err)
	}
	keys := &APIKeys{secret, make(map[string]Record, len(records))}
	for i, text := range records {
		if err := keys.add(text); err != nil {
			var r struct{ ID string }
			_ = json.Unmarshal(text, &r) // without an id, the index names the record
			return nil, &RecordError{i, r.ID, err}
		}
	}
	return keys, nil
}

func (k *APIKeys) add(text []byte) error {
	var r Record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return err
	}
	switch hash, err := hex.DecodeString(r.Hash); {
	case r.ID == "":
		return errors.New("id: missing")
	case err != nil || len(hash) != sha256.Size || strings.ToLower(r.Hash) != r.Hash:
		return fmt.Errorf("hash: invalid (want %d lower-case hexadecimal digits)", 2*sha256.Size)
	case k.byHash[r.Hash].ID != "":
		return fmt.Errorf("hash: duplicate of the hash of %q", k.byHash[r.Hash].ID)
	}
	k.byHash[r.Hash] = r
	return nil
}

// Find returns the first record with an id, for operators.
func (k *APIKeys) Find(id string) (r Record, ok bool) {
	for _, r := range k.byHash {
		if r.ID == id {
			return r, true
		}
	}
	return Record{}, false
}

// Lookup implements KeyRecords. It compares keyed hashes, so its duration reveals no part of a key.
func (k *APIKeys) Lookup(_ context.Context, _ time.Time, key string) (Record, error) {
	if len(key) > maxAPIKey {
		return Record{}, fmt.Errorf("%w: API key of %d bytes", ErrInvalidCredential, len(key))
	}
	record, ok := k.byHash[HashAPIKey(k.secret, key)]
	if !ok && IsForeignKey(key) {
		record, ok = k.byHash[HashAPIKey(k.secret, DigestKey(key))]
	}
	if !ok {
		return Record{}, fmt.Errorf("%w: unknown API key", ErrInvalidCredential)
	}
	return record, nil
}

// An API key has a fixed prefix, by which scanners find leaked keys. The rest is random bytes and their checksum, in
// base64url.
const (
	keyPrefix = "weir_"
	keyRandom = 32
	keyBytes  = keyRandom + crc32.Size
)

// NewAPIKey returns a new API key: weir_ and 48 letters, digits, - and _. They encode 32 random bytes
// and their CRC-32. The checksum detects a mistyped or truncated key without a lookup. It does not
// prove that a key is valid, because anyone can compute it.
func NewAPIKey() string {
	b := make([]byte, keyRandom, keyBytes)
	_, _ = rand.Read(b) // rand.Read never fails
	return keyPrefix + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// isForeign reports whether a key is not Weir's. The value of a repeated header field is a list of keys, so it is not foreign
// if one of them is Weir's.
func isForeign(list string) bool {
	for key := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(strings.TrimSpace(key), keyPrefix) {
			return false
		}
	}
	return true
}

// minForeign is the length of the shortest foreign API key that can have a record.
const minForeign = 16

// IsForeignKey reports whether an API key can have a record although it is not Weir's. Such a key has 16 to 256 visible
// characters of ASCII. It has no comma, which separates the values of a repeated header field.
func IsForeignKey(key string) bool {
	invisible := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
	return len(key) >= minForeign && len(key) <= maxAPIKey && isForeign(key) && !strings.ContainsFunc(key, invisible)
}

// WellFormed reports whether key has the format of NewAPIKey. Nobody can guess such a key from a hash.
func WellFormed(key string) bool {
	text, ok := strings.CutPrefix(key, keyPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(keyBytes) {
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(b) == keyBytes && crc32.ChecksumIEEE(b[:keyRandom]) == binary.BigEndian.Uint32(b[keyRandom:])
}
