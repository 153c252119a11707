package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// SubjectHash returns the hash of a subject: 16 hexadecimal digits. The hash replaces the subject's
// name in logs, metrics and events of a deployment. It is safe for concurrent use. Create it with
// NewSubjectHash.
type SubjectHash func(limiter.Subject) string

// MinSubjectKey is the minimum length, in bytes, of a key of subject hashes.
const MinSubjectKey = 16

// NewSubjectHash returns the hash of a deployment: the first 8 bytes of an HMAC-SHA256. namespace is the namespace in
// the keys of the deployment's store. Only someone with the key can compute the hash of a subject and thereby test a
// guess. All environments need the same key. If key is missing or shorter than MinSubjectKey, NewSubjectHash uses a
// random key. Then no other process has the hashes of this process.
func NewSubjectHash(namespace string, key []byte) SubjectHash {
	key = slices.Clone(key)
	if len(key) < MinSubjectKey {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // rand.Read never fails
	}
	return func(subject limiter.Subject) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(namespace + "/" + subject.String()))
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}
