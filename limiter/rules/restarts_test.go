package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// A count restarts if it moves to another item or if the limit counts by other identities.
func TestMoved_restarts(t *testing.T) {
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
		{"one limit too many for one item", document(append(seven[:6:6], shared)...),
			document(append(eight[:6:6], shared, eight[6], eight[7])...), moved[:6]},
		{"all limits fit one item again", document(eight...), document(seven...), moved},
		{"each endpoint has an item before and after", document(eight...), document(endpoints(300)...), nil},
		{"other numbers", document(lease("")), document(strings.Replace(lease(""), "10", "20", 1)), nil},
		{"a lease", document(lease("")), document(lease(`,"lease":2`)), nil},
		{"shards", document(lease("")), document(lease(`,"shards":2`)), []string{"rules[0].limits.*[0] (l0)"}},
		{"other shards", document(lease(`,"shards":3`)), document(lease(`,"shards":2`)), []string{"rules[0].limits.*[0] (l0)"}},
		{"a shared limit", document(rule("*", "", `"*":`+tens("s", 1, `,"per":["client"]`)),
			rule("/a", "", `"*":`+tens("s", 1, `,"per":["client"]`))),
			document(rule("*", "", `"*":`+tens("s", 1, `,"per":["client"],"shards":2`)),
				rule("/a", "", `"*":`+tens("s", 1, `,"per":["client"],"shards":2`))), []string{"rules[0].limits.*[0] (s0)"}},
		{"another per", document(rule("/a", "", `"*":`+tens("s", 2, ""))), strings.Replace(document(rule("/a", "", `"*":`+tens("s", 2, ""))),
			`"name":"s0",`, `"name":"s0","per":["user","endpoint"],`, 1), []string{"rules[0].limits.*[0] (s0)"}},
		{"another name", document(lease("")), document(rule("/a", "", `"*":`+tens("other", 1, ""))), nil},
		{"another per, and another tier", document(lease("")), document(rule("/a", "", `"free":`+tens("l", 1, `,"per":["user","endpoint"]`))),
			nil},
		{"a shadow that is enforced", strings.Replace(document(lease("")), "{", `{"mode":"shadow",`, 1), document(lease("")), nil},
		{"a shared limit with another per", document(rule("*", "", `"*":`+tens("s", 1, `,"per":["client"]`)),
			rule("/a", "", `"*":`+tens("s", 1, `,"per":["client"]`))),
			document(rule("*", "", `"*":`+tens("s", 1, `,"per":["user"]`)), rule("/a", "", `"*":`+tens("s", 1, `,"per":["user"]`))),
			[]string{"rules[0].limits.*[0] (s0)"}},
	} {
		if got, _ := rules.Moved(parse(t, c.before), parse(t, c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got, _ := rules.Moved(nil, parse(t, document(eight...))); got != nil {
		t.Errorf("first rules: got %q, want no restarts", got)
	}
}

// A limit begins if the document before does not have it. Each change of what identifies a limit makes a new one.
func TestMoved(t *testing.T) {
	const own = `"*":{"name":"a","requests":9,"window":"1m"}`
	before := document(rule("/a", "", own))
	for after, want := range map[string]string{
		document(rule("/a", "", own)):                                          "[] []",
		document(rule("/a", "", own), rule("/b", "", own)):                     "[] [rules[1].limits.* (a)]",
		document(rule("/b", "", own)):                                          "[] [rules[0].limits.* (a)]",
		document(rule("/a", "", strings.Replace(own, `"a"`, `"b"`, 1))):        "[] [rules[0].limits.* (b)]",
		document(rule("/a", "", strings.Replace(own, `*`, `free`, 1))):         "[] [rules[0].limits.free (a)]",
		strings.Replace(before, "{", `{"mode":"shadow",`, 1):                   "[] [rules[0].limits.* (a)]",
		document(rule("/a", "", own[:len(own)-1]+`,"per":["ip","endpoint"]}`)): "[rules[0].limits.* (a)] []",
	} {
		restarts, begins := rules.Moved(parse(t, before), parse(t, after))
		if got := fmt.Sprint(restarts, " ", begins); strings.ReplaceAll(got, "]  [", "] [") != want {
			t.Errorf("%s: got %s, want %s", after, got, want)
		}
	}
}

// Of returns the limits in all items of a caller, or the limits in one of these items.
func TestRules_Of_endpoints(t *testing.T) {
	r := parse(t, document(append(endpoints(8), rule("*", "", `"global":{"name":"day","requests":9,"window":"1d","per":["client"]}`))...))
	if got := r.Of(rules.Request{Caller: alice}, alice.Subject()); len(got) != 9 ||
		got[0].Charge.Subject.String() != "user:alice|endpoint::/e0" || got[8].Charge.Subject != alice.Subject() {
		t.Errorf("caller: got %+v, want the limits of nine items", got)
	}
	if got := r.Of(rules.Request{Caller: alice}, r.Charges(nil, "GET", rules.EncodedPath("/e3"), alice)[0].Subject); len(got) != 1 ||
		got[0].Path != "rules[3].limits.*" {
		t.Errorf("one endpoint: got %+v, want only rules[3].limits.*", got)
	}
}
