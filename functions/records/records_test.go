package records_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// calls are the operations that a client was asked for, and the partition keys that they
// named.
type calls struct {
	mu         sync.Mutex
	operations []string
	keys       []string
}

func (c *calls) install(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("calls", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			c.mu.Lock()
			switch in := in.Parameters.(type) {
			case *dynamodb.TransactWriteItemsInput: // which a policy allows by what it does
				for _, w := range in.TransactItems {
					c.operations = append(c.operations, map[bool]string{true: "dynamodb:PutItem", false: "dynamodb:DeleteItem"}[w.Put != nil])
				}
			default:
				c.operations = append(c.operations, "dynamodb:"+awsmiddleware.GetOperationName(ctx))
			}
			switch in := in.Parameters.(type) {
			case *dynamodb.PutItemInput:
				c.keys = append(c.keys, in.Item[contract.KeyAttribute].(*types.AttributeValueMemberS).Value)
			case *dynamodb.GetItemInput:
				c.keys = append(c.keys, in.Key[contract.KeyAttribute].(*types.AttributeValueMemberS).Value)
			}
			c.mu.Unlock()
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
	})
}

// want compares the operations with a list of actions: nothing missing, nothing spare.
func (c *calls) want(t *testing.T, actions []string) {
	t.Helper()
	called := slices.Compact(slices.Sorted(slices.Values(c.operations)))
	if listed := slices.Sorted(slices.Values(actions)); !slices.Equal(called, listed) {
		t.Errorf("called %v, listed %v", called, listed)
	}
}

// local returns a client of DynamoDB Local, and a records table of the test's own.
func local(t testing.TB, c *calls) (client *dynamodb.Client, table string) {
	t.Helper()
	options := dynamodb.Options{
		BaseEndpoint: aws.String(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
	}
	client, table = dynamodb.New(options), "weir-test-"+rand.Text()
	if _, err := client.CreateTable(ctx, records.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(table)}); err != nil {
			t.Error(err)
		}
	})
	return dynamodb.New(options, c.install), table
}

func create(t *testing.T, keys *records.Keys, k records.Key, add bool) (string, records.Key) {
	t.Helper()
	key, made, err := keys.Create(ctx, noon, k, add)
	if err != nil {
		t.Fatal(err)
	}
	return key, made
}

// What is made can be looked up and listed, and no longer once it is revoked; and each side
// calls exactly what it lists.
func TestKeys(t *testing.T) {
	var operator, function calls
	client, table := local(t, &operator)
	keys := records.NewKeys(client, table)
	reader := records.NewTable(dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.APIOptions = nil }, function.install), table)
	lookup := func(key string) (caller.Record, error) {
		return caller.NewRemoteRecords(reader).Lookup(ctx, noon, key)
	}
	if _, err := lookup(caller.NewAPIKey()); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("in an empty table: %v", err)
	}
	first, made := create(t, keys, records.Key{ID: "acme", Tier: "paid", Owner: "Acme, Zürich"}, false)
	if r, err := lookup(first); err != nil || r.ID != "acme" || r.Tier != "paid" || r.Owner != "Acme, Zürich" || !strings.HasPrefix(r.Hash, made.Hash) {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, _, err := keys.Create(ctx, noon, records.Key{ID: "acme"}, false); !errors.Is(err, records.ErrExists) {
		t.Errorf("an id twice: %v", err)
	}
	if _, _, err := keys.Create(ctx, noon, records.Key{ID: "emca"}, true); !errors.Is(err, records.ErrNotFound) {
		t.Errorf("one more key of no id: %v", err)
	}
	second, more := create(t, keys, records.Key{ID: "acme", Tier: "enterprise"}, true)
	if r, err := lookup(second); err != nil || r.ID != "acme" || r.Tier != "enterprise" || r.Owner != "Acme, Zürich" {
		t.Errorf("one more: %+v, %v", r, err)
	}
	other, _ := create(t, keys, records.Key{ID: "Z"}, false)
	list, err := keys.List(ctx)
	if err != nil || len(list) != 3 || list[0].ID != "Z" || list[1].ID != "acme" || list[2].ID != "acme" || !list[0].Created.Equal(noon) {
		t.Errorf("list: %+v, %v", list, err)
	}
	if revoked, err := keys.Revoke(ctx, "acme", made.Hash); err != nil || len(revoked) != 1 || revoked[0] != made {
		t.Errorf("revoked %+v, %v", revoked, err)
	}
	if _, err := lookup(first); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("revoked: %v", err)
	}
	if _, err := lookup(second); err != nil {
		t.Errorf("the other key of the id: %v", err)
	}
	for _, c := range [][2]string{{"nobody", ""}, {"acme", made.Hash}, {"acme", more.Hash[:4]}} {
		if _, err := keys.Revoke(ctx, c[0], c[1]); !errors.Is(err, records.ErrNotFound) {
			t.Errorf("revoke %v: %v", c, err)
		}
	}
	if revoked, err := keys.Revoke(ctx, "acme", ""); err != nil || len(revoked) != 1 {
		t.Errorf("revoked %+v, %v", revoked, err)
	}
	if _, err := lookup(other); err != nil {
		t.Errorf("another id: %v", err)
	}
	if _, _, err := reader.SigningKeys(ctx); err == nil || !strings.Contains(err.Error(), "has the function signingkeys run?") {
		t.Errorf("signing keys: %v", err)
	}
	operator.want(t, contract.KeyActions())
	function.want(t, contract.RecordActions())
}

