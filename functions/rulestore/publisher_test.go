package rulestore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/functions/rulestore"
)

func gzipped(t *testing.T, document string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, document)
	err = errors.Join(err, w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every publication has a higher version than all before, even if the clock goes back or the document is an old
// one. A deletion publishes nothing. Each namespace has its own item, and the publisher makes exactly the calls
// that package contract lists.
func TestPublisher(t *testing.T) {
	var publisher recordstest.Calls
	client, table := recordstest.Table(t, &publisher)
	reader := records.NewTable(new(recordstest.Calls).Client(client), table)
	now := noon
	p := &rulestore.Publisher{API: client, Clock: func() time.Time { return now }}
	publish := func(kind cfn.RequestType, namespace, document string) error {
		id, _, err := p.Publish(ctx, cfn.Event{RequestType: kind, PhysicalResourceID: "deployedrules#test", ResourceProperties: map[string]any{
			contract.PropertyTable: table, contract.PropertyNamespace: namespace, contract.PropertyDocument: document,
		}})
		if want := "deployedrules#" + namespace; id != want {
			t.Errorf("physical id: got %s, want %s", id, want)
		}
		return err
	}
	packed := func(document string) string { return base64.StdEncoding.EncodeToString(gzipped(t, document)) }
	unix := noon.Unix()
	for i, c := range []struct {
		kind     cfn.RequestType
		now      time.Time
		document string
		want     int64
	}{
		{cfn.RequestCreate, noon, "a", unix}, {cfn.RequestUpdate, noon.Add(time.Minute), "b", unix + 60},
		{cfn.RequestUpdate, noon.Add(2 * time.Minute), "a", unix + 120},
		{cfn.RequestUpdate, noon, "b", unix + 121}, {cfn.RequestUpdate, noon, "b", unix + 122}, {cfn.RequestDelete, noon.Add(time.Hour), "a",
			unix + 122}, {cfn.RequestCreate, noon, "a", unix + 123},
	} {
		now = c.now
		if err := publish(c.kind, "test", packed(c.document)); err != nil {
			t.Fatal(err)
		}
		want := c.document
		if c.kind == cfn.RequestDelete {
			want = "b"
		}
		if d, err := rulestore.NewDeployedSource(reader, "test").Document(ctx); err != nil || d.Version != c.want || string(d.Content) != want {
			t.Errorf("publication %d: got %q of version %d, error %v, want %q of version %d", i, d.Content, d.Version, err, want, c.want)
		}
	}
	publisher.Want(t, contract.CreateActions())
	if keys := slices.Compact(publisher.Keys()); !slices.Equal(keys, []string{contract.DeployedRulesKey("test")}) {
		t.Errorf("written items: got %v, want only the item of the namespace", keys)
	}
	for _, s := range []rulestore.Source{rulestore.NewDeployedSource(reader, "other"), rulestore.NewSource(reader)} {
		if _, err := s.Document(ctx); !errors.Is(err, rulestore.ErrNoRules) {
			t.Errorf("other items: got error %v, want ErrNoRules", err)
		}
	}
	for want, document := range map[string]string{
		"Document: illegal base64": "?", "Document: gzip: invalid header": base64.StdEncoding.EncodeToString([]byte("no gzip file")),
		"Document: EOF":                  "",
		"Document: expands to more than": packed(strings.Repeat(" ", 1<<20+1)),
	} {
		if err := publish(cfn.RequestUpdate, "test", document); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("document: got error %v, want %s", err, want)
		}
	}
	broken := records.NewItem(contract.DeployedRulesKey("broken"))
	for version, want := range map[int64]string{1<<47 - 1: "version: got 140737488355328, want at most 140737488355327",
		1 << 60: "version: got"} {
		broken["version"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(version, 10)}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
			t.Fatal(err)
		}
		if err := publish(cfn.RequestUpdate, "broken", packed("a")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("after version %d: got error %v, want %s", version, err, want)
		}
	}
	table = "weir-test-none"
	if err := publish(cfn.RequestUpdate, "test", packed("a")); err == nil || !strings.HasPrefix(err.Error(), "records table: ") {
		t.Errorf("no table: got error %v, want one of the records table", err)
	}
}

