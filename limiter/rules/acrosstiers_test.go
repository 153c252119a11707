package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A caller that changes tier keeps its usage of a limit with across_tiers, also with an override, and in a tier that a rule
// does not name. The field itself begins a new count.
func TestParse_acrossTiers(t *testing.T) {
	text := string(storetest.Must(os.ReadFile("testdata/good/across_tiers.json")))
	before := storetest.Must(rules.Parse([]byte(strings.ReplaceAll(text, `,"across_tiers":true`, "")), rules.Options{Version: 1}))
	after := storetest.Must(rules.Parse([]byte(text), rules.Options{Version: 2}))
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for i, step := range []struct {
		rules     *rules.Rules
		path      string
		user      string
		tier      string
		remaining int64
	}{
		{before, "/a", "alice", "free", 49},
		{before, "/a", "alice", "paid", 199}, // a new count
		{after, "/a", "alice", "paid", 199},
		{after, "/b", "alice", "free", 48},
		{after, "/a", "alice", "gold", 7},
		{after, "/a", "alice", "paid", 196},
		{after, "/a", "vip", "free", 499},
		{after, "/a", "vip", "paid", 498},
		{after, "/c", "bob", "free", 4},
		{after, "/c", "bob", "paid", 7},
		{after, "/c", "bob", "free", 2},
		{after, "/d", "bob", "free", 4},
		{after, "/d", "bob", "paid", 7},
		{after, "/d", "bob", "free", 2},
	} {
		charges := step.rules.Charges(nil, "GET", rules.EncodedPath(step.path), caller.Caller{User: step.user, Tier: step.tier})
		if d, err := l.Take(t.Context(), start, charges); err != nil || !d.Allowed || d.Remaining != step.remaining {
			t.Errorf("step %d: got %+v, error %v, want %d remaining", i, d, err, step.remaining)
		}
	}
	if restarts, _ := rules.Moved(before, after); len(restarts) != 3 {
		t.Errorf("counts that restart: got %q, want one of each rule", restarts)
	}
}

// A note names a period whose count a caller loses when it changes tier.
func TestRules_Notes_acrossTiers(t *testing.T) {
	month := func(fields string) string { return `{"name":"x","requests":9,"period":"month"` + fields + `}` }
	const want = `1 rules[0].limits.free: a caller that changes tier starts a new count; "across_tiers": true in every tier keeps its usage`
	for limits, want := range map[string]string{
		`"free":` + month("") + `,"paid":` + month(""):                                         want,
		`"free":` + month("") + `,"*":` + month(""):                                            want,
		`"free":` + month(`,"across_tiers":true`) + `,"paid":` + month(`,"across_tiers":true`): "",
		`"free":` + month("") + `,"global":` + month(`,"per":["client","endpoint"]`):           "",
		`"free":` + month(`,"per":["ip"]`) + `,"paid":` + month(`,"per":["ip"]`):               "",
		`"free":` + month("") + `,"paid":` + strings.Replace(month(""), `"x"`, `"y"`, 1):       "",
		`"free":` + limit + `,"paid":` + limit:                                                 "",
	} {
		if got := strings.Join(notes(t, document(rule("/a", "", limits)), "changes tier"), "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", limits, got, want)
		}
	}
}
