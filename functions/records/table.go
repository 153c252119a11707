package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// TableInput returns the definition of a records table: on demand, with a string key and no
// time to live.
func TableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(contract.KeyAttribute), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(contract.KeyAttribute), KeyType: types.KeyTypeHash}},
	}
}

// ReadAPI is what a Table needs of DynamoDB. A *dynamodb.Client implements it.
type ReadAPI interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Table reads single items. It is safe for concurrent use. It keeps nothing; package
// identity does.
type Table struct {
	api       ReadAPI
	name      string
	retryable func(error) bool
}

var _ caller.KeyTable = (*Table)(nil)

// NewTable returns the table of this name. It tries a read that fails once more, whatever
// the client does: a read, unlike a charge, may be repeated, and the first one after Lambda
// has thawed an environment may meet a connection that has died meanwhile.
func NewTable(api ReadAPI, name string) *Table {
	return &Table{api, name, retry.NewStandard().IsErrorRetryable}
}

// Secrets implements caller.KeyTable.
func (t *Table) Secrets(ctx context.Context) ([][]byte, error) {
	it, err := t.get(ctx, secretsKey)
	if err != nil || it == nil {
		return nil, err
	}
	return it.secrets()
}

// Record implements caller.KeyTable.
func (t *Table) Record(ctx context.Context, hash string) (r caller.Record, ok bool, err error) {
	it, err := t.get(ctx, apiKeyPrefix+hash)
	if err != nil || it == nil {
		return caller.Record{}, false, err
	}
	k, err := it.key()
	if err != nil {
		return caller.Record{}, false, fmt.Errorf("%w: %w", err, caller.ErrRecord)
	}
	return caller.Record{ID: k.ID, Hash: hash, Tier: k.Tier, Owner: k.Owner}, true, nil
}

// SigningKeys returns the issuer's key set as it was copied last, and when. It is an
// caller.Fetch.
func (t *Table) SigningKeys(ctx context.Context) (document []byte, copied time.Time, err error) {
	it, err := t.get(ctx, contract.SigningKeysKey)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case it == nil:
		return nil, time.Time{}, errors.New("records table: there are no signing keys yet: has the function signingkeys run?")
	}
	copied, err = time.Parse(time.RFC3339, it.text(fetchedAttribute))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("records table: item %s: %s: got %.40q, want a time such as 2006-01-02T15:04:05Z", contract.SigningKeysKey, fetchedAttribute, it.text(fetchedAttribute))
	}
	return []byte(it.text(jwksAttribute)), copied, nil
}

// How often a read is attempted, and how long each attempt may take: a request waits for it.
// A connection that has died in silence answers nothing, so the second attempt has time of
// its own.
const (
	readAttempts   = 2
	attemptTimeout = 300 * time.Millisecond
)

// get reads an item, nil if there is none.
func (t *Table) get(ctx context.Context, key string) (it item, err error) {
	in := &dynamodb.GetItemInput{TableName: aws.String(t.name), Key: keyOf(key)}
	for range readAttempts {
		var again bool
		if it, again, err = t.attempt(ctx, in); !again {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("records table: %w", err)
	}
	return it, nil
}

// attempt makes one attempt at a read, and reports whether another may help.
func (t *Table) attempt(ctx context.Context, in *dynamodb.GetItemInput) (it item, again bool, err error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	out, err := t.api.GetItem(attempt, in, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return nil, ctx.Err() == nil && (attempt.Err() != nil || t.retryable(err)), err
	}
	return out.Item, false, nil
}
