package apikeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// These are the errors for mistakes of an operator. Compare with errors.Is.
var (
	// ErrExists means that the id already has a key.
	ErrExists = errors.New("the id already has a key")
	// ErrNotFound means that the table has no key with the id, or with the hash.
	ErrNotFound = errors.New("no such key")
)

// errNoSecret means that the item of the secret was deleted.
var errNoSecret = fmt.Errorf("records table: item %q: missing, but the table has keys that its secret hashed; restore the item from a "+
	"backup, or revoke all keys", contract.SecretsKey)

// API is the part of DynamoDB that Keys needs. A *dynamodb.Client implements it.
type API interface {
	records.Reader
	records.Writer
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Keys creates, lists and revokes API keys, for operators. Each call reads the whole table. If two
// operators create a key with the same id at the same time, both can succeed.
type Keys struct {
	api   API
	table string
	// Progress is called after each page except the last, with the number of keys so far. It may be
	// nil.
	Progress func(keys int)
	// Warn is called for each malformed item that does not affect the call. It may be nil.
	Warn func(error)
}

// New returns the keys in a records table.
func New(api API, table string) *Keys { return &Keys{api: api, table: table} }

// Create creates a key with the ID, Tier, Owner and Limits of k. It returns the key, which cannot be read
// again, and k with Hash and Created. The error wraps ErrExists if the id already has a key.
//
// If add is true, Create adds another key to an id that has one. (If the id has none, the error wraps
// ErrNotFound.) All keys of the id stay valid and share one quota, because the limits count requests by
// id. An empty Tier or Owner is copied from the newest key. Suspended and Limits are always copied from it.
func (t *Keys) Create(ctx context.Context, now time.Time, k Key, add bool) (key string, created Key, err error) {
	if err := k.validate(); err != nil {
		return "", Key{}, err
	}
	all, err := t.all(ctx)
	if err != nil {
		return "", Key{}, err
	}
	same, err := t.valid(all, func(other located) bool { return other.ID == k.ID })
	switch {
	case err != nil:
		return "", Key{}, err
	case len(same) > 0 && !add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrExists)
	case len(same) == 0 && add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrNotFound)
	case add:
		k = k.after(same[len(same)-1])
	}
	secret, err := t.secret(ctx, len(all) == 0)
	if err != nil {
		return "", Key{}, err
	}
	key = caller.NewAPIKey()
	created, err = t.put(ctx, now, k, caller.HashAPIKey(secret, key))
	if err != nil {
		return "", Key{}, err
	}
	return key, created, nil
}

// after returns k as a further key of an id whose newest key is given.
func (k Key) after(newest Key) Key {
	k.Tier, k.Owner, k.Suspended, k.Limits = cmp.Or(k.Tier, newest.Tier), cmp.Or(k.Owner, newest.Owner), newest.Suspended, newest.Limits
	return k
}

// put writes a new key with this hash, and returns it.
func (t *Keys) put(ctx context.Context, now time.Time, k Key, hash string) (Key, error) {
	k.Created, k.Hash = now.UTC().Truncate(time.Second), hash[:hashDigits]
	_, err := t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.table, Item: k.item(hash)})
	if err != nil {
		err = fmt.Errorf("records table: %w", err)
	}
	return k, err
}

// List returns all keys, ordered by id and age. If it returns an error, it also returns the keys that
// it could read.
func (t *Keys) List(ctx context.Context) ([]Key, error) {
	all, err := t.all(ctx)
	keys, malformed := t.valid(all, func(located) bool { return true })
	return keys, errors.Join(malformed, err)
}

// Find returns the record of an id. Its limits are the newest of all keys of the id.
func (t *Keys) Find(ctx context.Context, id string) (r caller.Record, ok bool, err error) {
	all, err := t.all(ctx)
	if err != nil {
		return r, false, err
	}
	for _, k := range all {
		if k.ID != id || k.malformed != nil || ok && k.Limits.Changed() < r.Limits.Changed() {
			continue
		}
		r, ok = caller.Record{ID: k.ID, Tier: k.Tier, Owner: k.Owner, Suspended: k.Suspended, Limits: k.Limits}, true
	}
	return r, ok, nil
}

// Revoke removes keys and returns them, even with an error:
//
//   - id alone: all keys of the id
//   - id and hash: the key of the id with this Key.Hash
//   - hash alone: every key with this hash, even a malformed one
//
// The error wraps ErrNotFound if no key matches.
func (t *Keys) Revoke(ctx context.Context, id, hash string) (revoked []Key, err error) {
	all, err := t.all(ctx)
	for _, k := range all {
		match := (id == "" || k.ID == id) && (hash == "" || k.Hash == hash) && (id != "" || hash != "")
		if !match {
			t.warn(k.malformed)
			continue
		}
		if _, err := t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.table, Key: records.NewItem(k.item)}); err != nil {
			return revoked, fmt.Errorf("records table: %w", err)
		}
		revoked = append(revoked, k.Key)
	}
	if err == nil && len(revoked) == 0 {
		return nil, fmt.Errorf("%q: %w", cmp.Or(id, hash), ErrNotFound)
	}
	return revoked, err
}

// located is a key with the partition key of its item. malformed is the error of a malformed key, and
// nil for a valid key.
type located struct {
	Key
	item      string
	malformed error
	stored    records.Item
}

func (t *Keys) warn(err error) {
	if err != nil && t.Warn != nil {
		t.Warn(err)
	}
}

// valid returns the valid keys for which match returns true. The error joins the errors of those that are
// malformed. Other malformed keys only cause warnings.
func (t *Keys) valid(all []located, match func(located) bool) ([]Key, error) {
	keys, problems := make([]Key, 0, len(all)), []error(nil)
	for _, k := range all {
		switch {
		case !match(k):
			t.warn(k.malformed)
		case k.malformed != nil:
			problems = append(problems, k.malformed)
		default:
			keys = append(keys, k.Key)
		}
	}
	return keys, errors.Join(problems...)
}

// all returns all keys in the order of List. If it returns an error, it also returns the keys that it
// has read.
func (t *Keys) all(ctx context.Context) (all []located, err error) {
	in := &dynamodb.ScanInput{
		TableName: &t.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("begins_with(#pk, :prefix)"),
		ExpressionAttributeNames:  map[string]string{"#pk": contract.KeyAttribute},
		ExpressionAttributeValues: records.Item{":prefix": &types.AttributeValueMemberS{Value: prefix}},
	}
	for pages := dynamodb.NewScanPaginator(t.api, in); pages.HasMorePages(); {
		page, failed := pages.NextPage(ctx)
		if failed != nil {
			err = fmt.Errorf("records table: %w", failed)
			break
		}
		for _, item := range page.Items {
			k, malformed := parseKey(item)
			all = append(all, located{k, records.Item(item).Text(contract.KeyAttribute), malformed, item})
		}
		if t.Progress != nil && pages.HasMorePages() {
			t.Progress(len(all))
		}
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), a.Created.Compare(b.Created), strings.Compare(a.item, b.item))
	})
	return all, err
}

// secret returns the secret of the hashes. first is true if the table has no keys. Only then does secret create a
// missing secret, because a new secret would make all existing keys invalid.
func (t *Keys) secret(ctx context.Context, first bool) ([]byte, error) {
	item, err := records.GetConsistent(ctx, t.api, t.table, contract.SecretsKey)
	switch {
	case err != nil:
		return nil, err
	case item != nil:
		return records.SecretOf(contract.SecretsKey, item)
	case !first:
		return nil, errNoSecret
	}
	return records.CreateSecret(ctx, t.api, t.table, contract.SecretsKey)
}
