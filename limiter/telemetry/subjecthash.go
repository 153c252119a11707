package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// SubjectHash returns the hash of a subject, which replaces its name in the logs, metrics and events of
// a deployment: 16 hexadecimal digits. It is safe for concurrent use. Make one with NewSubjectHash.
type SubjectHash func(limiter.Subject) string

// MinSubjectKey is the length of the shortest key of subject hashes, in bytes.
const MinSubjectKey = 16

// NewSubjectHash returns the hash of a deployment: the first 8 bytes of an HMAC-SHA256. namespace is
// that of the keys of its store. Only with the key can one compute the hash of a subject and so check a
// guess. All environments need the same key. Without a key, or with one shorter than MinSubjectKey, it
// makes a random one: then the hashes of this process differ from those of all others.
func NewSubjectHash(namespace string, key []byte) SubjectHash {
	if key = slices.Clone(key); len(key) < MinSubjectKey {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // it never fails
	}
	return func(subject limiter.Subject) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(namespace + "/" + subject.String()))
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}
