package checkout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
)

// Keys returns the API keys of this checkout, for operators. A running gateway applies a change to the next request. If
// two operators change keys at the same time, one of the changes can be lost.
func (c Checkout) Keys() *apikeys.Keys { return apikeys.New(keysTable{c}, "") }

// secretBytes is the length of the secret in package apikeys.
const secretBytes = 32

// errRotate is the error of a rotation, which a local run does not need.
var errRotate = errors.New("rotate: not available for the keys of a local gateway; " +
	"weir serve creates all of them again if .weir is missing")

// keysTable has the items of APIKeysFile and APIKeySecretFile, as a records table has them.
type keysTable struct{ Checkout }

var _ apikeys.API = keysTable{}

// GetItem implements records.Reader.
func (t keysTable) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if memtable.Key(in.Key) != contract.SecretsKey {
		table, err := t.read()
		if err != nil {
			return nil, err
		}
		return table.GetItem(ctx, in)
	}
	if _, err := t.SampleKeys(); err != nil { // creates missing files
		return nil, err
	}
	secret, err := os.ReadFile(t.APIKeySecretFile())
	if err == nil && len(secret) != secretBytes {
		err = fmt.Errorf("%s: got %d bytes, want %d; remove .weir, and weir serve creates new keys", t.APIKeySecretFile(), len(secret),
			secretBytes)
	}
	item := records.NewItem(contract.SecretsKey)
	item.SetBinary("current", secret)
	return &dynamodb.GetItemOutput{Item: item}, err
}

// PutItem implements records.Writer.
func (t keysTable) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if memtable.Key(in.Item) == contract.SecretsKey {
		return nil, errRotate
	}
	return &dynamodb.PutItemOutput{}, t.change(func(table *memtable.Table) error {
		table.Items[memtable.Key(in.Item)] = in.Item
		return nil
	})
}

// UpdateItem implements apikeys.API.
func (t keysTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.UpdateItemOutput, err error) {
	return out, t.change(func(table *memtable.Table) (err error) {
		out, err = table.UpdateItem(ctx, in)
		return err
	})
}

// DeleteItem implements apikeys.API.
func (t keysTable) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.DeleteItemOutput, err error) {
	return out, t.change(func(table *memtable.Table) (err error) {
		out, err = table.DeleteItem(ctx, in)
		return err
	})
}

// Scan implements apikeys.API. It returns all keys.
func (t keysTable) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	table, err := t.read()
	if err != nil {
		return nil, err
	}
	return &dynamodb.ScanOutput{Items: slices.Collect(maps.Values(table.Items))}, nil
}

func (t keysTable) read() (*memtable.Table, error) {
	if _, err := t.SampleKeys(); err != nil {
		return nil, err
	}
	var list []caller.Record
	if err := readJSON(t.APIKeysFile(), &list); err != nil {
		return nil, err
	}
	table := &memtable.Table{Items: map[string]memtable.Item{}}
	for _, r := range list {
		item := apikeys.ItemOf(r)
		table.Items[memtable.Key(item)] = item
	}
	return table, nil
}

func (t keysTable) change(f func(*memtable.Table) error) error {
	table, err := t.read()
	if err != nil {
		return err
	}
	if err := f(table); err != nil {
		return err
	}
	list := []caller.Record{}
	for _, key := range slices.Sorted(maps.Keys(table.Items)) {
		r, _ := apikeys.RecordOf(table.Items[key]) // a mistake in a record stays in the file
		list = append(list, r)
	}
	return writeJSON(t.APIKeysFile(), list)
}
