package rulestore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
)

// Of two writers that read the same interventions, one fails. A publication of rules does not change them.
func TestVersions_Intervene(t *testing.T) {
	var operator, function recordstest.Calls
	client, table := recordstest.Table(t, &operator)
	r := rulestore.New(client, table)
	reader := records.NewTable(function.Client(client), table)
	if text, err := rulestore.ReadInterventions(ctx, reader); err != nil || text != nil {
		t.Errorf("empty table: got %s, %v, want none", text, err)
	}
	was, err := r.Interventions(ctx)
	if err != nil || len(was.List) != 0 {
		t.Fatalf("empty table: got %+v, %v, want none", was, err)
	}
	put := func(v *rules.Interventions, user string) (*rules.Interventions, error) {
		made, err := v.Put(noon, rules.Intervention{Kind: "user", Value: user, End: noon.Add(time.Hour).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		return made, r.Intervene(ctx, made, v.Version)
	}
	one, err := put(was, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(was, "b"); !errors.Is(err, rulestore.ErrConflict) {
		t.Errorf("first write by two: got %v, want ErrConflict", err)
	}
	if _, err := put(one, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := put(one, "d"); !errors.Is(err, rulestore.ErrConflict) {
		t.Errorf("later write by two: got %v, want ErrConflict", err)
	}
	publish(t, r, noon, "{}", "", 0, 0)
	text, err := rulestore.ReadInterventions(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rules.ParseInterventions(text)
	if err != nil || len(got.List) != 2 || got.List[0].Value != "a" || got.List[1].Value != "c" {
		t.Errorf("got %s, %v, want a and c", text, err)
	}
}
