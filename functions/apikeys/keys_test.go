package apikeys_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

func create(t *testing.T, keys *apikeys.Keys, k apikeys.Key, add bool) (string, apikeys.Key) {
	t.Helper()
	key, made, err := keys.Create(ctx, noon, k, add)
	if err != nil {
		t.Fatal(err)
	}
	return key, made
}

// A created key is valid and listed until it is revoked. Operators and functions call exactly the actions
// that package contract lists.
func TestKeys(t *testing.T) {
	var operator, function recordstest.Calls
	client, table := recordstest.Table(t, &operator)
	keys := apikeys.New(client, table)
	reader := apikeys.NewTable(records.NewTable(function.Client(client), table))
	lookup := func(key string) (caller.Record, error) {
		return caller.NewRemoteRecords(reader).Lookup(ctx, noon, key)
	}
	if _, err := lookup(caller.NewAPIKey()); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("empty table: got %v, want ErrInvalidCredential", err)
	}
	first, made := create(t, keys, apikeys.Key{ID: "acme", Tier: "paid", Owner: "Acme, Zürich"}, false)
	if r, err := lookup(first); err != nil || r.ID != "acme" || r.Tier != "paid" || r.Owner != "Acme, Zürich" ||
		!strings.HasPrefix(r.Hash, made.Hash) {
		t.Errorf("lookup of a new key: got %+v, %v; want acme of tier paid", r, err)
	}
	if _, _, err := keys.Create(ctx, noon, apikeys.Key{ID: "acme"}, false); !errors.Is(err, apikeys.ErrExists) {
		t.Errorf("second key of an id without add: got %v, want ErrExists", err)
	}
	if _, _, err := keys.Create(ctx, noon, apikeys.Key{ID: "emca"}, true); !errors.Is(err, apikeys.ErrNotFound) {
		t.Errorf("add a key to an unknown id: got %v, want ErrNotFound", err)
	}
	second, more := create(t, keys, apikeys.Key{ID: "acme", Tier: "enterprise"}, true)
	if r, err := lookup(second); err != nil || r.ID != "acme" || r.Tier != "enterprise" || r.Owner != "Acme, Zürich" {
		t.Errorf("lookup of the second key: got %+v, %v; want acme of tier enterprise", r, err)
	}
	other, _ := create(t, keys, apikeys.Key{ID: "Z"}, false)
	list, err := keys.List(ctx)
	if err != nil || len(list) != 3 || list[0].ID != "Z" || list[1].ID != "acme" || list[2].ID != "acme" || !list[0].Created.Equal(noon) {
		t.Errorf("list: got %+v, %v; want the keys of Z, acme and acme", list, err)
	}
	for _, suspended := range []bool{true, false} {
		if changed, err := keys.Set(ctx, noon, "acme", apikeys.Change{Suspended: aws.Bool(suspended)}); err != nil || len(changed) != 2 ||
			changed[0].Suspended != suspended {
			t.Errorf("suspend %t: got %+v, %v; want both keys", suspended, changed, err)
		}
		if changed, err := keys.Set(ctx, noon, "acme", apikeys.Change{Suspended: aws.Bool(suspended)}); err != nil || len(changed) != 0 {
			t.Errorf("suspend %t again: got %+v, %v; want no change", suspended, changed, err)
		}
		for _, key := range []string{first, second} {
			if r, err := lookup(key); err != nil || r.Suspended != suspended || r.Owner != "Acme, Zürich" {
				t.Errorf("lookup after suspend %t: got %+v, %v", suspended, r, err)
			}
		}
		if _, added := create(t, keys, apikeys.Key{ID: "acme"}, true); added.Suspended != suspended {
			t.Errorf("a key added to an id that is suspended %t: got %+v", suspended, added)
		} else if _, err := keys.Revoke(ctx, "acme", added.Hash); err != nil {
			t.Error(err)
		}
		if r, err := lookup(other); err != nil || r.Suspended {
			t.Errorf("lookup of a key of another id: got %+v, %v", r, err)
		}
	}
	if _, err := keys.Set(ctx, noon, "nobody", apikeys.Change{Suspended: aws.Bool(true)}); !errors.Is(err, apikeys.ErrNotFound) {
		t.Errorf("suspend an unknown id: got %v, want ErrNotFound", err)
	}
	if revoked, err := keys.Revoke(ctx, "acme", made.Hash); err != nil || len(revoked) != 1 || revoked[0] != made {
		t.Errorf("revoke one key: got %+v, %v; want %+v", revoked, err, made)
	}
	if _, err := lookup(first); !errors.Is(err, caller.ErrInvalidCredential) {
		t.Errorf("lookup of the revoked key: got %v, want ErrInvalidCredential", err)
	}
	if _, err := lookup(second); err != nil {
		t.Errorf("lookup of the other key of the id: got error %v, want none", err)
	}
	for _, c := range [][2]string{{"nobody", ""}, {"acme", made.Hash}, {"acme", more.Hash[:4]}} {
		if _, err := keys.Revoke(ctx, c[0], c[1]); !errors.Is(err, apikeys.ErrNotFound) {
			t.Errorf("revoke %v: got %v, want ErrNotFound", c, err)
		}
	}
	if revoked, err := keys.Revoke(ctx, "acme", ""); err != nil || len(revoked) != 1 {
		t.Errorf("revoke all keys of the id: got %+v, %v; want one key", revoked, err)
	}
	if _, err := lookup(other); err != nil {
		t.Errorf("lookup of a key of another id: got error %v, want none", err)
	}
	operator.Want(t, contract.KeyActions())
	function.Want(t, contract.RecordActions())
}

