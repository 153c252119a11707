package rulestore

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// API is the part of DynamoDB that Versions needs. A *dynamodb.Client implements it.
type API interface {
	records.Reader
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput,
		error)
}

// Kept is the number of versions that the table keeps, including the version in force.
const Kept = 50

// maxNote is the length of the longest Version.Note, in bytes.
const maxNote = 200

var (
	// ErrConflict means that another version came into force since the caller read the version in
	// force.
	ErrConflict = errors.New("another version was published at the same time; nothing was changed")
	// ErrNoVersion means that the table does not keep the version.
	ErrNoVersion = errors.New("no such version")
)

// Versions publishes and reads versions of the rules document in a table, for operators. It is safe
// for concurrent use by several processes. A publication writes the version and its entry in the
// history together or not at all. If publications are concurrent, exactly one succeeds.
type Versions struct {
	api   API
	table string
}

// New returns the versions in a records table.
func New(api API, table string) *Versions { return &Versions{api, table} }

// Get returns a version and its document. 0 means the version in force. The error wraps ErrNoRules if
// no version is in force, or ErrNoVersion if the table does not keep the version.
func (s *Versions) Get(ctx context.Context, version int64) (Version, []byte, error) {
	if version == 0 {
		return s.get(ctx, currentKey, ErrNoRules)
	}
	return s.get(ctx, versionKey(version), fmt.Errorf("%d: %w; `weir rules history` lists the last %d", version, ErrNoVersion, Kept))
}

// Deployed returns the document that the deployment of a namespace published (Publisher). The error wraps ErrNoRules if
// there is none. The item stays when the deployment gets its rules from another source.
func (s *Versions) Deployed(ctx context.Context, namespace string) (Version, []byte, error) {
	return s.get(ctx, contract.DeployedRulesKey(namespace), ErrNoRules)
}

// get returns the version in an item, or the error missing without the item.
func (s *Versions) get(ctx context.Context, key string, missing error) (Version, []byte, error) {
	item, err := records.GetConsistent(ctx, s.api, s.table, key)
	switch {
	case err != nil:
		return Version{}, nil, err
	case item == nil:
		return Version{}, nil, missing
	}
	return parseDocument(item)
}

// History returns the versions that the table keeps, newest first. The newest is in force.
func (s *Versions) History(ctx context.Context) ([]Version, error) {
	item, err := records.GetConsistent(ctx, s.api, s.table, historyKey)
	if err != nil {
		return nil, err
	}
	list, _ := item[versionsAttribute].(*types.AttributeValueMemberL)
	all := []Version{}
	if list == nil {
		return all, nil
	}
	for _, each := range list.Value {
		m, _ := each.(*types.AttributeValueMemberM)
		if m == nil {
			m = &types.AttributeValueMemberM{}
		}
		v, err := parseVersion(m.Value)
		if err != nil {
			return nil, fmt.Errorf("item %s: %w", historyKey, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Publish puts a document into force as a new version. now is the time of the version. after is the version
// in force according to the caller, or 0 for none. If another version is in force, the error wraps
// ErrConflict. least is the document's own version, or 0 for none. Publish does not parse the document; the
// caller must do this first.
//
// The new version is the largest of after+1, least and now in Unix seconds. So a new version is never
// below the current time. Functions rely on this: a function whose bundled document has a version above
// the current time uses version 1 for that document.
func (s *Versions) Publish(ctx context.Context, now time.Time, document []byte, note string, after, least int64) (Version, error) {
	unprintable := func(c rune) bool { return !unicode.IsPrint(c) }
	if len(note) > maxNote || !utf8.ValidString(note) || strings.ContainsFunc(note, unprintable) {
		return Version{}, fmt.Errorf("note: got %.80q, want at most %d bytes of printable text", note, maxNote)
	}
	compressed, err := compress(document)
	if err != nil {
		return Version{}, err
	}
	if most := now.Add(rules.MaxVersionLead).Unix(); least > most {
		return Version{}, fmt.Errorf("version: got %d, want at most %d, a day after the current time in Unix seconds; all later versions must "+
			"be higher", least, most)
	}
	v := Version{Version: max(after+1, least, now.Unix()), Published: now.UTC().Truncate(time.Second), Note: note, Bytes: len(document)}
	if v.Version > limiter.MaxVersion {
		return Version{}, fmt.Errorf("version: got %d, want at most %d", v.Version, int64(limiter.MaxVersion))
	}
	history, err := s.History(ctx)
	if err != nil {
		return Version{}, err
	}
	if newest := append(history, Version{})[0].Version; newest != after {
		return Version{}, fmt.Errorf("%w: version %d is in force", ErrConflict, newest)
	}
	return v, s.write(ctx, v, compressed, slices.Insert(history, 0, v), after)
}

// write makes v the version in force if the version after is still in force. If after is 0, no version may
// be in force. Otherwise write returns ErrConflict. history begins with v.
func (s *Versions) write(ctx context.Context, v Version, compressed []byte, history []Version, after int64) error {
	list := make([]types.AttributeValue, 0, len(history))
	for _, each := range history[:min(len(history), Kept)] {
		list = append(list, &types.AttributeValueMemberM{Value: each.attributes()})
	}
	listed := records.NewItem(historyKey)
	listed[versionsAttribute] = &types.AttributeValueMemberL{Value: list}
	writes := []types.TransactWriteItem{
		s.put(ifVersion(after), v.item(currentKey, compressed)),
		s.put(ifVersion(0), v.item(versionKey(v.Version), compressed)),
		s.put(types.Put{}, listed),
	}
	for _, old := range history[len(list):] {
		writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{TableName: &s.table,
			Key: records.NewItem(versionKey(old.Version))}})
	}
	return s.transact(ctx, writes)
}

// ifVersion returns a put of an item that has the version after; of an item that does not exist if after is 0.
func ifVersion(after int64) types.Put {
	if after == 0 {
		return types.Put{ConditionExpression: aws.String("attribute_not_exists(#pk)"),
			ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute}}
	}
	return types.Put{
		ConditionExpression: aws.String("#version = :after"), ExpressionAttributeNames: map[string]string{"#version": versionAttribute},
		ExpressionAttributeValues: records.Item{":after": &types.AttributeValueMemberN{Value: strconv.FormatInt(after, 10)}},
	}
}

// transact writes items together. If a condition fails, it returns ErrConflict.
func (s *Versions) transact(ctx context.Context, writes []types.TransactWriteItem) error {
	_, err := s.api.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && lostRace(canceled) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("records table: %w", err)
	}
	return nil
}

func (s *Versions) put(p types.Put, item records.Item) types.TransactWriteItem {
	p.TableName, p.Item = &s.table, item
	return types.TransactWriteItem{Put: &p}
}

// lostRace reports whether a transaction failed because of a concurrent transaction on the same items.
func lostRace(e *types.TransactionCanceledException) bool {
	return slices.ContainsFunc(e.CancellationReasons, func(r types.CancellationReason) bool {
		code := aws.ToString(r.Code)
		return code == "ConditionalCheckFailed" || code == "TransactionConflict"
	})
}

func versionKey(version int64) string {
	return versionPrefix + strconv.FormatInt(version, 10)
}
