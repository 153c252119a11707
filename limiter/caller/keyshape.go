package caller

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

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
