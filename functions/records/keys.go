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

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// What an operator may have meant otherwise; compare with errors.Is.
var (
	// ErrExists is an id that has a key already.
	ErrExists = errors.New("the id has a key already")
	// ErrNotFound is an id, or a key of it, that is not in the table.
	ErrNotFound = errors.New("there is no such key")
	// ErrInUse is a secret that keys are hashed with.
	ErrInUse = errors.New("keys made before the last rotation would no longer be good")
)

// errNoSecrets is a table that somebody has taken the secrets from.
var errNoSecrets = fmt.Errorf("records table: there are keys, and the item %q that they were hashed with is gone: no key can be told from another: restore it from a backup, or revoke all keys", secretsKey)

// KeysAPI is what Keys needs of DynamoDB. A *dynamodb.Client implements it.
type KeysAPI interface {
	ReadAPI
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
	// Warn is called for an item that cannot be read and is none of the call's; nil: not.
	Warn func(error)
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
	all, err := t.all(ctx)
	if err != nil {
		return "", Key{}, err
	}
	of, err := t.sound(all, func(other located) bool { return other.ID == k.ID })
	switch {
	case err != nil:
		return "", Key{}, err
	case len(of) > 0 && !add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrExists)
	case len(of) == 0 && add:
		return "", Key{}, fmt.Errorf("%q: %w", k.ID, ErrNotFound)
	case add:
		newest := of[len(of)-1]
		k.Tier, k.Owner = cmp.Or(k.Tier, newest.Tier), cmp.Or(k.Owner, newest.Owner)
	}
	secret, err := t.secret(ctx, len(all) == 0)
	if err != nil {
		return "", Key{}, err
	}
	key = caller.NewAPIKey()
	hash := caller.HashAPIKey(secret, key)
	k.Created, k.Hash = now.UTC().Truncate(time.Second), hash[:hashDigits]
	if _, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.table, Item: itemOf(hash, k)}); err != nil {
		return "", Key{}, fmt.Errorf("records table: %w", err)
	}
	return key, k, nil
}

// List returns all keys, by id, and those of one id by age. Those that can be read are
// returned also with an error.
func (t *Keys) List(ctx context.Context) ([]Key, error) {
	all, err := t.all(ctx)
	keys, broken := t.sound(all, func(located) bool { return true })
	return keys, errors.Join(broken, err)
}

// Revoke removes the keys of an id; with a hash, the beginning of it that Key.Hash has, that
// one alone; with a hash and no id the keys of that hash, such as one that cannot be read. It
// returns what it removed, also with an error. The error wraps ErrNotFound if there is nothing
// to remove.
func (t *Keys) Revoke(ctx context.Context, id, hash string) (revoked []Key, err error) {
	all, err := t.all(ctx)
	for _, k := range all {
		meant := (id == "" || k.ID == id) && (hash == "" || k.Hash == hash) && (id != "" || hash != "")
		if !meant {
			t.warn(k.broken)
			continue
		}
		if _, err := t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.table, Key: keyOf(k.item)}); err != nil {
			return revoked, fmt.Errorf("records table: %w", err)
		}
		revoked = append(revoked, k.Key)
	}
	if err == nil && len(revoked) == 0 {
		return nil, fmt.Errorf("%q: %w", cmp.Or(id, hash), ErrNotFound)
	}
	return revoked, err
}

// Rotate makes a new secret, by which keys are hashed that are made from now on. Those of the
// secret before stay good until the next rotation; the table does not say which they are, so
// they are told by when they were made. The error wraps ErrInUse if there are keys that this
// rotation would end; with force it ends them.
func (t *Keys) Rotate(ctx context.Context, now time.Time, force bool) error {
	secrets, rotated, err := t.secrets(ctx)
	switch {
	case err != nil:
		return err
	case len(secrets) == 0:
		return errors.New("records table: there is no secret to rotate: the first key makes one")
	case len(secrets) > 1 && !force:
		if err := t.unused(ctx, rotated); err != nil {
			return err
		}
	}
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails
	_, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.table, Item: secretsOf(made, secrets[0], now),
		ConditionExpression:       aws.String("#current = :current"), // two rotations at once would end all keys
		ExpressionAttributeNames:  map[string]string{"#current": currentAttribute},
		ExpressionAttributeValues: item{":current": &types.AttributeValueMemberB{Value: secrets[0]}},
	})
	if err != nil {
		return fmt.Errorf("records table: %w", err)
	}
	return nil
}

// unused returns an error if there are keys that were made before the last rotation. Of those
// made in its second it cannot be told.
func (t *Keys) unused(ctx context.Context, rotated time.Time) error {
	all, err := t.all(ctx)
	if err != nil {
		return err
	}
	old := 0
	for _, k := range all {
		if rotated.IsZero() || !k.Created.After(rotated) {
			old++
		}
	}
	if old > 0 {
		return fmt.Errorf("%d keys: %w", old, ErrInUse)
	}
	return nil
}

// located is a key, the partition key of its item, and what is wrong with it, if anything.
type located struct {
	Key
	item   string
	broken error
}

func (t *Keys) warn(err error) {
	if err != nil && t.Warn != nil {
		t.Warn(err)
	}
}

// sound returns those keys of all that are meant; the error says which of them cannot be read.
// Of the others that is a warning.
func (t *Keys) sound(all []located, meant func(located) bool) ([]Key, error) {
	keys, problems := make([]Key, 0, len(all)), []error(nil)
	for _, k := range all {
		switch {
		case !meant(k):
			t.warn(k.broken)
		case k.broken != nil:
			problems = append(problems, k.broken)
		default:
			keys = append(keys, k.Key)
		}
	}
	return keys, errors.Join(problems...)
}

// all returns all keys, in the order of List. Those that were read are returned also with an
// error.
func (t *Keys) all(ctx context.Context) (all []located, err error) {
	in := &dynamodb.ScanInput{
		TableName: &t.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("begins_with(#pk, :prefix)"),
		ExpressionAttributeNames:  map[string]string{"#pk": contract.KeyAttribute},
		ExpressionAttributeValues: item{":prefix": &types.AttributeValueMemberS{Value: apiKeyPrefix}},
	}
	for pages := dynamodb.NewScanPaginator(t.api, in); pages.HasMorePages(); {
		page, failed := pages.NextPage(ctx)
		if failed != nil {
			err = fmt.Errorf("records table: %w", failed)
			break
		}
		for _, it := range page.Items {
			k, broken := item(it).key()
			all = append(all, located{k, item(it).text(contract.KeyAttribute), broken})
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

// secrets returns the secrets, none if there are none, and when the current one has replaced
// the other.
func (t *Keys) secrets(ctx context.Context) (secrets [][]byte, rotated time.Time, err error) {
	out, err := t.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.table, Key: keyOf(secretsKey), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("records table: %w", err)
	}
	if out.Item == nil {
		return nil, time.Time{}, nil
	}
	rotated, _ = time.Parse(time.RFC3339, item(out.Item).text(rotatedAttribute))
	secrets, err = item(out.Item).secrets()
	return secrets, rotated, err
}

// secret returns the current secret of the hashes, and makes it for the first key. Of two
// who come at the same time one makes it. Where there are keys, there was one: another would
// make them unknown.
func (t *Keys) secret(ctx context.Context, first bool) ([]byte, error) {
	secrets, _, err := t.secrets(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(secrets) > 0:
		return secrets[0], nil
	case !first:
		return nil, errNoSecrets
	}
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails
	_, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.table, Item: secretsOf(made, nil, time.Time{}),
		ConditionExpression: aws.String("attribute_not_exists(#pk)"), ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute},
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
