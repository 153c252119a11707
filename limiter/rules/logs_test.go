package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// sizedLog returns a log limit with the given number of requests.
func sizedLog(name string, requests int, window, rest string) string {
	return fmt.Sprintf(`{"name":%q,"requests":%d,"window":%q,"algorithm":"sliding_log"%s}`, name, requests, window, rest)
}

// The logs of one item, together with its other limits, must fit eight write units. If the logs of
// several endpoints do not fit one item, each endpoint has an item. Limits that do not fit such an
// item are rejected.
func TestParse_logs(t *testing.T) {
	const whole, split = "", "split"
	client := `,"per":["client"]`
	most, half := sizedLog("a", algo.MaxLog, "1h", client), sizedLog("b", 160, "1h", client)
	here, less := sizedLog("e", algo.MaxLog, "1h", ""), sizedLog("f", 160, "1h", "")
	user := func(limits string) string { return `],"overrides":[{"user":"u","limits":{` + limits + `}}]}` }
	with := func(overrides string, rules ...string) string {
		return strings.TrimSuffix(document(rules...), "]}") + overrides
	}
	million := `{"name":"w","requests":1000000,"window":"1h"` + client + `}`
	for _, c := range []struct {
		name     string
		document string
		want     string
	}{
		{"one", document(rule("/a", "", `"*":`+most)), whole},
		{"four endpoints", document(rule("/a", "", `"*":`+here), rule("/b", "", `"*":`+here), rule("/c", "", `"*":`+here),
			rule("/d", "", `"*":`+here)), split},
		{"two halves", document(rule("/a", "", `"*":`+less), rule("/b", "", `"*":`+less)), whole},
		{"two halves and three more", document(rule("/a", "", `"*":[`+half+`,`+sizedLog("c", 160, "1h", client)+`,`+sizedLog("d", 50, "1h",
			client)+`]`)),
			`rules[0].limits.*[2]: does not fit one item: the first 3 limits of a "*" caller in the item (user) take up to 9419 bytes, want at ` +
				`most 8192 (8 write units); the first is rules[0].limits.*[0]; use fewer requests in logs`},
		{"a tier and the others in two rules", document(rule("/a", "", `"free":`+most), rule("/b", "", `"*":`+half)),
			`rules[1].limits.*: does not fit one item: the first 2 limits of a "free" caller`},
		{"a log and a small window", document(rule("/a", "", `"*":[`+sizedLog("l", 320, "1h", client)+`,{"name":"w","requests":15,"window":"1m"`+
			client+`}]`)),
			`rules[0].limits.*[1]: does not fit one item: the first 2 limits of a "*" caller in the item (user) take up to 8471 bytes`},
		{"shards apart", document(rule("/a", "", `"*":[`+most+`,`+sizedLog("s", 300, "1h", client+`,"shards":2`)+`,`+sizedLog("t", 300, "1h",
			client+`,"shards":2`)+`]`)), whole},
		{"shards together", document(rule("/a", "", `"*":[`+sizedLog("s", 320, "1h", client+`,"shards":2`)+`,`+sizedLog("t", 320, "1h",
			client+`,"shards":2`)+`,`+sizedLog("u", 32, "1h", client+`,"shards":8`)+`]`)), `rules[0].limits.*[2]`},
		{"an override's log", with(user(`"w":`+strings.Replace(sizedLog("w", 20, "1h", ""), `"name":"w",`, "", 1)),
			rule("/a", "", `"*":[`+most+`,`+million+`]`)), `rules[0].limits.*[1]`},
		{"an override that is not a log", with(user(`"a":{"requests":1000000,"window":"1h"}`), rule("/a", "", `"*":`+most)), whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := rules.Parse([]byte(c.document), rules.Options{Items: dynamostore.Items{}})
			switch {
			case err == nil && (c.want == whole || c.want == split):
				if r.PerEndpoint() != (c.want == split) {
					t.Errorf("PerEndpoint: got %t, want %t", r.PerEndpoint(), c.want == split)
				}
			case err == nil || !strings.HasPrefix(err.Error(), "line 1: "+c.want) || strings.Contains(err.Error(), "\n"):
				t.Errorf("error: got %v, want %q", err, c.want)
			}
		})
	}
}
