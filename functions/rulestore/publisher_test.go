package rulestore_test

import (
	"bytes"
	"compress/gzip"
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
	if err = errors.Join(err, w.Close()); err != nil {
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
		{cfn.RequestCreate, noon, "a", unix}, {cfn.RequestUpdate, noon.Add(time.Minute), "b", unix + 60}, {cfn.RequestUpdate, noon.Add(2 * time.Minute), "a", unix + 120},
		{cfn.RequestUpdate, noon, "b", unix + 121}, {cfn.RequestUpdate, noon, "b", unix + 122}, {cfn.RequestDelete, noon.Add(time.Hour), "a", unix + 122}, {cfn.RequestCreate, noon, "a", unix + 123},
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
	publisher.Want(t, contract.PublisherActions())
	if keys := slices.Compact(publisher.Keys()); !slices.Equal(keys, []string{contract.DeployedRulesKey("test")}) {
		t.Errorf("written items: got %v, want only the item of the namespace", keys)
	}
	for _, s := range []rulestore.Source{rulestore.NewDeployedSource(reader, "other"), rulestore.NewSource(reader)} {
		if _, err := s.Document(ctx); !errors.Is(err, rulestore.ErrNoRules) {
			t.Errorf("other items: got error %v, want ErrNoRules", err)
		}
	}
	for want, document := range map[string]string{
		"Document: illegal base64": "?", "Document: gzip: invalid header": base64.StdEncoding.EncodeToString([]byte("no gzip file")), "Document: EOF": "",
		"Document: expands to more than": packed(strings.Repeat(" ", 1<<20+1)),
	} {
		if err := publish(cfn.RequestUpdate, "test", document); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("document: got error %v, want %s", err, want)
		}
	}
	broken := records.NewItem(contract.DeployedRulesKey("broken"))
	for version, want := range map[int64]string{1<<47 - 1: "version: got 140737488355328, want at most 140737488355327", 1 << 60: "version: got"} {
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
