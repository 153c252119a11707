package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/weir-limits/weir/functions/contract"
)

// SecretBytes is the length of a secret.
const SecretBytes = 32

// secretAttribute is the attribute of an item with a secret. Items of earlier versions have earlierAttribute instead.
const (
	secretAttribute  = "key"
	earlierAttribute = "current"
)

// ErrNoSecret means that the table has no item of the secret.
var ErrNoSecret = errors.New("missing")

// ReadWriter is the part of DynamoDB that reads and writes an item. A *dynamodb.Client implements it.
type ReadWriter interface {
	Reader
	Writer
}

// Secret returns the secret in the item of a key. If there is none, the error wraps ErrNoSecret.
func (t *Table) Secret(ctx context.Context, key string) ([]byte, error) {
	item, err := t.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return SecretOf(key, item)
}

// LoadSecret returns the secret in the item of a key. If there is none, it creates it. Concurrent calls create one secret,
// and all return it.
func LoadSecret(ctx context.Context, api ReadWriter, table, key string) ([]byte, error) {
	secret, err := NewTable(api, table).Secret(ctx, key)
	if errors.Is(err, ErrNoSecret) { // an eventually consistent read can miss a new item
		return CreateSecret(ctx, api, table, key)
	}
	return secret, err
}

// CreateSecret is like LoadSecret, but always writes: an existing item stays as it is.
func CreateSecret(ctx context.Context, api Writer, table, key string) ([]byte, error) {
	secret := make([]byte, SecretBytes)
	_, _ = rand.Read(secret) // rand.Read never fails
	item := NewItem(key)
	item.SetBinary(secretAttribute, secret)
	has, _, err := Create(ctx, api, table, item)
	if err != nil {
		return nil, err
	}
	return SecretOf(key, has)
}

// SecretOf returns the secret in an item; nil is a missing item. Its error contains no part of a secret.
func SecretOf(key string, item Item) ([]byte, error) {
	secret := item.Binary(secretAttribute)
	switch {
	case item == nil:
		return nil, wrap(fmt.Errorf("item %s: %w", key, ErrNoSecret))
	case secret == nil && item.Binary(earlierAttribute) != nil:
		remedy := ""
		if key == contract.SecretsKey {
			remedy = ", revoke all API keys, and create them again"
		}
		return nil, wrap(fmt.Errorf("item %s: of an earlier version; delete the item%s", key, remedy))
	case len(secret) != SecretBytes:
		return nil, wrap(fmt.Errorf("item %s: %s: got %d bytes, want %d", key, secretAttribute, len(secret), SecretBytes))
	}
	return secret, nil
}
