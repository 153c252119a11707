package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
)

// RulesAPI is what Rules need of DynamoDB. A *dynamodb.Client implements it.
type RulesAPI interface {
	ReadAPI
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Kept is how many versions of the rules are kept, the one in force included.
const Kept = 50

// maxNote is the length of the longest Version.Note, in bytes.
const maxNote = 200

var (
	// ErrConflict is a version that was put while another was being prepared.
	ErrConflict = errors.New("another version was put meanwhile: nothing was changed")
	// ErrNoVersion is a version that is not kept.
	ErrNoVersion = errors.New("there is no such version")
)

// Rules are the versions of the rules document in a table, for operators. It is safe for
// concurrent use, also by several processes: a version is put as a whole, with its place in the
// history, or not at all, and of two that are put at once upon the same one, one is.
type Rules struct {
	api   RulesAPI
	table string
}

// NewRules returns the rules in a table.
func NewRules(api RulesAPI, table string) *Rules { return &Rules{api, table} }

// Get returns a version that is kept and its document; 0 is the one in force. The error wraps
// ErrNoRules if there is none at all, ErrNoVersion if the version is not kept.
func (r *Rules) Get(ctx context.Context, version int64) (Version, []byte, error) {
	key := rulesKey
	if version != 0 {
		key = keyOfVersion(version)
	}
	it, err := r.get(ctx, key)
	switch {
	case err != nil:
		return Version{}, nil, err
	case it == nil && version == 0:
		return Version{}, nil, ErrNoRules
	case it == nil:
		return Version{}, nil, fmt.Errorf("%d: %w: weir rules history lists the last %d", version, ErrNoVersion, Kept)
	}
	return it.rules()
}

// History returns the versions that are kept, the newest, which is in force, first.
func (r *Rules) History(ctx context.Context) ([]Version, error) {
	it, err := r.get(ctx, historyKey)
	if err != nil {
		return nil, err
	}
	list, _ := it[versionsAttribute].(*types.AttributeValueMemberL)
	all := []Version{}
	if list == nil {
		return all, nil
	}
	for _, each := range list.Value {
		m, _ := each.(*types.AttributeValueMemberM)
		if m == nil {
			m = &types.AttributeValueMemberM{}
		}
		v, err := item(m.Value).version()
		if err != nil {
			return nil, fmt.Errorf("item %s: %w", historyKey, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Put puts a document into force as a new version, at now: one higher than after, which is in
// force as far as the caller knows (0: none), no lower than least, which is what the document
// says itself, and the time in Unix seconds if that is higher: a function that was deployed with a
// document of a version above the time decides by it under version 1 until there is one here. The error wraps ErrConflict if another one is in force.
//
// It takes what it is given: parse the document first.
func (r *Rules) Put(ctx context.Context, now time.Time, document []byte, note string, after, least int64) (Version, error) {
	unprintable := func(c rune) bool { return !unicode.IsPrint(c) }
	if len(note) > maxNote || !utf8.ValidString(note) || strings.ContainsFunc(note, unprintable) {
		return Version{}, fmt.Errorf("note: got %.80q, want at most %d bytes of printable text", note, maxNote)
	}
	compressed, err := compress(document)
	if err != nil {
		return Version{}, err
	}
	v := Version{Version: max(after+1, least, now.Unix()), Put: now.UTC().Truncate(time.Second), Note: note, Bytes: len(document)}
	if v.Version > limiter.MaxVersion {
		return Version{}, fmt.Errorf("version: got %d, want at most %d", v.Version, int64(limiter.MaxVersion))
	}
	history, err := r.History(ctx)
	if err != nil {
		return Version{}, err
	}
	if newest := append(history, Version{})[0].Version; newest != after {
		return Version{}, fmt.Errorf("%w: version %d is in force", ErrConflict, newest)
	}
	return v, r.write(ctx, v, compressed, slices.Insert(history, 0, v), after)
}

// write makes v the version in force and the first of the history, if after is in force.
func (r *Rules) write(ctx context.Context, v Version, compressed []byte, history []Version, after int64) error {
	unchanged := types.Put{ConditionExpression: aws.String("attribute_not_exists(#pk)"), ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute}}
	fresh := unchanged
	if after != 0 {
		unchanged = types.Put{
			ConditionExpression: aws.String("#version = :after"), ExpressionAttributeNames: map[string]string{"#version": versionAttribute},
			ExpressionAttributeValues: item{":after": &types.AttributeValueMemberN{Value: strconv.FormatInt(after, 10)}},
		}
	}
	list := make([]types.AttributeValue, 0, len(history))
	for _, each := range history[:min(len(history), Kept)] {
		list = append(list, &types.AttributeValueMemberM{Value: each.attributes()})
	}
	attributes := v.attributes()
	attributes[documentAttribute] = &types.AttributeValueMemberB{Value: compressed}
	writes := []types.TransactWriteItem{
		r.put(unchanged, rulesKey, attributes),
		r.put(fresh, keyOfVersion(v.Version), attributes),
		r.put(types.Put{}, historyKey, item{versionsAttribute: &types.AttributeValueMemberL{Value: list}}),
	}
	for _, old := range history[len(list):] {
		writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{TableName: &r.table, Key: keyOf(keyOfVersion(old.Version))}})
	}
	_, err := r.api.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && overtaken(canceled) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("records table: %w", err)
	}
	return nil
}

// put returns p as a put of the item with a key and attributes.
func (r *Rules) put(p types.Put, key string, attributes item) types.TransactWriteItem {
	it := keyOf(key)
	maps.Copy(it, attributes)
	p.TableName, p.Item = &r.table, it
	return types.TransactWriteItem{Put: &p}
}

// overtaken reports whether a transaction failed because of another one.
func overtaken(e *types.TransactionCanceledException) bool {
	return slices.ContainsFunc(e.CancellationReasons, func(r types.CancellationReason) bool {
		code := aws.ToString(r.Code)
		return code == "ConditionalCheckFailed" || code == "TransactionConflict"
	})
}

func keyOfVersion(version int64) string {
	return rulesKeyVersion + strconv.FormatInt(version, 10)
}

// get reads an item as it is now, nil if there is none.
func (r *Rules) get(ctx context.Context, key string) (item, error) {
	out, err := r.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: keyOf(key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("records table: %w", err)
	}
	return out.Item, nil
}
