package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// SubjectHash returns what stands for a subject in the logs, metrics and events of a
// deployment: 16 hexadecimal digits. It is safe for concurrent use. Make one with
// NewSubjectHash.
type SubjectHash func(limiter.Subject) string

// MinSubjectKey is the length of the shortest key of subject hashes, in bytes.
const MinSubjectKey = 16

// NewSubjectHash returns the hash of a deployment, named as in the keys of its store: the first
// 8 bytes of HMAC-SHA256. Who has the key finds a subject by its hash; who has not cannot even
// check a guess. All environments need the same key: without one, or with one that is shorter
// than MinSubjectKey, it makes a random key, and the hashes of this process compare with those
// of no other.
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