// Concurrent creations of the first key create one secret.
func TestKeys_Create_first(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			key, _, err := apikeys.New(client, table).Create(ctx, noon, apikeys.Key{ID: strings.ToLower(rand.Text())}, false)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := caller.NewRemoteRecords(apikeys.NewTable(records.NewTable(client, table))).Lookup(ctx, noon, key); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if secret, err := apikeys.NewTable(records.NewTable(client, table)).Secret(ctx); err != nil || len(secret) != 32 {
		t.Errorf("secret: got %d bytes, error %v; want 32", len(secret), err)
	}
}

func TestKeys_Create_mistake(t *testing.T) {
	for want, k := range map[string]apikeys.Key{
		`id: got "", want`:               {},
		`id: got "a b", want`:            {ID: "a b"},
		`tier: got "*", want`:            {ID: "a", Tier: "*"},
		`tier: got "global", want`:       {ID: "a", Tier: "global"},
		`owner: got "\x1b[31m", want`:    {ID: "a", Owner: "\x1b[31m"},
		`owner: got "` + long[:80] + `"`: {ID: "a", Owner: long},
	} {
		if _, _, err := apikeys.New(nil, "t").Create(ctx, noon, k, false); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error: got %v, want %s", err, want)
		}
	}
}

var long = strings.Repeat("x", 257)

type paged struct{ apikeys.API }

func (p paged) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	small := *in
	small.Limit = aws.Int32(2)
	return p.API.Scan(ctx, &small, o...)
}

// revoking is a DynamoDB in which another operator revokes each key before it is written.
type revoking struct {
	*dynamodb.Client
}

func (r revoking) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	key := records.NewItem(records.Item(in.Item).Text(contract.KeyAttribute))
	if _, err := r.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: in.TableName, Key: key}); err != nil {
		return nil, err
	}
	return r.Client.PutItem(ctx, in, o...)
}

// A key that is revoked during its suspension stays revoked.
func TestKeys_Set_revoked(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	create(t, apikeys.New(client, table), apikeys.Key{ID: "acme"}, false)
	keys := apikeys.New(revoking{client}, table)
	if changed, err := keys.Set(ctx, noon, "acme", apikeys.Change{Suspended: aws.Bool(true)}); err != nil || len(changed) != 0 {
		t.Errorf("got %+v, error %v, want no changed key", changed, err)
	}
	if list, err := keys.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("list: got %+v, error %v, want no key", list, err)
	}
}

