package apikeys

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/weir-limits/weir/functions/records"
)

// secretsKey is the partition key of the secrets.
const secretsKey = "secrets"

// The attributes of the secrets.
const (
	currentAttribute  = "current"
	previousAttribute = "previous"
	rotatedAttribute  = "rotated"
)

// secretBytes is the length of a secret.
const secretBytes = 32

// newSecret returns a random secret.
func newSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// secretsItem returns the item of the secrets. previous is nil before the first rotation;
// otherwise rotated is the time when current replaced it.
func secretsItem(current, previous []byte, rotated time.Time) records.Item {
	it := records.NewItem(secretsKey)
	it.SetBinary(currentAttribute, current)
	if previous != nil {
		it.SetBinary(previousAttribute, previous)
		it.SetText(rotatedAttribute, rotated.UTC().Format(time.RFC3339))
	}
	return it
}

// parseSecrets reads the item of the secrets: the current one, and the previous one if there is one.
func parseSecrets(it records.Item) ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{currentAttribute, previousAttribute} {
		if _, exists := it[name]; !exists && name == previousAttribute {
			continue
		}
		secret := it.Binary(name)
		if len(secret) != secretBytes {
			return nil, fmt.Errorf("records table: item %s: %s: got %d bytes, want %d", secretsKey, name, len(secret), secretBytes)
		}
		all = append(all, secret)
	}
	return all, nil
}
