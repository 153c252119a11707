package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// Counts that are in other items restart; no others do.
func TestRestarts(t *testing.T) {
	seven, eight := endpoints(7), endpoints(8)
	shared := rule("*", "", `"global":[{"name":"day","requests":9,"window":"30d","per":["client"]},{"name":"all","requests":9,"window":"1d"}]`)
	var moved []string
	for i := range 7 {
		moved = append(moved, fmt.Sprintf("rules[%d].limits.* (e%d)", i, i))
	}
	lease := func(rest string) string { return rule("/a", "", `"*":`+tens("l", 1, rest)) }
	for _, c := range []struct {
		name          string
		before, after string
		want          []string
	}{
		{"nothing", document(seven...), document(seven...), nil},
		{"one more than fits", document(append(seven[:6:6], shared)...), document(append(eight[:6:6], shared, eight[6], eight[7])...), moved[:6]},
		{"one more than fits, and back", document(eight...), document(seven...), moved},
		{"both are apart", document(eight...), document(endpoints(300)...), nil},
		{"other numbers", document(lease("")), document(strings.Replace(lease(""), "10", "20", 1)), nil},
		{"a lease", document(lease("")), document(lease(`,"lease":2`)), nil},
		{"shards", document(lease("")), document(lease(`,"shards":2`)), []string{"rules[0].limits.*[0] (l0)"}},
		{"other shards", document(lease(`,"shards":3`)), document(lease(`,"shards":2`)), []string{"rules[0].limits.*[0] (l0)"}},
		{"cells", document(lease(`,"cells":2`)), document(lease("")), []string{"rules[0].limits.*[0] (l0)"}},
		{"a shared limit", document(rule("*", "", `"*":`+tens("s", 1, `,"per":["client"]`)), rule("/a", "", `"*":`+tens("s", 1, `,"per":["client"]`))),
			document(rule("*", "", `"*":`+tens("s", 1, `,"per":["client"],"shards":2`)), rule("/a", "", `"*":`+tens("s", 1, `,"per":["client"],"shards":2`))), []string{"rules[0].limits.*[0] (s0)"}},
	} {
		if got := rules.Restarts(parse(t, c.before), parse(t, c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := rules.Restarts(nil, parse(t, document(eight...))); got != nil {
		t.Errorf("where there were no rules: %q", got)
	}
}

// A request writes one item where its limits fit one, whatever their number, and one for each
// item otherwise.
func TestRules_Writes(t *testing.T) {
	org := rule("*", "", `"global":[{"name":"address","requests":9,"window":"1d","per":["ip"]},{"name":"org","requests":9,"window":"1d","per":["claim:org"]}]`)
	for _, c := range []struct {
		name     string
		document string
		want     []rules.Writes
	}{
		{"one item", document(rule("/a", "GET", `"free":`+list("l", 3, "")+`,"paid":`+list("p", 4, ""))), []rules.Writes{{"/a", "GET", 1, 1, 1, 1, 0}}},
		{"a user alone", document(rule("/a", "", `"*":`+list("l", 3, `,"per":["user"]`))), []rules.Writes{{"/a", "", 1, 0, 1, 0, 0}}},
		{"all that there is", document(rule("/a/{x}/*", "", `"*":`+list("l", 3, "")+`,"global":`+limit), org), []rules.Writes{{"/a/{x}/*", "", 4, 4, 4, 3, 1}, {"*", "", 2, 2, 2, 2, 1}}},
		{"the most of all tiers", document(rule("/a", "", `"free":`+list("l", 1, "")+`,"paid":`+list("p", 1, `,"per":["client"]`)+`,"gold":`+tens("g", 3, `,"shards":2`))), []rules.Writes{{"/a", "", 3, 3, 3, 3, 0}}},
		{"token and key", document(rule("/a", "", `"*":[`+limit[:len(limit)-1]+`,"name":"u","per":["user"]},`+limit[:len(limit)-1]+`,"name":"k","per":["apikey"]}]`)), []rules.Writes{{"/a", "", 1, 1, 2, 0, 0}}},
		{"cells write nothing", document(rule("/a", "", `"*":`+tens("c", 3, `,"cells":2`))), []rules.Writes{{"/a", "", 0, 0, 0, 0, 0}}},
		{"shadows", document(rule("/a", "", `"*":`+limit), strings.Replace(rule("/a", "", `"*":`+limit), "{", `{"mode":"shadow",`, 1)), []rules.Writes{{"/a", "", 2, 2, 2, 2, 0}}},
		{"any method, of which one has more", document(rule("/a", "", `"*":`+list("a", 4, "")), rule("/a", "PUT", `"*":`+list("b", 4, "")), rule("/a", "GET", `"*":`+list("c", 4, ""))),
			[]rules.Writes{{"/a", "", 2, 2, 2, 2, 0}, {"/a", "PUT", 2, 2, 2, 2, 0}, {"/a", "GET", 2, 2, 2, 2, 0}}},
		{"other tiers", document(rule("*", "", `"*":`+list("a", 4, "")), rule("/a", "", `"gold":`+list("b", 4, ""))), []rules.Writes{{"*", "", 1, 1, 1, 1, 0}, {"/a", "", 2, 2, 2, 2, 0}}},
	} {
		if got := parse(t, c.document).Writes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	split := parse(t, document(append(endpoints(300), rule("/e0", "", `"*":{"name":"day","requests":9,"window":"1d","per":["client"]}`))...)).Writes()
	if split[0] != (rules.Writes{"/e0", "", 2, 2, 2, 2, 0}) || split[1] != (rules.Writes{"/e1", "", 1, 1, 1, 1, 0}) {
		t.Errorf("300 endpoints: %+v, %+v", split[0], split[1])
	}
}

// A caller's limits are those of all its items, and of one item alone where that is asked for.
func TestRules_Of_endpoints(t *testing.T) {
	r := parse(t, document(append(endpoints(8), rule("*", "", `"global":{"name":"day","requests":9,"window":"1d","per":["client"]}`))...))
	if got := r.Of(alice, alice.Subject()); len(got) != 9 || got[0].Charge.Subject.String() != "user:alice|endpoint::/e0" || got[8].Charge.Subject != alice.Subject() {
		t.Errorf("of the caller: %+v", got)
	}
	if got := r.Of(alice, r.Charges(nil, "GET", rules.MustParsePath("/e3"), alice)[0].Subject); len(got) != 1 || got[0].Path != "rules[3].limits.*" {
		t.Errorf("of one endpoint: %+v", got)
	}
}
