package apikeys

import (
	"context"
	"errors"
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

// Secret implements caller.KeyTable.
func (t Table) Secret(ctx context.Context) ([]byte, error) {
	secret, err := t.records.Secret(ctx, contract.SecretsKey)
	if errors.Is(err, records.ErrNoSecret) {
		return nil, nil
	}
	return secret, err
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
