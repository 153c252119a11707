package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// list returns n limits with names that begin with prefix.
func list(prefix string, n int, rest string) string {
	var limits []string
	for i := range n {
		limits = append(limits, fmt.Sprintf(`{"name":"%s%d","requests":1,"window":"1m"%s}`, prefix, i, rest))
	}
	return "[" + strings.Join(limits, ",") + "]"
}

func rule(endpoint, method, limits string) string {
	if method != "" {
		method = fmt.Sprintf(`"method":%q,`, method)
	}
	return fmt.Sprintf(`{"endpoint":%q,%s"limits":{%s}}`, endpoint, method, limits)
}

func document(list ...string) string { return `{"rules":[` + strings.Join(list, ",") + `]}` }

// sharedBelow are four rules that match one path, with the same three counts.
var sharedBelow = []string{
	rule("*", "", `"*":`+list("s", 3, `,"per":["client"]`)),
	rule("/a/*", "", `"*":`+list("s", 3, `,"per":["client"]`)),
	rule("/a/b/*", "", `"*":`+list("s", 3, `,"per":["client"]`)),
	rule("/a/b/c", "", `"*":`+list("s", 3, `,"per":["client"]`)),
}

// Ten limits fit one write of a subject. A document by which a request could charge
// more is refused, however the rules overlap; one by which none can is not.
func TestParse_crowded(t *testing.T) {
	for _, c := range []struct {
		name     string
		document string
		crowded  bool
	}{
		{"ten", document(rule("/a", "", `"*":`+list("l", 10, ""))), false},
		{"eleven", document(rule("/a", "", `"*":`+list("l", 11, ""))), true},
		{"tier and global", document(rule("/a", "", `"free":`+list("l", 6, "")+`,"global":`+list("g", 5, `,"per":["client"]`))), true},
		{"two tiers", document(rule("/a", "", `"free":`+list("l", 6, "")+`,"paid":`+list("p", 6, ""))), false},
		{"two methods", document(rule("/a", "GET", `"*":`+list("l", 6, "")), rule("/a", "POST", `"*":`+list("l", 6, ""))), false},
		{"method and any", document(rule("/a", "GET", `"*":`+list("l", 6, "")), rule("/a", "", `"*":`+list("l", 6, ""))), true},
		{"two endpoints", document(rule("/a", "", `"*":`+list("l", 6, "")), rule("/b", "", `"*":`+list("l", 6, ""))), false},
		{"below", document(rule("/a/*", "", `"*":`+list("l", 6, "")), rule("/a/b", "", `"*":`+list("l", 6, ""))), true},
		{"parameters cross", document(rule("/a/{x}", "", `"*":`+list("l", 6, "")), rule("/{y}/b", "", `"*":`+list("l", 6, ""))), true},
		{"parameters beside", document(rule("/a/{x}/c", "", `"*":`+list("l", 6, "")), rule("/{y}/b/d", "", `"*":`+list("l", 6, ""))), false},
		{"user and client are one subject", document(rule("/a", "", `"*":`+list("l", 6, "")), rule("*", "", `"*":`+list("u", 5, `,"per":["user","endpoint"]`))), true},
		{"user and ip are two", document(rule("/a", "", `"*":`+list("i", 6, `,"per":["ip","endpoint"]`)), rule("*", "", `"*":`+list("u", 6, `,"per":["user","endpoint"]`))), false},
		{"client and user with a claim are one subject", document(rule("/a", "", `"*":`+list("c", 6, `,"per":["claim:org","client"]`)), rule("*", "", `"*":`+list("u", 5, `,"per":["claim:org","user"]`))), true},
		{"client and key with a claim are one subject", document(rule("/a", "", `"*":`+list("c", 6, `,"per":["claim:org","client"]`)), rule("*", "", `"*":`+list("k", 5, `,"per":["claim:org","apikey"]`))), true},
		{"client and address with a claim are one subject", document(rule("/a", "", `"*":`+list("c", 6, `,"per":["claim:org","client"]`)), rule("*", "", `"*":`+list("i", 5, `,"per":["claim:org","ip"]`))), true},
		{"client with two claims", document(rule("/a", "", `"*":`+list("c", 6, `,"per":["claim:org","client"]`)), rule("*", "", `"*":`+list("u", 6, `,"per":["claim:team","user"]`))), false},
		{"ten through overlap", document(rule("/a/{x}", "", `"*":`+list("l", 5, "")), rule("/{y}/b", "", `"*":`+list("l", 5, ""))), false},
		{"ten and one through overlap", document(rule("/a/{x}", "", `"*":`+list("l", 5, "")), rule("/{y}/b", "", `"*":`+list("l", 5, "")), rule("/a/*", "", `"*":`+list("m", 1, ""))), true},
		{"longer than the parameter", document(rule("/{x}", "", `"*":`+list("l", 6, "")), rule("/{x}/b", "", `"*":`+list("l", 6, ""))), false},
		{"a tier with limits of another subject", document(rule("*", "", `"*":`+list("l", 6, "")), rule("/a", "", `"*":`+list("m", 6, "")+`,"paid":`+list("o", 6, `,"per":["claim:org"]`)), rule("/a", "", `"paid":`+list("p", 4, ""))), true},
		{"only for a tier", document(rule("*", "", `"*":`+list("l", 6, "")), rule("/a", "", `"*":`+list("m", 4, "")+`,"paid":`+list("o", 5, ""))), true},
		{"not for that tier", document(rule("*", "", `"*":`+list("l", 6, "")+`,"paid":`+list("p", 5, "")), rule("/a", "", `"paid":`+list("o", 5, ""))), false},
		{"shadows apart", document(rule("/a", "", `"*":`+list("l", 6, "")), strings.Replace(rule("/a", "", `"*":`+list("s", 6, "")), "{", `{"mode":"shadow",`, 1)), false},
		{"shared in many rules", document(sharedBelow...), false},
		{"ten shared", document(rule("/a", "", `"*":`+list("s", 10, `,"per":["client"]`)), rule("*", "", `"*":`+list("s", 10, `,"per":["client"]`))), false},
		{"shared count once", document(rule("/a", "", `"*":`+list("s", 6, `,"per":["client"]`)), rule("*", "", `"*":`+list("s", 6, `,"per":["client"]`))), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Parse([]byte(c.document), rules.Options{})
			if (err != nil) != c.crowded {
				t.Fatalf("got error %v, want one: %t", err, c.crowded)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), "limits that one request of a") {
				t.Error(err)
			}
		})
	}
}
