package records_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// The function copies the issuer's keys. An invalid document never replaces the copy.
func TestSigningKeys(t *testing.T) {
	var function recordstest.Calls
	client, table := recordstest.Table(t, &function)
	document := storetest.Must(samples.Files.ReadFile("jwks.json"))
	reader := records.NewTable(new(recordstest.Calls).Client(client), table)
	if _, _, err := reader.SigningKeys(ctx); err == nil || err.Error() != "records table: no signing keys; check that the function "+
		"signingkeys has run" {
		t.Errorf("before the first copy: got %v, want an error about missing signing keys", err)
	}
	var failed error
	f := &records.SigningKeys{API: client, Table: table, Clock: func() time.Time { return noon }, Fetch: func(context.Context) ([]byte,
		time.Time, error) {
		return document, time.Time{}, failed
	}}
	if answer, err := f.Invoke(ctx, []byte(`{"source":"aws.scheduler"}`)); err != nil || !json.Valid(answer) {
		t.Errorf("answer of the function: got %s, %v; want JSON", answer, err)
	}
	function.Want(t, contract.CreateActions())
	if !slices.Equal(function.Keys(), []string{contract.SigningKeysKey}) {
		t.Errorf("written items: got %v, want only the item of the keys", function.Keys())
	}
	copied := document
	for name, bad := range map[string][]byte{
		"signing keys: key set: ":                                nil,
		"signing keys: key set: keys: missing":                   []byte(`{}`),
		"signing keys: key set: keys: no key for signatures":     []byte(`{"keys":[{"kty":"AKP"}]}`),
		"signing keys: got 307201 bytes, want at most 307200":    bytes.Repeat([]byte("x"), 300<<10+1),
		"signing keys: key set: keys[0]: not a public key":       []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`),
		"signing keys: key set: invalid character '<' looking f": []byte("<html>"),
	} {
		document = bad
		if _, err := f.Invoke(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("error: got %v, want %s", err, name)
		}
	}
	document, failed = copied, errors.New("no route")
	if _, err := f.Invoke(ctx, nil); err == nil || err.Error() != "signing keys: no route" {
		t.Error(err)
	}
	if kept, at, err := reader.SigningKeys(ctx); err != nil || !bytes.Equal(kept, copied) || !at.Equal(noon) {
		t.Errorf("copy after the errors: got %q at %s, %v; want the previous copy of %s", kept, at, err, noon)
	}
	document, failed = []byte(`{"keys":[]}`), nil
	if _, err := f.Invoke(ctx, nil); err != nil {
		t.Error(err)
	}
	if kept, _, err := reader.SigningKeys(ctx); err != nil || !bytes.Equal(kept, document) {
		t.Errorf("empty key set: got %q, %v; want %q", kept, err, document)
	}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table,
		Item: map[string]types.AttributeValue{contract.KeyAttribute: &types.AttributeValueMemberS{Value: contract.SigningKeysKey}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reader.SigningKeys(ctx); err == nil || !strings.HasPrefix(err.Error(),
		`records table: item signingkeys: fetched: got "", want a time`) {
		t.Error(err)
	}
	f.Table, failed = "weir-test-none", nil
	if _, err := f.Invoke(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), "signing keys: records table: ") {
		t.Error(err)
	}
}
