package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// sizedLog is a log of a number of requests.
func sizedLog(name string, requests int, window, rest string) string {
	return fmt.Sprintf(`{"name":%q,"requests":%d,"window":%q,"algorithm":"sliding_log"%s}`, name, requests, window, rest)
}

// The logs of one subject are in one item, also those of several endpoints. A document by
// which they do not fit is refused; one by which those of any caller fit is not.
func TestParse_logs(t *testing.T) {
	most, half := sizedLog("a", 7500, "1h", ""), sizedLog("b", 3750, "1h", "")
	one := func(name string) string { return sizedLog(name, 1, "1h", "") }
	user := func(limits string) string { return `],"overrides":[{"user":"u","limits":{` + limits + `}}]}` }
	with := func(overrides string, rules ...string) string {
		return strings.TrimSuffix(document(rules...), "]}") + overrides
	}
	for _, c := range []struct {
		name     string
		document string
		problem  string
	}{
		{"one", document(rule("/a", "", `"*":`+most)), ""},
		{"four endpoints", document(rule("/a", "", `"*":`+most), rule("/b", "", `"*":`+most), rule("/c", "", `"*":`+most), rule("/d", "", `"*":`+most)),
			`rules[1].limits.*: is one of the sliding_logs that a "*" caller can have on one subject (user), which hold up to 120000 entries together, and at most 30000 are allowed: 4 for each request of a limit of this window`},
		{"two halves", document(rule("/a", "", `"*":`+half), rule("/b", "", `"*":`+half)), ""},
		{"two halves and one more", document(rule("/a", "", `"*":`+half), rule("/b", "", `"*":`+half), rule("/c", "", `"*":`+one("c"))), "rules[2].limits"},
		{"seconds", document(rule("/a", "", `"*":`+sizedLog("s", 2500, "1s", "")), rule("/b", "", `"*":`+one("b"))), "rules[1].limits"},
		{"two tiers", document(rule("/a", "", `"free":`+most+`,"paid":`+most)), ""},
		{"a tier and the others in one rule", document(rule("/a", "", `"free":`+most+`,"*":`+most)), ""},
		{"a tier and the others in two rules", document(rule("/a", "", `"free":`+most), rule("/b", "", `"*":`+most)), `rules[1].limits.*: is one of the sliding_logs that a "free" caller`},
		{"a tier and global", document(rule("/a", "", `"free":`+most+`,"global":`+sizedLog("g", 1, "1h", `,"per":["client"]`))), "rules[0].limits.global"},
		{"all callers have a subject of their own", document(rule("/a", "", `"free":`+most+`,"global":`+sizedLog("g", 7500, "1h", ""))), ""},
		{"user and client are one subject", document(rule("/a", "", `"*":[`+most+`,`+sizedLog("u", 1, "1h", `,"per":["user"]`)+`]`)), `rules[0].limits.*[1]`},
		{"user and ip are two", document(rule("/a", "", `"*":[`+sizedLog("i", 7500, "1h", `,"per":["ip"]`)+`,`+sizedLog("u", 7500, "1h", `,"per":["user"]`)+`]`)), ""},
		{"shared count once", document(rule("/a", "", `"*":`+sizedLog("s", 7500, "1h", `,"per":["client"]`)), rule("/b", "", `"*":`+sizedLog("s", 7500, "1h", `,"per":["client"]`))), ""},
		{"shadows apart", document(rule("/a", "", `"*":`+most), strings.Replace(rule("/b", "", `"*":`+most), "{", `{"mode":"shadow",`, 1)), ""},
		{"shards apart", document(rule("/a", "", `"*":[`+most+`,`+sizedLog("s", 7500, "1h", `,"shards":2`)+`,`+sizedLog("t", 7500, "1h", `,"shards":2`)+`]`)), ""},
		{"shards together", document(rule("/a", "", `"*":[`+sizedLog("s", 7500, "1h", `,"shards":2`)+`,`+sizedLog("t", 7500, "1h", `,"shards":2`)+`,`+sizedLog("u", 8, "1h", `,"shards":8`)+`]`)), `rules[0].limits.*[2]`},
		{"windows", document(rule("/a", "", `"*":[`+most+`,{"name":"w","requests":1000000,"window":"1h"}]`)), ""},
		{"an override's log", with(user(`"w":`+strings.Replace(one("w"), `"name":"w",`, "", 1)), rule("/a", "", `"*":[`+most+`,{"name":"w","requests":1000000,"window":"1h"}]`)), `rules[0].limits.*[1]`},
		{"an override that is no log", with(user(`"a":{"requests":1000000,"window":"1h"}`), rule("/a", "", `"*":`+most)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Parse([]byte(c.document), rules.Options{})
			if err == nil && c.problem != "" || err != nil && (c.problem == "" || !strings.HasPrefix(err.Error(), c.problem)) {
				t.Errorf("got error %v, want %q", err, c.problem)
			}
		})
	}
}
