package records

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/weir-limits/weir/functions/contract"
)

// keyAttribute is the attribute that contains the key, in the item contract.SubjectKeyKey.
const keyAttribute = "key"

// subjectKeyBytes is the length of a new key, and the minimum length of any key.
const subjectKeyBytes = 32

// SubjectKey returns the key of subject hashes. If there is none, it creates the key. created reports
// whether this call created it. Concurrent calls create one key, and all return it.
func SubjectKey(ctx context.Context, api ReadWriter, table string) (key []byte, created bool, err error) {
	item, err := NewTable(api, table).Get(ctx, contract.SubjectKeyKey)
	if err != nil {
		return nil, false, err
	}
	if item == nil { // An eventually consistent read can miss a new item. Create returns an existing item unchanged.
		item = NewItem(contract.SubjectKeyKey)
		key = make([]byte, subjectKeyBytes)
		_, _ = rand.Read(key) // rand.Read never fails
		item.SetBinary(keyAttribute, key)
		item, created, err = Create(ctx, api, table, item)
		if err != nil {
			return nil, false, err
		}
	}
	key = item.Binary(keyAttribute)
	if len(key) < subjectKeyBytes {
		return nil, false, wrap(fmt.Errorf("item %s: %s: got %d bytes, want at least %d", contract.SubjectKeyKey, keyAttribute, len(key),
			subjectKeyBytes))
	}
	return key, created, nil
}
