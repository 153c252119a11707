package apikeys

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// These are the attributes of the item of the secrets.
const (
	currentAttribute  = "current"
	previousAttribute = "previous"
	rotatedAttribute  = "rotated"
)

const secretBytes = 32

func newSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // rand.Read never fails
	return secret
}

// secretsItem returns the item of the secrets. previous is nil before the first rotation. After a
// rotation, rotated is the time when current replaced previous.
func secretsItem(current, previous []byte, rotated time.Time) records.Item {
	it := records.NewItem(contract.SecretsKey)
	it.SetBinary(currentAttribute, current)
	if previous != nil {
		it.SetBinary(previousAttribute, previous)
		it.SetText(rotatedAttribute, rotated.UTC().Format(time.RFC3339))
	}
	return it
}

// parseSecrets parses the item of the secrets. It returns the current secret and, if there is one,
// the previous secret.
func parseSecrets(it records.Item) ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{currentAttribute, previousAttribute} {
		if _, exists := it[name]; !exists && name == previousAttribute {
			continue
		}
		secret := it.Binary(name)
		if len(secret) != secretBytes {
			return nil, fmt.Errorf("records table: item %s: %s: got %d bytes, want %d", contract.SecretsKey, name, len(secret), secretBytes)
		}
		all = append(all, secret)
	}
	return all, nil
}
