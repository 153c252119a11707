package limiter

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
)

const (
	maxID   = 1<<40 - 1
	idBytes = 5
)

// ID identifies a limit inside its subject. It is a hash of 40 bits. Its input is the properties that
// identify the limit, not the limit's position in a document. Code that makes several limits for one
// subject MUST check that their IDs differ.
type ID uint64

// NewID returns the hash of parts. It hashes each part with its length, so ("a", "bc") and ("ab", "c")
// are different inputs.
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

// bytes returns the id in idBytes bytes.
func (id ID) bytes() []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return b[8-idBytes:]
}

// idOf is the inverse of bytes.
func idOf(b []byte) ID {
	var full [8]byte
	copy(full[8-idBytes:], b)
	return ID(binary.BigEndian.Uint64(full[:]))
}

// String returns the id in 8 letters and digits.
func (id ID) String() string {
	return idText.EncodeToString(id.bytes())
}

// ParseID parses an id that String formatted.
func ParseID(s string) (ID, error) {
	var b [8]byte
	if len(s) == idText.EncodedLen(5) { // otherwise Decode would write past the end
		if n, err := idText.Decode(b[3:], []byte(s)); err == nil && n == 5 { // Decode skips line breaks, so check n
			return ID(binary.BigEndian.Uint64(b[:])), nil
		}
	}
	return 0, fmt.Errorf("limit id: invalid (got %q, want 8 letters and digits)", s)
}