// If one key of an id is malformed, Set still suspends the other keys of the id, and returns an error.
func TestKeys_Set_malformed(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	keys := apikeys.New(client, table)
	create(t, keys, apikeys.Key{ID: "acme"}, false)
	broken := records.NewItem("apikey#abc") // without a time of creation, so it is the first key
	broken.SetText("id", "acme")
	broken.SetText("tier", "*")
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	changed, err := keys.Set(ctx, noon, "acme", apikeys.Change{Suspended: aws.Bool(true)})
	if err == nil || !strings.Contains(err.Error(), "item apikey#abc: tier") || len(changed) != 1 || !changed[0].Suspended {
		t.Errorf("got %+v, error %v, want the other key suspended, and an error", changed, err)
	}
	if list, _ := keys.List(ctx); len(list) != 1 || !list[0].Suspended {
		t.Errorf("list: got %+v, want a suspended key", list)
	}
}

// List reads a table of many pages to its end. If one item is malformed, List still returns the other
// keys.
func TestKeys_pages(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	keys := apikeys.New(paged{client}, table)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		create(t, keys, apikeys.Key{ID: id}, false)
	}
	progress := 0
	keys.Progress = func(n int) { progress = n }
	if list, err := keys.List(ctx); err != nil || len(list) != 7 || progress == 0 || progress > 7 {
		t.Errorf("list: got %d keys, %v, progress %d; want 7 keys", len(list), err, progress)
	}
	broken := map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: "apikey#abc"}}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	const want = `records table: item apikey#abc: id: got "", want`
	var warned []error
	keys.Warn = func(err error) { warned = append(warned, err) }
	if list, err := keys.List(ctx); err == nil || !strings.HasPrefix(err.Error(), want) || len(list) != 7 || len(warned) != 0 {
		t.Errorf("list with a malformed item: got %d keys, %v; want 7 keys and an error", len(list), err)
	}
	if _, _, err := keys.Create(ctx, noon, apikeys.Key{ID: "h"}, false); err != nil || len(warned) != 1 ||
		!strings.HasPrefix(warned[0].Error(), want) {
		t.Errorf("create a key of another id: got %v and warnings %v, want one warning", err, warned)
	}
	if revoked, err := keys.Revoke(ctx, "g", ""); err != nil || len(revoked) != 1 || len(warned) != 2 {
		t.Errorf("revoke a key of another id: got %d keys, %v and warnings %v; want one key and two warnings", len(revoked), err, warned)
	}
	if _, _, err := apikeys.NewTable(records.NewTable(client, table)).Record(ctx, "abc"); !errors.Is(err, caller.ErrRecord) ||
		!strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	if revoked, err := keys.Revoke(ctx, "", ""); !errors.Is(err, apikeys.ErrNotFound) || len(revoked) != 0 {
		t.Errorf("revoke without id and hash: got %v, %v; want ErrNotFound", revoked, err)
	}
	if revoked, err := keys.Revoke(ctx, "", "abc"); err != nil || len(revoked) != 1 || revoked[0].Hash != "abc" {
		t.Errorf("revoke the malformed item by its hash: got %v, %v; want one key", revoked, err)
	}
	broken["id"] = &types.AttributeValueMemberS{Value: "i"}
	broken["tier"] = &types.AttributeValueMemberS{Value: "*"}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Create(ctx, noon, apikeys.Key{ID: "i"}, false); err == nil || !strings.Contains(err.Error(),
		"item apikey#abc: tier") {
		t.Errorf("create a key of the malformed item's id: got error %v, want one about its tier", err)
	}
	if revoked, err := keys.Revoke(ctx, "i", ""); err != nil || len(revoked) != 1 {
		t.Errorf("revoke the malformed item by its id: got %v, %v; want one key", revoked, err)
	}
	if list, err := keys.List(ctx); err != nil || len(list) != 7 {
		t.Errorf("list at the end: got %d keys, %v; want 7", len(list), err)
	}
}

// Keys uses strongly consistent reads.
func TestKeys_consistent(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	create(t, apikeys.New(exact{client, t}, table), apikeys.Key{ID: "a"}, false)
}

// exact is an API that requires consistent reads.
type exact struct {
	apikeys.API
	t *testing.T
}