// Of many who make the first key at once one makes the secret.
func TestKeys_Create_first(t *testing.T) {
	client, table := local(t, &calls{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			key, _, err := records.NewKeys(client, table).Create(ctx, noon, records.Key{ID: strings.ToLower(rand.Text())}, false)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := caller.NewRemoteRecords(records.NewTable(client, table)).Lookup(ctx, noon, key); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if secrets, err := records.NewTable(client, table).Secrets(ctx); err != nil || len(secrets) != 1 || len(secrets[0]) != 32 {
		t.Errorf("%d secrets, %v", len(secrets), err)
	}
}

func TestKeys_Create_mistake(t *testing.T) {
	for want, k := range map[string]records.Key{
		`id: got "", want`:               {},
		`id: got "a b", want`:            {ID: "a b"},
		`tier: got "*", want`:            {ID: "a", Tier: "*"},
		`tier: got "global", want`:       {ID: "a", Tier: "global"},
		`owner: got "\x1b[31m", want`:    {ID: "a", Owner: "\x1b[31m"},
		`owner: got "` + long[:80] + `"`: {ID: "a", Owner: long},
	} {
		if _, _, err := records.NewKeys(nil, "t").Create(ctx, noon, k, false); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

var long = strings.Repeat("x", 257)

// paged is an API of small pages.
type paged struct{ records.KeysAPI }

func (p paged) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	small := *in
	small.Limit = aws.Int32(2)
	return p.KeysAPI.Scan(ctx, &small, o...)
}

// A table of many pages is read to its end, and an item that cannot be read hides no other.
func TestKeys_pages(t *testing.T) {
	client, table := local(t, &calls{})
	keys := records.NewKeys(paged{client}, table)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		create(t, keys, records.Key{ID: id}, false)
	}
	progress := 0
	keys.Progress = func(n int) { progress = n }
	if list, err := keys.List(ctx); err != nil || len(list) != 7 || progress == 0 || progress > 7 {
		t.Errorf("%d keys, %v, %d on the way", len(list), err, progress)
	}
	broken := map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: "apikey#abc"}}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	const want = `records table: item apikey#abc: id: got "", want`
	var warned []error
	keys.Warn = func(err error) { warned = append(warned, err) }
	if list, err := keys.List(ctx); err == nil || !strings.HasPrefix(err.Error(), want) || len(list) != 7 || len(warned) != 0 {
		t.Errorf("%d keys, %v", len(list), err)
	}
	if _, _, err := keys.Create(ctx, noon, records.Key{ID: "h"}, false); err != nil || len(warned) != 1 || !strings.HasPrefix(warned[0].Error(), want) {
		t.Errorf("of another id: %v; warned of %v", err, warned)
	}
	if revoked, err := keys.Revoke(ctx, "g", ""); err != nil || len(revoked) != 1 || len(warned) != 2 {
		t.Errorf("%d keys, %v; warned of %v", len(revoked), err, warned)
	}
	if _, _, err := records.NewTable(client, table).Record(ctx, "abc"); !errors.Is(err, caller.ErrRecord) || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	if revoked, err := keys.Revoke(ctx, "", ""); !errors.Is(err, records.ErrNotFound) || len(revoked) != 0 {
		t.Errorf("nothing: revoked %v, %v", revoked, err)
	}
	if revoked, err := keys.Revoke(ctx, "", "abc"); err != nil || len(revoked) != 1 || revoked[0].Hash != "abc" {
		t.Errorf("revoked %v, %v", revoked, err)
	}
	broken["id"] = &types.AttributeValueMemberS{Value: "i"}
	broken["tier"] = &types.AttributeValueMemberS{Value: "*"}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Create(ctx, noon, records.Key{ID: "i"}, false); err == nil || !strings.Contains(err.Error(), "item apikey#abc: tier") {
		t.Errorf("of the id: %v", err)
	}
	if revoked, err := keys.Revoke(ctx, "i", ""); err != nil || len(revoked) != 1 {
		t.Errorf("revoked %v, %v", revoked, err)
	}
	if list, err := keys.List(ctx); err != nil || len(list) != 7 {
		t.Errorf("%d keys, %v", len(list), err)
	}
}

