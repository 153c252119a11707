package apikeys

import (
	"context"
	"fmt"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// Table reads API keys for functions. It is safe for concurrent use. Each call reads from DynamoDB;
// caller.RemoteRecords caches the results.
type Table struct{ records *records.Table }

var _ caller.KeyTable = Table{}

// NewTable returns the API keys in a records table.
func NewTable(t *records.Table) Table { return Table{t} }

// Secrets implements caller.KeyTable.
func (t Table) Secrets(ctx context.Context) ([][]byte, error) {
	item, err := t.records.Get(ctx, contract.SecretsKey)
	if err != nil || item == nil {
		return nil, err
	}
	return parseSecrets(item)
}

// Record implements caller.KeyTable.
func (t Table) Record(ctx context.Context, hash string) (r caller.Record, ok bool, err error) {
	item, err := t.records.Get(ctx, prefix+hash)
	if err != nil || item == nil {
		return caller.Record{}, false, err
	}
	r, err = RecordOf(item)
	if err != nil {
		return caller.Record{}, false, fmt.Errorf("%w: %w", err, caller.ErrRecord)
	}
	return r, true, nil
}

// parseSecrets parses the item of the secrets, a records.Pair. It returns the current secret and, if there is one, the
// previous secret. It reads no time of a rotation: a mistake there does not make keys invalid.
func parseSecrets(item records.Item) ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{"current", "previous"} {
		if _, exists := item[name]; !exists && name == "previous" {
			continue
		}
		secret := item.Binary(name)
		if len(secret) != records.PairBytes {
			return nil, fmt.Errorf("records table: item %s: %s: got %d bytes, want %d", contract.SecretsKey, name, len(secret), records.PairBytes)
		}
		all = append(all, secret)
	}
	return all, nil
}