func (e exact) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		e.t.Error("Scan: got an eventually consistent read, want a strongly consistent one")
	}
	return e.API.Scan(ctx, in, o...)
}

func (e exact) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if !aws.ToBool(in.ConsistentRead) {
		e.t.Error("GetItem: got an eventually consistent read, want a strongly consistent one")
	}
	return e.API.GetItem(ctx, in, o...)
}

// A secret of the wrong length, or none beside keys, makes no key valid.
func TestTable_Secret(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	keys, reader := apikeys.New(client, table), apikeys.NewTable(records.NewTable(client, table))
	key, _ := create(t, keys, apikeys.Key{ID: "acme"}, false)
	short := records.NewItem(contract.SecretsKey)
	short.SetBinary("key", []byte{1})
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: short}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Secret(ctx); err == nil || !strings.HasSuffix(err.Error(), "item secrets: key: got 1 bytes, want 32") {
		t.Errorf("malformed secret: got %v, want an error", err)
	}
	if _, err := caller.NewRemoteRecords(reader).Lookup(ctx, noon, key); !errors.Is(err, caller.ErrUnverified) {
		t.Errorf("lookup with a malformed secret: got %v, want ErrUnverified", err)
	}
	if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: records.NewItem(contract.SecretsKey)}); err != nil {
		t.Fatal(err)
	}
	if secret, err := reader.Secret(ctx); err != nil || secret != nil {
		t.Errorf("no secret: got %x, %v, want none", secret, err)
	}
	if _, _, err := keys.Create(ctx, noon, apikeys.Key{ID: "new"}, false); err == nil || !strings.Contains(err.Error(), "restore the item") {
		t.Errorf("create without the secret of other keys: got %v, want the remedy", err)
	}
}

// rates parses a list of limits such as "search=5000/1m"; "search=" removes a limit.
func rates(t *testing.T, list string) map[string]caller.Rate {
	t.Helper()
	made := map[string]caller.Rate{}
	for word := range strings.FieldsSeq(list) {
		name, rate, _ := strings.Cut(word, "=")
		made[name] = (caller.Rate{})
		if rate != "" {
			made[name] = must(caller.ParseRate(rate))
		}
	}
	return made
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Set changes the limits of all keys of an id. Limits.Changed grows with every change, even if a clock is
// behind, and stays when the limits are removed. Without a change, Set writes nothing.
func TestKeys_Set_limits(t *testing.T) {
	calls := &recordstest.Calls{}
	client, table := recordstest.Table(t, calls)
	keys := apikeys.New(client, table)
	key, _ := create(t, keys, apikeys.Key{ID: "acme", Tier: "paid", Owner: "Acme"}, false)
	create(t, keys, apikeys.Key{ID: "acme"}, true)
	create(t, keys, apikeys.Key{ID: "other"}, false)
	at := noon.Unix()
	for i, c := range []struct {
		now    time.Time
		change apikeys.LimitsChange
		want   string
		stamp  int64
		writes int
	}{
		{noon, apikeys.LimitsChange{Rates: rates(t, "search=5000/1m month=2000000"), Anchor: aws.String("31")},
			"month=2000000 search=5000/1m anchor=31", at, 2},
		{noon, apikeys.LimitsChange{Rates: rates(t, "search=5000/1m")}, "month=2000000 search=5000/1m anchor=31", at, 0},
		{noon.Add(-time.Hour), apikeys.LimitsChange{Rates: rates(t, "search= data=7")}, "data=7 month=2000000 anchor=31", at + 1, 2},
		{noon.Add(time.Minute), apikeys.LimitsChange{Anchor: aws.String("")}, "data=7 month=2000000", at + 60, 2},
		{noon.Add(time.Hour), apikeys.LimitsChange{Clear: true}, "", at + 3600, 2},
		{noon.Add(2 * time.Hour), apikeys.LimitsChange{Clear: true}, "", at + 3600, 0},
		{noon.Add(2 * time.Hour), apikeys.LimitsChange{Clear: true, Rates: rates(t, "search=9")}, "search=9", at + 7200, 2},
	} {
		changed, err := keys.Set(ctx, c.now, "acme", apikeys.Change{Limits: &c.change})
		if err != nil || len(changed) != c.writes {
			t.Errorf("change %d: got %d changed keys, %v; want %d", i+1, len(changed), err, c.writes)
		}
		list, err := keys.List(ctx)
		if err != nil || list[0].Limits.String() != c.want || list[0].Limits.Changed() != c.stamp ||
			list[1].Limits.Text() != list[0].Limits.Text() || list[2].Limits != nil || list[0].Owner != "Acme" {
			t.Errorf("change %d: got %+v, %v; want %q with the stamp %d", i+1, list, err, c.want, c.stamp)
		}
	}
	r, err := caller.NewRemoteRecords(apikeys.NewTable(records.NewTable(client, table))).Lookup(ctx, noon, key)
	if err != nil || r.Limits.String() != "search=9" || r.Tier != "paid" {
		t.Errorf("lookup: got %+v, %v; want the limits", r, err)
	}
	if _, added := create(t, keys, apikeys.Key{ID: "acme"}, true); added.Limits.String() != "search=9" {
		t.Errorf("another key: got the limits %q, want those of the first key", added.Limits)
	}
	older := apikeys.ItemOf(caller.Record{ID: "acme", Hash: strings.Repeat("f", 64), Created: noon.Add(time.Hour),
		Limits: must(caller.NewLimits(map[string]caller.Rate{"search": {Requests: 1}}, "", at))})
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: older}); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := keys.Find(ctx, "acme"); err != nil || !ok || r.Limits.String() != "search=9" {
		t.Errorf("a key with older limits: got the record %+v, %v; want the newest limits", r, err)
	}
}