// Where there are keys, no other secret is made: it would make them unknown for good.
func TestKeys_Create_lost(t *testing.T) {
	client, table := local(t, &calls{})
	keys := records.NewKeys(client, table)
	create(t, keys, records.Key{ID: "a"}, false)
	secrets := map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: "secrets"}}
	if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: secrets}); err != nil {
		t.Fatal(err)
	}
	for id, add := range map[string]bool{"a": true, "b": false} {
		if _, _, err := keys.Create(ctx, noon, records.Key{ID: id}, add); err == nil || !strings.HasPrefix(err.Error(), `records table: there are keys, and the item "secrets"`) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := keys.Rotate(ctx, noon, true); err == nil || !strings.Contains(err.Error(), "there is no secret to rotate") {
		t.Error(err)
	}
	if _, err := keys.Revoke(ctx, "a", ""); err != nil {
		t.Error(err)
	}
	create(t, keys, records.Key{ID: "b"}, false)
}

// Of the keys of an id the newest is the pattern, and the list is in the order of their age.
func TestKeys_Create_newest(t *testing.T) {
	client, table := local(t, &calls{})
	keys := records.NewKeys(client, table)
	at := func(minute int, tier string, add bool) {
		t.Helper()
		if _, _, err := keys.Create(ctx, noon.Add(time.Duration(minute)*time.Minute), records.Key{ID: "a", Tier: tier}, add); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 6 { // their hashes, and so their items, are in another order
		at(i, fmt.Sprint("t", i), i > 0)
		want = append(want, fmt.Sprint("t", i))
	}
	at(6, "", true)
	list, err := keys.List(ctx)
	var got []string
	for _, k := range list {
		got = append(got, k.Tier)
	}
	if err != nil || !slices.Equal(got, append(want, "t5")) {
		t.Errorf("%v, %v", got, err)
	}
}

// Keys stay good over a rotation, and not over two: the second one has to be forced, unless
// they are gone.
func TestKeys_Rotate(t *testing.T) {
	client, table := local(t, &calls{})
	keys := records.NewKeys(client, table)
	good := func(key string) bool {
		t.Helper()
		_, err := caller.NewRemoteRecords(records.NewTable(client, table)).Lookup(ctx, noon, key)
		if err != nil && !errors.Is(err, caller.ErrInvalidCredential) {
			t.Error(err)
		}
		return err == nil
	}
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	made := func(minutes int, id string) string {
		t.Helper()
		key, _, err := keys.Create(ctx, at(minutes), records.Key{ID: id}, false)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := made(0, "a")
	if err := keys.Rotate(ctx, at(1), false); err != nil {
		t.Fatal(err)
	}
	second := made(2, "b")
	if !good(first) || !good(second) {
		t.Error("a rotation ends a key")
	}
	if err := keys.Rotate(ctx, at(3), false); !errors.Is(err, records.ErrInUse) || !strings.HasPrefix(err.Error(), "1 keys: ") || !good(first) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := keys.Revoke(ctx, "a", ""); err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(ctx, at(3), false); err != nil || good(first) || !good(second) {
		t.Errorf("a second one, without keys from before the first: %v", err)
	}
	if err := keys.Rotate(ctx, at(4), true); err != nil || good(second) {
		t.Errorf("a third one, forced: %v", err)
	}
	if err := records.NewKeys(stale{client}, table).Rotate(ctx, at(5), true); err == nil || !strings.Contains(err.Error(), "ConditionalCheckFailed") {
		t.Errorf("two at once: %v", err)
	}
}

// stale is an API by which somebody else rotates the secrets whenever they are read.
type stale struct{ records.KeysAPI }

func (s stale) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := s.KeysAPI.GetItem(ctx, in, o...)
	return out, errors.Join(err, records.NewKeys(s.KeysAPI, *in.TableName).Rotate(ctx, noon, true))
}

// What an operator reads is what is there.
func TestKeys_consistent(t *testing.T) {
	client, table := local(t, &calls{})
	create(t, records.NewKeys(exact{client, t}, table), records.Key{ID: "a"}, false)
}

// exact is an API that wants consistent reads.
type exact struct {
	records.KeysAPI
	t *testing.T
}

func (e exact) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		e.t.Error("a scan that is not consistent")
	}
	return e.KeysAPI.Scan(ctx, in, o...)
}