// Lambda can repeat an event, and deliver one late. A repeated event succeeds and an older one fails, and neither
// publishes anything. A time in the future has no effect on later events.
func TestPublisher_Publish_repeated(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	source := rulestore.NewDeployedSource(records.NewTable(client, table), "test")
	now := noon
	p := &rulestore.Publisher{API: client, Clock: func() time.Time { return now }}
	signed := func(after time.Duration) string {
		return noon.Add(after).Format("https://answers.example/?X-Amz-Date=20060102T150405Z&X-Amz-Signature=secret")
	}
	for i, c := range []struct {
		request, url, document string
		in                     string // document in force afterwards
		fails                  bool
	}{
		{"r1", signed(0), "good", "good", false},
		{"r2", signed(10 * time.Second), "bad", "bad", false},
		{"r3", signed(20 * time.Second), "good", "good", false},
		{"r2", signed(10 * time.Second), "bad", "good", false},
		{"late", signed(19 * time.Second), "bad", "good", true},
		{"same second", signed(20 * time.Second), "next", "next", false},
		{"s1", "", "good", "good", false},
		{"s2", ":", "bad", "bad", false},
		{"s3", "https://answers.example/?X-Amz-Date=today", "good", "good", false},
		{"s2", "", "bad", "good", false},
		{"late", signed(19 * time.Second), "bad", "good", true},
		{"future", signed(1000 * time.Hour), "next", "next", false},
		{"after it", signed(12*time.Minute + 30*time.Second), "good", "good", false},
		{"", "", "next", "next", false},
		{"", "", "good", "good", false},
	} {
		now = noon.Add(time.Duration(i+1) * time.Minute)
		before, _ := source.Document(ctx)
		_, _, err := p.Publish(ctx, cfn.Event{RequestType: cfn.RequestUpdate, RequestID: c.request, ResponseURL: c.url,
			ResourceProperties: map[string]any{
				contract.PropertyTable: table, contract.PropertyNamespace: "test",
				contract.PropertyDocument: base64.StdEncoding.EncodeToString(gzipped(t, c.document)),
			}})
		if (err != nil) != c.fails || err != nil && (!strings.HasPrefix(err.Error(), "event: older than that of version ") ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%d, %s: got error %v, want one: %t", i, c.request, err, c.fails)
		}
		d, err := source.Document(ctx)
		if err != nil || string(d.Content) != c.in || (d.Version > before.Version) != (string(before.Content) != c.in) {
			t.Errorf("%d, %s: got %s of version %d after version %d, error %v, want %s", i, c.request, d.Content, d.Version, before.Version, err,
				c.in)
		}
	}
	for i := range 100 {
		if _, _, err := p.Publish(ctx, cfn.Event{RequestID: strconv.Itoa(i), ResourceProperties: map[string]any{
			contract.PropertyTable: table, contract.PropertyNamespace: "test",
			contract.PropertyDocument: base64.StdEncoding.EncodeToString(gzipped(t, "good")),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	item, err := records.GetConsistent(ctx, client, table, contract.DeployedRulesKey("test"))
	if events, _ := item["events"].(*types.AttributeValueMemberL); err != nil || events == nil || len(events.Value) != 10 {
		t.Errorf("events in the item: got %+v, error %v, want the last 10", events, err)
	}
}

type writer func(*dynamodb.PutItemInput) error

func (w writer) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return nil, w(in)
}

// A publication never overwrites one that it has not read. It starts again if the item was deleted meanwhile.
func TestPublisher_Publish_concurrent(t *testing.T) {
	var conditions []string
	p := &rulestore.Publisher{Clock: func() time.Time { return noon }, API: writer(func(in *dynamodb.PutItemInput) error {
		conditions = append(conditions, *in.ConditionExpression)
		switch len(conditions) {
		case 1:
			return &types.ConditionalCheckFailedException{Item: records.Item{"version": &types.AttributeValueMemberN{Value: "5"}}}
		case 2:
			return &types.ConditionalCheckFailedException{}
		}
		return nil
	})}
	e := cfn.Event{RequestID: "r", ResourceProperties: map[string]any{contract.PropertyDocument: base64.StdEncoding.EncodeToString(gzipped(t,
		"a"))}}
	const none = "attribute_not_exists(#version)"
	if _, _, err := p.Publish(ctx, e); err != nil || !slices.Equal(conditions, []string{none, "#version = :previous", none}) {
		t.Errorf("got the conditions %q, error %v, want one of no item, of the read item, and of no item", conditions, err)
	}
	p.API = writer(func(*dynamodb.PutItemInput) error { return &types.ConditionalCheckFailedException{} })
	if _, _, err := p.Publish(ctx, e); !errors.Is(err, rulestore.ErrConflict) {
		t.Errorf("always another item: got error %v, want ErrConflict", err)
	}
}
