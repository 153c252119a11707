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
	// ErrInUse means that a rotation would invalidate keys in the table.
	ErrInUse = errors.New("the rotation would invalidate keys that were created before the last rotation")
)

// errNoSecrets means that the item of the secrets was deleted.
var errNoSecrets = fmt.Errorf("records table: item %q: missing, but the table has keys that its secret hashed; restore the item from a "+
	"backup, or revoke all keys", contract.SecretsKey)

// API is the part of DynamoDB that Keys needs. A *dynamodb.Client implements it.
type API interface {
	records.Reader
	records.Writer
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
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
		newest := same[len(same)-1]
		k.Tier, k.Owner, k.Suspended, k.Limits = cmp.Or(k.Tier, newest.Tier), cmp.Or(k.Owner, newest.Owner), newest.Suspended, newest.Limits
	}
	secret, err := t.secret(ctx, len(all) == 0)
	if err != nil {
		return "", Key{}, err
	}
	key = caller.NewAPIKey()
	hash := caller.HashAPIKey(secret, key)
	k.Created, k.Hash = now.UTC().Truncate(time.Second), hash[:hashDigits]
	_, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.table, Item: k.item(hash)})
	if err != nil {
		return "", Key{}, fmt.Errorf("records table: %w", err)
	}
	return key, k, nil
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

// Rotate creates a new secret for future keys. Keys of the previous secret stay valid until the next
// rotation. The table does not record which secret hashed a key, so Rotate uses the time of the key's
// creation. The error wraps ErrInUse if this rotation would invalidate keys. If force is true, Rotate
// invalidates them.
func (t *Keys) Rotate(ctx context.Context, now time.Time, force bool) error {
	err := records.RotatePair(ctx, t.api, t.table, contract.SecretsKey, now, func(p records.Pair) error {
		if p.Previous == nil || force {
			return nil
		}
		return t.unused(ctx, p.Rotated)
	})
	if errors.Is(err, records.ErrNoPair) {
		return errors.New("records table: no secret to rotate; creating the first key creates it")
	}
	return err
}

// unused returns an error if the table has keys that may be older than the last rotation. A key that was created in
// the same second as the rotation counts as older.
func (t *Keys) unused(ctx context.Context, rotated time.Time) error {
	all, err := t.all(ctx)
	if err != nil {
		return err
	}
	old := 0
	for _, k := range all {
		if !k.Created.After(rotated) {
			old++
		}
	}
	if old > 0 {
		return fmt.Errorf("%w (number of keys: %d)", ErrInUse, old)
	}
	return nil
}

// located is a key with the partition key of its item. malformed is the error of a malformed key, and
// nil for a valid key.
type located struct {
	Key
	item      string
	malformed error
	stored    types.AttributeValue // the attribute limits; nil if the item does not have it
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
			all = append(all, located{k, records.Item(item).Text(contract.KeyAttribute), malformed, item[limitsAttribute]})
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

// secrets returns the secrets. Before the first key is created, there are none.
func (t *Keys) secrets(ctx context.Context) ([][]byte, error) {
	item, err := records.GetConsistent(ctx, t.api, t.table, contract.SecretsKey)
	if err != nil || item == nil {
		return nil, err
	}
	return parseSecrets(item)
}

// secret returns the current secret. first is true if the table has no keys. Only then does secret create a
// missing secret, because a new secret would make all existing keys invalid.
func (t *Keys) secret(ctx context.Context, first bool) ([]byte, error) {
	secrets, err := t.secrets(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(secrets) > 0:
		return secrets[0], nil
	case !first:
		return nil, errNoSecrets
	}
	p, err := records.CreatePair(ctx, t.api, t.table, contract.SecretsKey)
	return p.Current, err
}
