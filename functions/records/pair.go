package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Pair is a secret that rotates, and the content of an item.
type Pair struct {
	Current  []byte    // PairBytes random bytes
	Previous []byte    // the secret that Current replaced; nil before the first rotation
	Rotated  time.Time // when Current replaced Previous
}

// PairBytes is the length of each secret of a Pair.
const PairBytes = 32

// These are the attributes of the item of a Pair.
const (
	currentAttribute  = "current"
	previousAttribute = "previous"
	rotatedAttribute  = "rotated"
)

// ReadWriter is the part of DynamoDB that reads and writes an item. A *dynamodb.Client implements it.
type ReadWriter interface {
	Reader
	Writer
}

// ErrNoPair means that the table has no item of the Pair.
var ErrNoPair = errors.New("missing")

// NewPair returns a random secret.
func NewPair() Pair {
	secret := make([]byte, PairBytes)
	_, _ = rand.Read(secret) // rand.Read never fails
	return Pair{Current: secret}
}

// LoadPair returns the Pair in the item of a key. If there is none, it creates it. Concurrent calls create one Pair, and
// all return it.
func LoadPair(ctx context.Context, api ReadWriter, table, key string) (Pair, error) {
	item, err := NewTable(api, table).Get(ctx, key)
	switch {
	case err != nil:
		return Pair{}, err
	case item == nil: // an eventually consistent read can miss a new item
		return CreatePair(ctx, api, table, key)
	}
	return parsePair(key, item)
}

// CreatePair is like LoadPair, but always writes: an existing item stays as it is.
func CreatePair(ctx context.Context, api Writer, table, key string) (Pair, error) {
	item, _, err := Create(ctx, api, table, NewPair().item(key))
	if err != nil {
		return Pair{}, err
	}
	return parsePair(key, item)
}

// ReadPair returns the Pair in the item of a key. If there is none, the error wraps ErrNoPair.
func ReadPair(ctx context.Context, api Reader, table, key string) (Pair, error) {
	item, err := NewTable(api, table).Get(ctx, key)
	if err != nil {
		return Pair{}, err
	}
	return parsePair(key, item)
}

// RotatePair replaces the current secret at the time now. permit gets the Pair and can reject the rotation. If there is
// no Pair, the error wraps ErrNoPair. Of two concurrent rotations, one fails.
func RotatePair(ctx context.Context, api ReadWriter, table, key string, now time.Time, permit func(Pair) error) error {
	item, err := GetConsistent(ctx, api, table, key)
	if err != nil {
		return err
	}
	p, err := parsePair(key, item)
	if err != nil {
		return err
	}
	if err := permit(p); err != nil {
		return err
	}
	return replacePair(ctx, api, table, key, p, p.Next(now))
}

// Next returns the Pair after a rotation at the time now.
func (p Pair) Next(now time.Time) Pair {
	return Pair{Current: NewPair().Current, Previous: p.Current, Rotated: now}
}

// replacePair writes p, unless another call has rotated the Pair since it was old.
func replacePair(ctx context.Context, api Writer, table, key string, old, p Pair) error {
	_, err := api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &table, Item: p.item(key),
		// without this condition, two concurrent rotations would remove the secret in use
		ConditionExpression:       aws.String("#current = :current"),
		ExpressionAttributeNames:  map[string]string{"#current": currentAttribute},
		ExpressionAttributeValues: Item{":current": &types.AttributeValueMemberB{Value: old.Current}},
	})
	return wrap(err)
}

func (p Pair) item(key string) Item {
	item := NewItem(key)
	item.SetBinary(currentAttribute, p.Current)
	if p.Previous != nil {
		item.SetBinary(previousAttribute, p.Previous)
		item.SetText(rotatedAttribute, p.Rotated.UTC().Format(time.RFC3339))
	}
	return item
}

// parsePair parses the item of a Pair, which is nil if there is none. Its error contains no part of a secret.
func parsePair(key string, item Item) (p Pair, err error) {
	if item == nil {
		return Pair{}, wrap(fmt.Errorf("item %s: %w", key, ErrNoPair))
	}
	mistake := func(attribute, problem string) (Pair, error) {
		return Pair{}, wrap(fmt.Errorf("item %s: %s: %s", key, attribute, problem))
	}
	p.Current = item.Binary(currentAttribute)
	if len(p.Current) != PairBytes {
		return mistake(currentAttribute, fmt.Sprintf("got %d bytes, want %d", len(p.Current), PairBytes))
	}
	if _, exists := item[previousAttribute]; !exists {
		return p, nil
	}
	p.Previous = item.Binary(previousAttribute)
	if len(p.Previous) != PairBytes {
		return mistake(previousAttribute, fmt.Sprintf("got %d bytes, want %d", len(p.Previous), PairBytes))
	}
	p.Rotated, err = time.Parse(time.RFC3339, item.Text(rotatedAttribute))
	if err != nil {
		return mistake(rotatedAttribute, fmt.Sprintf("got %.40q, want a time such as 2006-01-02T15:04:05Z", item.Text(rotatedAttribute)))
	}
	return p, nil
}
