package operator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
)

// An explanation and a usage by the id of an API key use the tier and the limits of its record.
func TestOperator_record(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/a","limits":{"free":{"name":"search","requests":5,"window":"1m"},"paid":[
		{"name":"search","requests":50,"window":"1m"},{"name":"month","requests":9,"period":"month"},{"name":"shards","requests":90,"window":"1m","shards":2}]}}]}`)
	limits := storetest.Must(caller.NewLimits(map[string]caller.Rate{"search": {Requests: 700}, "gone": {Requests: 1}, "shards": {Requests: 5}}, "31", 1000))
	var failure error
	d.Record = func(_ context.Context, id string) (caller.Record, bool, error) {
		return caller.Record{ID: id, Tier: "paid", Limits: limits, Suspended: id == "suspended"}, id != "nobody", failure
	}
	noted := func(notes []string, want string) {
		t.Helper()
		if !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("notes: got %q, want one with %q", notes, want)
		}
	}
	ask := func(id, tier string) operator.Explanation {
		t.Helper()
		return d.explain(operator.Question{Method: "GET", Path: "/a", APIKeyID: id, Tier: tier})
	}
	e := ask("acme", "")
	if e.Caller.Tier != "paid" || len(e.Limits) != 3 || e.Limits[0].Requests != 700 || !e.Limits[0].Overridden || e.Limits[1].Anchor != "31" || e.Limits[2].Requests != 90 {
		t.Errorf("explain: got tier %s and %+v, want the tier and the limits of the record", e.Caller.Tier, e.Limits)
	}
	noted(e.Notes, "sets the limit gone, but the rules have no limit of this name")
	noted(e.Notes, "ignored in the key's record: limit shards: has lease, shards, sync_ms or cells")
	if e := ask("acme", "free"); e.Caller.Tier != "free" || e.Limits[0].Requests != 700 {
		t.Errorf("explain with --tier: got tier %s and %+v, want tier free", e.Caller.Tier, e.Limits)
	}
	if e := ask("suspended", ""); e.Decision.Status != 401 || e.Caller.Rejected == "" {
		t.Errorf("suspended key: got %+v, want 401", e.Decision)
	}
	noted(ask("nobody", "").Notes, `no API key has the id "nobody"`)
	i, err := d.Usage(t.Context(), "apikey:acme")
	if err != nil || i.Limits[0].Requests != 700 || i.Limits[1].Requests != 700 || i.Limits[2].Anchor != "31" {
		t.Errorf("usage: got %+v, %v; want the limits of the record", i.Limits, err)
	}
	noted(i.Notes, "sets the limit gone")
	own, err := d.Own(t.Context(), operator.Question{APIKeyID: "acme"})
	if err != nil || own.Tier != "paid" || own.Limits[0].Limit != 700 {
		t.Errorf("own usage: got %+v, %v; want the limits of the record", own, err)
	}
	failure = errors.New("access denied")
	noted(ask("acme", "").Notes, "which cannot be read: access denied")
	d.Record = nil
	noted(ask("acme", "").Notes, "the records of API keys are not known here")
}
