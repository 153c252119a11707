package limiter

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
)

const maxID = 1<<40 - 1

// ID identifies a limit inside its subject. It is a hash of what the limit is, not of its position,
// so the order of a document does not matter. It has 40 bits. Code that makes several limits for one
// subject checks that their IDs differ.
type ID uint64

// NewID returns the hash of parts. No two lists of parts have the same encoding.
func NewID(parts ...string) ID {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return ID(binary.BigEndian.Uint64(h.Sum(nil)) >> 24)
}

var idText = base32.HexEncoding.WithPadding(base32.NoPadding)

// String returns the id in 8 letters and digits.
func (id ID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return idText.EncodeToString(b[3:])
}

// ParseID reads what String returned.
func ParseID(s string) (ID, error) {
	var b [8]byte
	if len(s) == idText.EncodedLen(5) { // or Decode would write past the end
		if n, err := idText.Decode(b[3:], []byte(s)); err == nil && n == 5 { // it skips line breaks
			return ID(binary.BigEndian.Uint64(b[:])), nil
		}
	}
	return 0, fmt.Errorf("limit id %q: want 8 letters and digits", s)
}
