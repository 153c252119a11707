package receipts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// Keys are the keys of receipts.
type Keys struct {
	current, previous []byte    // previous is nil before the first rotation
	rotated           time.Time // when current replaced previous
}

// NewKeys returns a random key.
func NewKeys() Keys {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // rand.Read never fails
	return Keys{current: key}
}

// DeriveKeys returns the key that belongs to a secret, for processes that share the secret but no table.
func DeriveKeys(secret []byte) Keys { return Keys{current: derive(secret, "key", nil)} }

const keyBytes = 32

// These are the attributes of the item contract.ReceiptKeysKey.
const (
	currentAttribute  = "current"
	previousAttribute = "previous"
	rotatedAttribute  = "rotated"
)

// Table is the part of DynamoDB that reads and writes the keys. A *dynamodb.Client implements it.
type Table interface {
	records.Reader
	records.Writer
}

// Load returns the keys in a records table. If there are none, it creates them. Concurrent calls create
// one key, and all return it.
func Load(ctx context.Context, api Table, table string) (Keys, error) {
	it, err := records.NewTable(api, table).Get(ctx, contract.ReceiptKeysKey)
	if err == nil && it == nil { // an eventually consistent read can miss a new item
		it, _, err = records.Create(ctx, api, table, NewKeys().item())
	}
	if err != nil {
		return Keys{}, err
	}
	return parseKeys(it)
}

// Read returns the keys in a records table. It creates none: there is no receipt without keys.
func Read(ctx context.Context, api records.Reader, table string) (Keys, error) {
	it, err := records.NewTable(api, table).Get(ctx, contract.ReceiptKeysKey)
	if err == nil && it == nil {
		err = fmt.Errorf("records table: item %s: missing; the first authorizer that seals a receipt creates it", contract.ReceiptKeysKey)
	}
	if err != nil {
		return Keys{}, err
	}
	return parseKeys(it)
}

// ErrInUse means that a rotation would remove a key that can still open receipts.
var ErrInUse = errors.New("the rotation would invalidate receipts that are not settled yet")

// Rotate replaces the current key at the time now. The error wraps ErrInUse if a receipt can exist that
// only the previous key opens. If force is true, Rotate invalidates such receipts, and their limits keep
// their reserve. Of two concurrent rotations, one fails.
func Rotate(ctx context.Context, api Table, table string, now time.Time, force bool) error {
	it, err := records.GetConsistent(ctx, api, table, contract.ReceiptKeysKey)
	switch {
	case err != nil:
		return err
	case it == nil:
		return errors.New("records table: no key of receipts to rotate; the first authorizer that seals a receipt creates it")
	}
	keys, err := parseKeys(it)
	if err != nil {
		return err
	}
	if free := keys.rotated.Add(Stale + MaxLife + time.Second); keys.previous != nil && now.Before(free) && !force { // the time of the rotation has no fraction
		return fmt.Errorf("last rotation %s: %w (want %s or later)", keys.rotated.Format(time.RFC3339), ErrInUse, free.Format(time.RFC3339))
	}
	_, err = api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &table, Item: Keys{NewKeys().current, keys.current, now}.item(),
		ConditionExpression:       aws.String("#current = :current"), // without this condition, two concurrent rotations would remove the key in use
		ExpressionAttributeNames:  map[string]string{"#current": currentAttribute},
		ExpressionAttributeValues: records.Item{":current": &types.AttributeValueMemberB{Value: keys.current}},
	})
	if err != nil {
		return fmt.Errorf("records table: %w", err)
	}
	return nil
}

func (k Keys) item() records.Item {
	it := records.NewItem(contract.ReceiptKeysKey)
	it.SetBinary(currentAttribute, k.current)
	if k.previous != nil {
		it.SetBinary(previousAttribute, k.previous)
		it.SetText(rotatedAttribute, k.rotated.UTC().Format(time.RFC3339))
	}
	return it
}

// parseKeys parses the item of the keys. Its error contains no part of a key.
func parseKeys(it records.Item) (k Keys, err error) {
	k.current = it.Binary(currentAttribute)
	if len(k.current) != keyBytes {
		return Keys{}, itemError(currentAttribute, fmt.Sprintf("got %d bytes, want %d", len(k.current), keyBytes))
	}
	if _, exists := it[previousAttribute]; !exists {
		return k, nil
	}
	k.previous = it.Binary(previousAttribute)
	if len(k.previous) != keyBytes {
		return Keys{}, itemError(previousAttribute, fmt.Sprintf("got %d bytes, want %d", len(k.previous), keyBytes))
	}
	if k.rotated, err = time.Parse(time.RFC3339, it.Text(rotatedAttribute)); err != nil {
		return Keys{}, itemError(rotatedAttribute, fmt.Sprintf("got %.40q, want a time such as 2006-01-02T15:04:05Z", it.Text(rotatedAttribute)))
	}
	return k, nil
}

func itemError(attribute, problem string) error {
	return fmt.Errorf("records table: item %s: %s: %s", contract.ReceiptKeysKey, attribute, problem)
}