func (e exact) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		e.t.Error("a read that is not consistent")
	}
	return e.KeysAPI.GetItem(ctx, in, o...)
}

// During an overlap keys of both secrets are good; a secret of another length is none.
func TestTable_Secrets(t *testing.T) {
	client, table := local(t, &calls{})
	keys, reader := records.NewKeys(client, table), records.NewTable(client, table)
	key, _ := create(t, keys, records.Key{ID: "old"}, false)
	secrets, err := reader.Secrets(ctx)
	if err != nil || len(secrets) != 1 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	put := func(attributes map[string][]byte) {
		t.Helper()
		it := map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: "secrets"}}
		for name, value := range attributes {
			it[name] = &types.AttributeValueMemberB{Value: value}
		}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
	put(map[string][]byte{"current": bytes.Repeat([]byte{1}, 32), "previous": secrets[0]})
	newer, _ := create(t, keys, records.Key{ID: "new"}, false)
	for _, key := range []string{key, newer} {
		if _, err := caller.NewRemoteRecords(reader).Lookup(ctx, noon, key); err != nil {
			t.Error(err)
		}
	}
	if all, err := reader.Secrets(ctx); err != nil || len(all) != 2 || all[0][0] != 1 || !bytes.Equal(all[1], secrets[0]) {
		t.Errorf("the current secret is the first to be tried: %v, %v", all, err)
	}
	put(map[string][]byte{"current": bytes.Repeat([]byte{1}, 32)})
	if _, err := caller.NewRemoteRecords(reader).Lookup(ctx, noon, key); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("after the overlap: %v", err)
	}
	for want, attributes := range map[string]map[string][]byte{
		"current is not 32 bytes":  {"current": {1}},
		"previous is not 32 bytes": {"current": secrets[0], "previous": {1}},
	} {
		put(attributes)
		if _, err := reader.Secrets(ctx); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := caller.NewRemoteRecords(reader).Lookup(ctx, noon, newer); !errors.Is(err, caller.ErrUnverified) {
			t.Errorf("a lookup: %v", err)
		}
	}
}

// The issuer's keys are copied, and never replaced by what are none.
func TestSigningKeys(t *testing.T) {
	var function calls
	client, table := local(t, &function)
	document, err := samples.Files.ReadFile("jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	f := &records.SigningKeys{API: client, Table: table, Clock: func() time.Time { return noon }, Fetch: func(context.Context) ([]byte, time.Time, error) { return document, time.Time{}, failed }}
	if answer, err := f.Invoke(ctx, []byte(`{"source":"aws.scheduler"}`)); err != nil || !json.Valid(answer) {
		t.Errorf("%s, %v", answer, err)
	}
	function.want(t, contract.SigningKeyActions())
	if !slices.Equal(function.keys, []string{contract.SigningKeysKey}) {
		t.Errorf("wrote %v", function.keys)
	}
	reader := records.NewTable(client, table)
	copied := document
	for name, bad := range map[string][]byte{
		"signing keys: key set: ":                                nil,
		"signing keys: key set: there is no list of keys":        []byte(`{}`),
		"signing keys: key set: no key for signatures":           []byte(`{"keys":[{"kty":"AKP"}]}`),
		"signing keys: got 307201 bytes, want at most 307200":    bytes.Repeat([]byte("x"), 300<<10+1),
		"signing keys: key set: keys[0] is not a public key":     []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`),
		"signing keys: key set: invalid character '<' looking f": []byte("<html>"),
	} {
		document = bad
		if _, err := f.Invoke(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	document, failed = copied, errors.New("no route")
	if _, err := f.Invoke(ctx, nil); err == nil || err.Error() != "signing keys: no route" {
		t.Error(err)
	}
	if kept, at, err := reader.SigningKeys(ctx); err != nil || !bytes.Equal(kept, copied) || !at.Equal(noon) {
		t.Errorf("%q at %s, %v", kept, at, err)
	}
	document, failed = []byte(`{"keys":[]}`), nil
	if _, err := f.Invoke(ctx, nil); err != nil {
		t.Error(err)
	}
	if kept, _, err := reader.SigningKeys(ctx); err != nil || !bytes.Equal(kept, document) {
		t.Errorf("all withdrawn: %q, %v", kept, err)
	}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: contract.SigningKeysKey}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reader.SigningKeys(ctx); err == nil || !strings.HasPrefix(err.Error(), `records table: item signingkeys: fetched: got "", want a time`) {
		t.Error(err)
	}
	f.Table, failed = "weir-test-none", nil
	if _, err := f.Invoke(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), "signing keys: records table: ") {
		t.Error(err)
	}
}
