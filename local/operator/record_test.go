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

// If a question has the id of an API key, Explain and Usage use the tier and the limits of the key's
// record.
func TestOperator_record(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/a","limits":{"free":{"name":"search","requests":5,"window":"1m"},"paid":[
		{"name":"search","requests":50,"window":"1m"},{"name":"month","requests":9,"period":"month"},{"name":"shards","requests":90,"window":"1m",
			"shards":2}]}},{"endpoint":"/b","limits":{"paid":{"name":"shards","requests":70,"window":"1m","shards":2}}}]}`)
	limits := storetest.Must(caller.NewLimits(map[string]caller.Rate{"search": {Requests: 700}, "gone": {Requests: 1},
		"shards": {Requests: 5}}, "31", 1000))
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
	if e.Caller.Tier != "paid" || len(e.Limits) != 3 || e.Limits[0].Requests != 700 || !e.Limits[0].Overridden || e.Limits[1].Anchor != "31" ||
		e.Limits[2].Requests != 90 {
		t.Errorf("explain: got tier %s and %+v, want the tier and the limits of the record", e.Caller.Tier, e.Limits)
	}
	noted(e.Notes, "sets the limit gone, but the rules have no limit of this name")
	noted(e.Notes, "ignored in the key's record: limit shards: has lease, shards or sync_ms")
	if e := ask("acme", "free"); e.Caller.Tier != "free" || e.Limits[0].Requests != 700 {
		t.Errorf("explain with --tier: got tier %s and %+v, want tier free", e.Caller.Tier, e.Limits)
	}
	if e := ask("suspended", ""); e.Decision.Status != 401 || e.Caller.Rejected == "" {
		t.Errorf("suspended key: got %+v, want 401", e.Decision)
	}
	if e := ask("nobody", ""); e.Decision.Allowed || e.Decision.Status != 401 || !strings.Contains(e.Caller.Rejected,
		`no API key has the id "nobody"`) {
		t.Errorf("unknown id: got %+v, rejected %q; want 401 and the reason", e.Decision, e.Caller.Rejected)
	}
	unknown, err := d.Usage(t.Context(), "apikey:nobody")
	if err != nil {
		t.Fatal(err)
	}
	noted(unknown.Notes, `no API key has the id "nobody"`)
	i, err := d.Usage(t.Context(), "apikey:acme")
	if n := strings.Count(strings.Join(i.Notes, "\n"), "ignored in the key's record"); err != nil || len(i.Limits) != 4 ||
		i.Limits[0].Requests != 700 || i.Limits[1].Anchor != "31" || n != 1 {
		t.Errorf("usage: got %+v, %d notes on ignored limits, %v; want the limits of the record, and one note for both limits", i.Limits, n, err)
	}
	noted(i.Notes, "sets the limit gone")
	failure = errors.New("access denied")
	noted(ask("acme", "").Notes, "which cannot be read: access denied")
	d.Record = nil
	noted(ask("acme", "").Notes, "the records of API keys are not known here")
}

// A question with an API key itself uses the record of the key, as a request with this key does.
func TestOperator_apiKey(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/a","limits":{"free":{"name":"search","requests":5,"window":"1m"},"paid":{"name":"search",`+
		`"requests":50,"window":"1m"}}}]}`)
	q := operator.Question{Method: "GET", Path: "/a", APIKey: "key"}
	if _, err := d.Explain(t.Context(), q); err == nil || !strings.Contains(err.Error(),
		"apikey: the records of API keys are not known here") {
		t.Errorf("without records: got %v, want an error that names the flag", err)
	}
	secret := []byte("a secret of the test")
	d.Identifier = caller.New(caller.Options{APIKeys: storetest.Must(caller.ParseAPIKeys([]byte(`[{"id":"acme","tier":"paid","hash":"`+
		caller.HashAPIKey(secret, "key")+`"}]`), secret))})
	if e := d.explain(q); e.Caller.APIKeyID != "acme" || e.Caller.Tier != "paid" || e.Limits[0].Requests != 50 || !e.Decision.Allowed {
		t.Errorf("known key: got %+v and %+v, want the record of acme", e.Caller, e.Limits)
	}
	q.APIKey = "another"
	if e := d.explain(q); !e.Decision.Allowed || e.Caller.APIKeyID != "" || !strings.Contains(strings.Join(e.Notes, " "), "is not Weir's") ||
		strings.Contains(strings.Join(e.Notes, " "), "another") {
		t.Errorf("key of somebody else: got %+v, %+v and notes %q; want a caller without a key, and a note", e.Decision, e.Caller, e.Notes)
	}
	q.APIKey = "weir_another"
	if e := d.explain(q); e.Decision.Status != 401 || e.Caller.Rejected == "" || strings.Contains(e.Caller.Rejected, "another") {
		t.Errorf("unknown key: got %+v, rejected %q; want 401 and a reason without the key", e.Decision, e.Caller.Rejected)
	}
	q.APIKeyID = "acme"
	if _, err := d.Explain(t.Context(), q); err == nil {
		t.Error("key and id: got no error, want one")
	}
	if _, err := d.Explain(t.Context(), operator.Question{Method: "GET", Path: "/a", Token: "t"}); err == nil || !strings.Contains(err.Error(),
		"token: cannot be verified here") {
		t.Errorf("token without a verifier: got %v, want an error", err)
	}
}
