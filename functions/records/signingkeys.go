package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// These are the attributes of the item contract.SigningKeysKey.
const (
	jwksAttribute    = "jwks"
	fetchedAttribute = "fetched"
)

// SigningKeys copies the issuer's key set into the table. Functions that can reach DynamoDB but not
// the issuer read the copy. SigningKeys is a lambda.Handler that a schedule invokes. It ignores the
// event. Set its fields before the first event.
//
// Only the schedule invokes it, so an alarm should watch its errors. An error means that the issuer or
// the table failed, or that the document is not a key set. After an error the table keeps the previous
// copy, which verifies tokens until the copy is a day old (caller.RemoteKeys). An empty key set is
// valid, because an issuer uses it to withdraw all keys.
type SigningKeys struct {
	API   Writer
	Table string
	Fetch caller.Fetch
	Clock func() time.Time
}

// maxSigningKeys is the maximum size, in bytes, of a key set that the function copies. The copy is one
// DynamoDB item, which has at most 400 KB.
const maxSigningKeys = 300 << 10

// Invoke implements lambda.Handler.
func (s *SigningKeys) Invoke(ctx context.Context, _ []byte) ([]byte, error) {
	document, _, err := s.Fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	if len(document) > maxSigningKeys {
		return nil, fmt.Errorf("signing keys: got %d bytes, want at most %d", len(document), maxSigningKeys)
	}
	if _, err := caller.ParseKeySet(document); err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	item := NewItem(contract.SigningKeysKey)
	item.SetText(jwksAttribute, string(document))
	item.SetText(fetchedAttribute, s.Clock().UTC().Format(time.RFC3339))
	if _, err := s.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.Table), Item: item}); err != nil {
		return nil, fmt.Errorf("signing keys: %w", wrap(err))
	}
	return []byte("null"), nil
}

// SigningKeys returns the copy of the issuer's key set and the time of the copy. The method is a
// caller.Fetch.
func (t *Table) SigningKeys(ctx context.Context) (document []byte, copied time.Time, err error) {
	item, err := t.Get(ctx, contract.SigningKeysKey)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case item == nil:
		return nil, time.Time{}, wrap(errors.New("no signing keys; check that the function signingkeys has run"))
	}
	copied, err = time.Parse(time.RFC3339, item.Text(fetchedAttribute))
	if err != nil {
		return nil, time.Time{}, wrap(fmt.Errorf("item %s: %s: got %.40q, want a time such as 2006-01-02T15:04:05Z", contract.SigningKeysKey,
			fetchedAttribute, item.Text(fetchedAttribute)))
	}
	return []byte(item.Text(jwksAttribute)), copied, nil
}
