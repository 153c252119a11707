package records

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter/identity"
)

// What an operator may have meant otherwise; compare with errors.Is.
var (
	// ErrExists is an id that has a key already.
	ErrExists = errors.New("the id has a key already")
	// ErrNotFound is an id, or a key of it, that is not in the table.
	ErrNotFound = errors.New("there is no such key")
)

// KeysAPI is what Keys needs of DynamoDB. A *dynamodb.Client implements it.
type KeysAPI interface {
	WriteAPI
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Keys makes, lists and revokes API keys, for an operator: each call reads the whole
// table. Two operators who make a key of one id at once may both succeed.
type Keys struct {
	api   KeysAPI
	table string
	// Progress is called when more is to be read, with the number of keys so far; nil: not.
	Progress func(keys int)
}

// NewKeys returns the keys in a table.
func NewKeys(api KeysAPI, table string) *Keys { return &Keys{api: api, table: table} }

// Create makes a key with the id, tier and owner of k, whose Hash and Created it sets. This is
// the only time that the key itself is told. The error wraps ErrExists if the id has a key.
//
// With add it is the other way round: the id must have a key, which stays good, and gets one
// more; ErrNotFound says that it has none. A tier or an owner that k leaves out is taken from
// the newest. Both keys draw on one quota, because the id is counted.
func (t *Keys) Create(ctx context.Context, now time.Time, k Key, add bool) (key string, made Key, err error) {
	if err := k.validate(); err != nil {
		return "", Key{}, err
	}
	of, err := t.of(ctx, k.ID)
	switch {
	case err != nil:
		return "", Key{}, err
	case len(of) > 0 && !add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrExists)
	case len(of) == 0 && add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrNotFound)
	case add:
		newest := of[len(of)-1].Key
		k.Tier, k.Owner = cmp.Or(k.Tier, newest.Tier), cmp.Or(k.Owner, newest.Owner)
	}
	secret, err := t.secret(ctx)
	if err != nil {
		return "", Key{}, err
	}
	key = identity.NewAPIKey()
	hash := identity.HashAPIKey(secret, key)
	k.Created, k.Hash = now.UTC().Truncate(time.Second), hash[:hashDigits]
	if _, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.table, Item: itemOf(hash, k)}); err != nil {
		return "", Key{}, fmt.Errorf("records table: %w", err)
	}
	return key, k, nil
}

// List returns all keys, by id, and those of one id by age. Those that can be read are
// returned also with an error.
func (t *Keys) List(ctx context.Context) ([]Key, error) {
	all, err := t.of(ctx, "")
	keys := make([]Key, len(all))
	for i, k := range all {
		keys[i] = k.Key
	}
	return keys, err
}

// Revoke removes the keys of an id; with a hash, the beginning of it that Key.Hash has, that
// one alone. It returns what it removed, also with an error. The error wraps ErrNotFound if
// there is nothing to remove.
func (t *Keys) Revoke(ctx context.Context, id, hash string) (revoked []Key, err error) {
	of, err := t.of(ctx, id)
	for _, k := range of {
		if hash != "" && k.Hash != hash {
			continue
		}
		if _, err := t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.table, Key: keyOf(k.item)}); err != nil {
			return revoked, fmt.Errorf("records table: %w", err)
		}
		revoked = append(revoked, k.Key)
	}
	if err == nil && len(revoked) == 0 {
		return nil, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	return revoked, err
}

// located is a key and the partition key of its item.
type located struct {
	Key
	item string
}

// of returns the keys of an id, or all if it is empty, in the order of List. Those that can
// be read are returned also with an error.
func (t *Keys) of(ctx context.Context, id string) ([]located, error) {
	in := &dynamodb.ScanInput{
		TableName: &t.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("begins_with(#pk, :prefix)"),
		ExpressionAttributeNames:  map[string]string{"#pk": KeyAttribute},
		ExpressionAttributeValues: item{":prefix": &types.AttributeValueMemberS{Value: apiKeyPrefix}},
	}
	var all []located
	var problems []error
	for seen, pages := 0, dynamodb.NewScanPaginator(t.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("records table: %w", err))
			break
		}
		for _, it := range page.Items {
			if k, err := item(it).key(); err != nil {
				problems = append(problems, err)
			} else if id == "" || k.ID == id {
				all = append(all, located{k, item(it).text(KeyAttribute)})
			}
		}
		if seen += len(page.Items); t.Progress != nil && pages.HasMorePages() {
			t.Progress(seen)
		}
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), a.Created.Compare(b.Created), strings.Compare(a.item, b.item))
	})
	return all, errors.Join(problems...)
}

// secret returns the current secret of the hashes, and makes it for the first key. Of two
// who come at the same time one makes it.
func (t *Keys) secret(ctx context.Context) ([]byte, error) {
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails
	it := keyOf(secretsKey)
	it[currentAttribute] = &types.AttributeValueMemberB{Value: made}
	_, err := t.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.table, Item: it,
		ConditionExpression: aws.String("attribute_not_exists(#pk)"), ExpressionAttributeNames: map[string]string{"#pk": KeyAttribute},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if there, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		secrets, err := item(there.Item).secrets()
		if err != nil {
			return nil, err
		}
		return secrets[0], nil
	}
	if err != nil {
		return nil, fmt.Errorf("records table: %w", err)
	}
	return made, nil
}
