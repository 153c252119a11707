package rules_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// A request writes each item that contains one of its limits. If all its limits fit one item, it
// writes one item.
func TestRules_Writes(t *testing.T) {
	org := rule("*", "", `"global":[{"name":"address","requests":9,"window":"1d","per":["ip"]},{"name":"org","requests":9,"window":"1d","per":["claim:org"]}]`)
	for _, c := range []struct {
		name     string
		document string
		want     []rules.Writes
	}{
		{"one item", document(rule("/a", "GET", `"free":`+list("l", 3, "")+`,"paid":`+list("p", 4, ""))), []rules.Writes{{"/a", "GET", 1, 1, 1, 1, 0}}},
		{"limits by user only", document(rule("/a", "", `"*":`+list("l", 3, `,"per":["user"]`))), []rules.Writes{{"/a", "", 1, 0, 1, 0, 0}}},
		{"limits by client, endpoint, claim and global", document(rule("/a/{x}/*", "", `"*":`+list("l", 3, "")+`,"global":`+limit), org), []rules.Writes{{"/a/{x}/*", "", 4, 4, 4, 3, 1}, {"*", "", 2, 2, 2, 2, 1}}},
		{"the maximum over all tiers", document(rule("/a", "", `"free":`+list("l", 1, "")+`,"paid":`+list("p", 1, `,"per":["client"]`)+`,"gold":`+tens("g", 3, `,"shards":2`))), []rules.Writes{{"/a", "", 3, 3, 3, 3, 0}}},
		{"token and key", document(rule("/a", "", `"*":[`+limit[:len(limit)-1]+`,"name":"u","per":["user"]},`+limit[:len(limit)-1]+`,"name":"k","per":["apikey"]}]`)), []rules.Writes{{"/a", "", 1, 1, 2, 0, 0}}},
		{"shadows", document(rule("/a", "", `"*":`+limit), strings.Replace(rule("/a", "", `"*":`+limit), "{", `{"mode":"shadow",`, 1)), []rules.Writes{{"/a", "", 2, 2, 2, 2, 0}}},
		{"two methods with different numbers", document(rule("/a", "", `"*":`+list("a", 4, "")), rule("/a", "PUT", `"*":`+list("b", 4, "")), rule("/a", "GET", `"*":`+list("c", 4, ""))),
			[]rules.Writes{{"/a", "", 2, 2, 2, 2, 0}, {"/a", "PUT", 2, 2, 2, 2, 0}, {"/a", "GET", 2, 2, 2, 2, 0}}},
		{"other tiers", document(rule("*", "", `"*":`+list("a", 4, "")), rule("/a", "", `"gold":`+list("b", 4, ""))), []rules.Writes{{"*", "", 1, 1, 1, 1, 0}, {"/a", "", 2, 2, 2, 2, 0}}},
	} {
		if got := parse(t, c.document).Writes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	split := parse(t, document(append(endpoints(300), rule("/e0", "", `"*":{"name":"day","requests":9,"window":"1d","per":["client"]}`))...)).Writes()
	if split[0] != (rules.Writes{"/e0", "", 2, 2, 2, 2, 0}) || split[1] != (rules.Writes{"/e1", "", 1, 1, 1, 1, 0}) {
		t.Errorf("300 endpoints: got %+v, %+v; want two writes for /e0 and one for /e1", split[0], split[1])
	}
}

// A request that matches two overlapping patterns writes the items of both. Neither pattern contains
// the other.
func TestRules_Writes_crossing(t *testing.T) {
	for _, c := range []struct {
		endpoints string
		want      []int
	}{
		{"/a/{x} /{y}/b", []int{2, 2}},
		{"/a/{x} /{y}/b /{y}/c", []int{2, 2, 2}},
		{"/a/{x}/{z} /{y}/b/{z} /{y}/{x}/c", []int{3, 3, 3}},
		{"/a/* /{y}/b /a/b", []int{2, 2, 3}},
		{"/a/* /{y}/b", []int{2, 2}},
		{"/a/* /{y}/*", []int{2, 1}},
		{"/a/{x} /a/b /a/c", []int{1, 2, 2}},
		{"/a /a/{x} /b/{x}", []int{1, 1, 1}},
		{"/{x}/a/* /b/* /b/a/c/d", []int{2, 2, 3}},
		{"* /a/{x} /{y}/b", []int{1, 3, 3}},
	} {
		var list []string
		for endpoint := range strings.FieldsSeq(c.endpoints) {
			list = append(list, rule(endpoint, "", `"*":{"requests":10,"window":"1s","shards":2}`))
		}
		var got []int
		for _, w := range parse(t, document(list...)).Writes() {
			got = append(got, w.User)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v writes, want %v", c.endpoints, got, c.want)
		}
	}
}

// If too many patterns overlap, Writes may return too large a number, but never too small a number.
func TestRules_Writes_many(t *testing.T) {
	var list []string
	for i := range 8 {
		for literal := range 4 {
			list = append(list, rule(strings.Repeat("/{x}", i)+fmt.Sprintf("/l%d", literal)+strings.Repeat("/{x}", 7-i), "", `"*":{"name":"`+fmt.Sprintf("n%d-%d", i, literal)+`","requests":10,"window":"1s"}`))
		}
	}
	for _, w := range parse(t, document(list...)).Writes() {
		if w.User < 8 || w.User > 32 {
			t.Fatalf("%s: got %d writes, want 8, or up to 32", w.Endpoint, w.User)
		}
	}
}

// Each environment reports its demand for an adaptive limit. Each report is one write.
func TestRules_Writes_adaptive(t *testing.T) {
	r, err := rules.Parse([]byte(document(rule("/a", "", `"*":`+limit+`,"global":{"requests":100000,"window":"1s"}`))), rules.Options{Items: dynamostore.Items{}, LeaseAbove: rules.LeaseAboveDynamoDB})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Writes()[0], (rules.Writes{Endpoint: "/a", User: 2, APIKey: 2, Both: 2, Anonymous: 2, Rejected: 1}); got.User != want.User || got.Anonymous != want.Anonymous {
		t.Errorf("writes: got %+v, want %+v", got, want)
	}
}

// A tier that a rule does not name gets the limits under "*". This applies to the default tier too.
func TestRules_Writes_otherTier(t *testing.T) {
	got := parse(t, document(rule("/a", "", `"free":`+list("f", 1, "")+`,"*":`+tens("o", 3, `,"shards":2`)), rule("/b", "", `"gold":`+limit))).Writes()
	if got[0].User != 3 {
		t.Errorf("got %d writes, want 3", got[0].User)
	}
}

// paths returns paths of up to three segments that distinguish all patterns of drawRule.
func paths() (list []string) {
	last := []string{""}
	for range 4 {
		list = append(list, last...)
		var next []string
		for _, path := range last {
			for _, segment := range []string{"/a", "/b", "/other"} {
				next = append(next, path+segment)
			}
		}
		last = next
	}
	return list
}

// No request writes more items than Writes returns for its most specific rule, and at least one
// request writes that many.
func TestRules_Writes_exact(t *testing.T) {
	all := paths()
	rapid.Check(t, func(rt *rapid.T) {
		var texts []string
		for range rapid.IntRange(2, 4).Draw(rt, "rules") {
			texts = append(texts, drawRule(rt, len(texts)).text)
		}
		r, err := rules.Parse([]byte(document(texts...)), rules.Options{Items: dynamostore.Items{}})
		if err != nil {
			rt.Skip(err)
		}
		most := map[string]int{} // largest number of items that a request wrote, by method and endpoint
		for _, path := range all {
			for _, method := range []string{"GET", "POST", "PUT"} {
				for _, tier := range []string{"free", "paid", "unnamed"} {
					c := callers[0]
					c.Tier = tier
					items := writes(r.Charges(nil, method, rules.EncodedPath(path), c))
					for _, m := range r.Explain(rules.Request{Method: method, Path: rules.EncodedPath(path), Caller: c}).Matches {
						if m.Method == "" || m.Method == method {
							key := m.Method + m.Endpoint
							most[key] = max(most[key], items)
						}
					}
				}
			}
		}
		for _, w := range r.Writes() {
			key := w.Method + w.Endpoint
			if w.Both > most[key] {
				rt.Fatalf("%s: Writes: got %d, want %d, the largest number of items that a request writes", key, w.Both, most[key])
			}
		}
		for _, path := range all {
			c := callers[0]
			items, reported := writes(r.Charges(nil, "GET", rules.EncodedPath(path), c)), 0
			for _, m := range r.Explain(rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: c}).Matches {
				for _, w := range r.Writes() {
					if w.Endpoint == m.Endpoint && w.Method == m.Method && cmp.Or(m.Method, "GET") == "GET" {
						reported = max(reported, w.Both)
					}
				}
			}
			if items > reported {
				rt.Fatalf("GET %s: written items: got %d, want at most %d, as Writes reports", path, items, reported)
			}
		}
	})
}

func writes(charges []limiter.Charge) int {
	items, shards := map[limiter.Subject]bool{}, 0
	for _, c := range charges {
		switch {
		case c.Limit.Spread.Shards > 0:
			shards++
		default:
			items[c.Limit.Subjects(c.Subject)[0]] = true
		}
	}
	return len(items) + shards
}
