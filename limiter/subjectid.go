package limiter

import (
	"crypto/sha256"
	"hash/maphash"
)

// SubjectID identifies a Subject in a table in memory. It contains the kind, the length of the name, and
// the name, or the SHA-256 of a name that is too long. Different subjects have different IDs, unless
// SHA-256 has a collision.
type SubjectID [40]byte

const (
	idHead   = 2 // bytes before the name
	idHashed = 0x80
)

// ID returns the ID of s.
func (s Subject) ID() (id SubjectID) {
	id[0], id[1] = byte(s.kind), byte(len(s.name))
	if s.hashed() {
		sum := sha256.Sum256([]byte(s.name))
		id[0], id[1] = byte(s.kind)|idHashed, byte(copy(id[idHead:], sum[:]))
		return id
	}
	copy(id[idHead:], s.name)
	return id
}

// hashed reports whether the name of s is too long for an ID.
func (s Subject) hashed() bool { return len(s.name) > len(SubjectID{})-idHead }

// Hash returns a hash of s for tables in memory. The ID of s has the same hash.
func (s Subject) Hash(seed maphash.Seed) uint64 {
	if s.hashed() {
		id := s.ID()
		return id.Hash(seed)
	}
	return maphash.String(seed, s.name) + uint64(s.kind)*kindHash
}

// kindHash makes the hashes of equal names of two kinds differ in all bits.
const kindHash = 0x9e3779b97f4a7c15

// Hash returns the hash of the Subject that has the ID.
func (id *SubjectID) Hash(seed maphash.Seed) uint64 {
	return maphash.Bytes(seed, id.name()) + uint64(id[0]&^idHashed)*kindHash
}

func (id *SubjectID) name() []byte { return id[idHead : idHead+id[1]] }

// Is reports whether id is the ID of s. It is faster than a comparison with s.ID(), because ID must
// first write its result.
func (id *SubjectID) Is(s Subject) bool {
	if s.hashed() {
		return id[0] == byte(s.kind)|idHashed && *id == s.ID()
	}
	return id[0] == byte(s.kind) && string(id.name()) == s.name
}