// writing is a DynamoDB in which another operator changes a key before each write.
type writing struct {
	*dynamodb.Client
	change func() apikeys.Change
}

func (w writing) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if _, err := apikeys.New(w.Client, *in.TableName).Set(ctx, noon, "acme", w.change()); err != nil {
		return nil, err
	}
	return w.Client.PutItem(ctx, in, o...)
}

// Set keeps a concurrent change of other attributes, so that a suspension succeeds beside it. A concurrent change of the limits
// makes a change of the limits fail. The number of attempts is bounded.
func TestKeys_Set_concurrent(t *testing.T) {
	suspended := apikeys.Change{Suspended: aws.Bool(true)}
	limits := apikeys.Change{Limits: &apikeys.LimitsChange{Rates: rates(t, "month=5")}}
	others := apikeys.Change{Limits: &apikeys.LimitsChange{Rates: rates(t, "search=6")}}
	tiers := 0
	for name, c := range map[string]struct {
		own    apikeys.Change
		other  func() apikeys.Change
		failed error
		want   string
	}{
		"suspension beside a tier and limits": {suspended, func() apikeys.Change {
			return apikeys.Change{Tier: aws.String("paid"), Limits: others.Limits}
		}, nil, "paid true search=6"},
		"limits beside a tier and a suspension": {limits, func() apikeys.Change {
			return apikeys.Change{Tier: aws.String("paid"), Suspended: aws.Bool(true)}
		}, nil, "paid true month=5"},
		"limits beside limits": {limits, func() apikeys.Change { return others }, apikeys.ErrChanged, "free false search=6"},
		"suspension beside a change of each attempt": {suspended, func() apikeys.Change {
			tiers++
			return apikeys.Change{Tier: aws.String(fmt.Sprint("t", tiers))}
		}, apikeys.ErrChanged, "t5 false "},
	} {
		client, table := recordstest.Table(t, nil)
		create(t, apikeys.New(client, table), apikeys.Key{ID: "acme", Tier: "free"}, false)
		if _, err := apikeys.New(writing{client, c.other}, table).Set(ctx, noon, "acme", c.own); !errors.Is(err, c.failed) {
			t.Errorf("%s: got error %v, want %v", name, err, c.failed)
		}
		list := storetest.Must(apikeys.New(client, table).List(ctx))
		if got := fmt.Sprint(list[0].Tier, " ", list[0].Suspended, " ", list[0].Limits.String()); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
