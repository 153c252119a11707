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
		{"shared count once", document(rule("/a", "", `"*":`+list("s", 6, `,"per":["client"]`)), rule("*", "", `"*":`+list("s", 6, `,"per":["client"]`))), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Parse([]byte(c.document), rules.Options{})
			if (err != nil) != c.crowded {
				t.Fatalf("got error %v, want one: %t", err, c.crowded)
			}
			if err != nil && !strings.Contains(err.Error(), "limits that one request of a") {
				t.Error(err)
			}
		})
	}
}

// A large document is read, and one made to be slow is refused.
func TestParse_large(t *testing.T) {
	var many, slow []string
	for i := range 1000 {
		many = append(many, rule(fmt.Sprintf("/api/v%d/{id}/x%d", i%7, i), "", `"free":{"requests":10,"window":"1m"},"global":{"requests":1000,"window":"1s"}`))
	}
	parse(t, document(many...))
	for i := range 999 {
		slow = append(slow, rule(strings.Repeat("/{x}", i%20)+fmt.Sprintf("/l%d", i), "", `"free":{"requests":10,"window":"1m"}`))
	}
	_, err := rules.Parse([]byte(document(slow...)), rules.Options{})
	if err == nil || !strings.Contains(err.Error(), "overlap in too many ways") {
		t.Errorf("got error %v, want that the rules overlap in too many ways", err)
	}
	if _, err := rules.Parse([]byte(document(append(many, many[0])...)), rules.Options{}); err == nil || !strings.Contains(err.Error(), "has 1001 rules, at most 1000 are allowed") {
		t.Errorf("got error %v for 1001 rules", err)
	}
	if _, err := rules.Parse(make([]byte, 2<<20), rules.Options{}); err == nil || !strings.Contains(err.Error(), "at most 1048576 are allowed") {
		t.Errorf("got error %v for 2 MiB", err)
	}
}
