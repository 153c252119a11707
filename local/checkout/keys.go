package checkout

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// Keys returns the API keys of this checkout, for operators. A running gateway applies a change to the next request. If
// two operators change keys at the same time, one of the changes can be lost.
func (c Checkout) Keys() *apikeys.Keys { return apikeys.New(keysTable{c}, "") }

// keysTable has the items of APIKeysFile and APIKeySecretFile, as a records table has them.
type keysTable struct{ Checkout }

var _ apikeys.API = keysTable{}

// GetItem implements records.Reader. The only item that operators read is that of the secret.
func (t keysTable) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if _, err := t.SampleKeys(); err != nil { // creates missing files
		return nil, err
	}
	secret, err := os.ReadFile(t.APIKeySecretFile())
	if err == nil && len(secret) != records.SecretBytes {
		err = fmt.Errorf("%s: got %d bytes, want %d; remove .weir, and weir serve creates new keys", t.APIKeySecretFile(), len(secret),
			records.SecretBytes)
	}
	item := records.NewItem(contract.SecretsKey)
	item.SetBinary("key", secret)
	return &dynamodb.GetItemOutput{Item: item}, err
}

// PutItem implements records.Writer.
func (t keysTable) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, t.change(in.Item, in.Item)
}

// DeleteItem implements apikeys.API.
func (t keysTable) DeleteItem(_ context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
	error) {
	return &dynamodb.DeleteItemOutput{}, t.change(in.Key, nil)
}

// Scan implements apikeys.API. It returns all keys.
func (t keysTable) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if _, err := t.SampleKeys(); err != nil {
		return nil, err
	}
	var list []caller.Record
	out := &dynamodb.ScanOutput{}
	err := readJSON(t.APIKeysFile(), &list)
	for _, r := range list {
		out.Items = append(out.Items, apikeys.ItemOf(r))
	}
	return out, err
}

// change replaces the item of a key; nil deletes it.
func (t keysTable) change(key, item records.Item) error {
	was, err := t.Scan(context.Background(), nil)
	if err != nil {
		return err
	}
	of := func(i records.Item) string { return i.Text(contract.KeyAttribute) }
	items := slices.DeleteFunc(was.Items, func(i map[string]types.AttributeValue) bool { return of(i) == of(key) })
	if item != nil {
		items = append(items, item)
	}
	list := []caller.Record{}
	for _, i := range items {
		r, _ := apikeys.RecordOf(i) // a mistake in a record stays in the file
		list = append(list, r)
	}
	return writeJSON(t.APIKeysFile(), list)
}
