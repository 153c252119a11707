package rulestore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

func publish(t *testing.T, r *rulestore.Versions, now time.Time, document, note string, after, least int64) rulestore.Version {
	t.Helper()
	v, err := r.Publish(ctx, now, []byte(document), note, after, least)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Version numbers always grow, even if the clock goes back or a document has a lower version. The table
// keeps each version unchanged, and functions read the newest version. The operator and the functions
// call exactly the actions that package contract lists.
func TestVersions(t *testing.T) {
	var operator, function recordstest.Calls
	client, table := recordstest.Table(t, &operator)
	r := rulestore.New(client, table)
	reader := rulestore.NewSource(records.NewTable(function.Client(client), table))
	if _, err := reader.Document(ctx); !errors.Is(err, rulestore.ErrNoRules) {
		t.Errorf("document of an empty table: got %v, want ErrNoRules", err)
	}
	if _, _, err := r.Get(ctx, 0); !errors.Is(err, rulestore.ErrNoRules) {
		t.Errorf("version 0 of an empty table: got %v, want ErrNoRules", err)
	}
	if all, err := r.History(ctx); err != nil || len(all) != 0 {
		t.Errorf("history of an empty table: got %v, %v; want none", all, err)
	}
	unix, last := noon.Unix(), int64(0)
	for i, c := range []struct {
		now         time.Time
		least, want int64
	}{
		{noon, 0, unix}, {noon, 7, unix + 1}, {noon.Add(-time.Hour), 0, unix + 2}, {noon.Add(time.Minute), 0, unix + 60},
		{noon, unix + 1000, unix + 1000}, {noon, 5, unix + 1001},
	} {
		document := fmt.Sprintf(" {\"n\": %d}\n", i)
		v := publish(t, r, c.now, document, fmt.Sprint("note ", i), last, c.least)
		if v.Version != c.want || !v.Published.Equal(c.now) || v.Note != fmt.Sprint("note ", i) || v.Bytes != len(document) {
			t.Errorf("publication %d: got %+v, want version %d", i, v, c.want)
		}
		if d, err := reader.Document(ctx); err != nil || string(d.Content) != document || d.Version != c.want {
			t.Errorf("document for functions: got %q of version %d, %v; want %q of version %d", d.Content, d.Version, err, document, c.want)
		}
		if got, content, err := r.Get(ctx, 0); err != nil || got != v || string(content) != document {
			t.Errorf("version in force: got %+v %q, %v; want %+v %q", got, content, err, v, document)
		}
		last = v.Version
	}
	if v, content, err := r.Get(ctx, unix+2); err != nil || v.Version != unix+2 || string(content) != " {\"n\": 2}\n" {
		t.Errorf("old version: got %+v %q, %v; want version %d unchanged", v, content, err, unix+2)
	}
	if _, _, err := r.Get(ctx, unix+3); !errors.Is(err, rulestore.ErrNoVersion) {
		t.Errorf("unknown version: got %v, want ErrNoVersion", err)
	}
	for range rulestore.Kept {
		last = publish(t, r, noon, "{}", "", last, 0).Version
	}
	all, err := r.History(ctx)
	if err != nil || len(all) != rulestore.Kept || all[0].Version != last || all[rulestore.Kept-1].Version != last-rulestore.Kept+1 {
		t.Errorf("history: got %d versions, %v; want %d, the newest first", len(all), err, rulestore.Kept)
	}
	if _, _, err := r.Get(ctx, unix+1001); !errors.Is(err, rulestore.ErrNoVersion) {
		t.Errorf("version that is no longer kept: got %v, want ErrNoVersion", err)
	}
	if _, _, err := r.Get(ctx, all[rulestore.Kept-1].Version); err != nil {
		t.Errorf("oldest kept version: got error %v, want none", err)
	}
	if _, err := r.Publish(ctx, noon, []byte("{}"), "", last, noon.Add(24*time.Hour).Unix()+1); err == nil || !strings.Contains(err.Error(),
		"want at most") {
		t.Errorf("version more than a day ahead: got error %v, want one", err)
	}
	operator.Want(t, contract.RulesActions())
	function.Want(t, contract.RecordActions())
}

// If publications are concurrent, exactly one succeeds, and the history contains it.
func TestVersions_Publish_concurrent(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	r := rulestore.New(client, table)
	after := int64(0)
	for round := range 5 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var won []rulestore.Version
		for i := range 16 {
			all.Go(func() {
				v, err := r.Publish(ctx, noon.Add(time.Duration(i)*time.Second), fmt.Appendf(nil, "%d", i), fmt.Sprint(i), after, 0)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, v)
				} else if !errors.Is(err, rulestore.ErrConflict) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		history, err := r.History(ctx)
		if len(won) != 1 || err != nil || len(history) != round+1 || history[0] != won[0] {
			t.Fatalf("round %d: got %d successful publications, want 1; history %+v, %v", round, len(won), history, err)
		}
		if v, document, err := r.Get(ctx, 0); err != nil || v != won[0] || string(document) != v.Note {
			t.Errorf("version in force: got %+v %q, %v; want %+v", v, document, err, won[0])
		}
		after = won[0].Version
	}
}

// Publish rejects a document or note that is too large before it writes anything. Document rejects
// content that is malformed or expands to more than the largest document.
func TestVersions_bounds(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	r, reader := rulestore.New(client, table), rulestore.NewSource(records.NewTable(client, table))
	noise := make([]byte, 300<<10)
	_, _ = rand.Read(noise)
	for name, c := range map[string]struct{ document, note, want string }{
		"too long":       {strings.Repeat(" ", rules.MaxBytes+1), "", "document: got 1048577 bytes, want at most 1048576"},
		"does not fit":   {strings.Repeat(string(noise[:210<<10]), 2), "", "bytes after compression, want at most 399360"},
		"a long note":    {"{}", strings.Repeat("n", 201), "want at most 200 bytes"},
		"a hostile note": {"{}", "\x1b[2J", "printable"},
	} {
		if _, err := r.Publish(ctx, noon, []byte(c.document), c.note, 0, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %.200v, want %s", name, err, c.want)
		}
	}
	// This is the largest document, with random content in its first 600 KiB.
	largest := hex.EncodeToString(noise) + strings.Repeat(" ", rules.MaxBytes-2*len(noise))
	publish(t, r, noon, largest, strings.Repeat("n", 200), 0, 0)
	if d, err := reader.Document(ctx); err != nil || string(d.Content) != largest {
		t.Errorf("largest document: got %d bytes, %v; want %d", len(d.Content), err, len(largest))
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 2<<20))
	_ = w.Close()
	binary := func(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
	number := &types.AttributeValueMemberN{Value: "7"}
	for want, item := range map[string]map[string]types.AttributeValue{
		"expands to more than 1048576 bytes": {"version": number, "document": binary(bomb.Bytes())},
		"document: gzip":                     {"version": number, "document": binary([]byte("{}{}{}{}{}{}"))},
		"document: unexpected EOF":           {"version": number, "document": binary(bomb.Bytes()[:40])},
		"attribute document is missing":      {"version": number},
		"version: want a number":             {"document": binary(bomb.Bytes())},
	} {
		item["pk"] = &types.AttributeValueMemberS{Value: "rules"}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Document(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: got %v, want %s", err, want)
		}
	}
}
