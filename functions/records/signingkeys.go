package records

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// WriteAPI is what SigningKeys needs of DynamoDB. A *dynamodb.Client implements it.
type WriteAPI interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// SigningKeys is the function that copies the issuer's keys into the table, for functions
// that reach DynamoDB and not the issuer. It is a lambda.Handler; a schedule invokes it, and
// what the event says does not matter. Its fields are set before the first event.
//
// Nobody outside can invoke it, so an error is worth an alarm: it says that the issuer or
// the table failed, or that the document is no key set. The keys that were copied before
// then stay as they are, and are good until they are a day old (caller.RemoteKeys). A key
// set without a key is one, by which the issuer withdraws them all.
type SigningKeys struct {
	API   WriteAPI
	Table string
	Fetch caller.Fetch
	Clock func() time.Time
}

// maxSigningKeys is the longest document that is copied: an item has 400 KB at most.
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
	it := keyOf(contract.SigningKeysKey)
	it.set(jwksAttribute, string(document))
	it.set(fetchedAttribute, s.Clock().UTC().Format(time.RFC3339))
	if _, err := s.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(s.Table), Item: it}); err != nil {
		return nil, fmt.Errorf("signing keys: records table: %w", err)
	}
	return []byte("null"), nil
}
