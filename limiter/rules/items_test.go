package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

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

// Seven windows of a minute fit an item, and so do ten buckets. If a caller has more limits, those by
// endpoint are in one item for each endpoint. Parse rejects limits that do not fit such an item either.
func TestParse_items(t *testing.T) {
	const whole, split, refused = "", "split", "refused"
	for _, c := range []struct {
		name     string
		document string
		want     string
	}{
		{"seven", document(rule("/a", "", `"*":`+list("l", 7, ""))), whole},
		{"eight", document(rule("/a", "", `"*":`+list("l", 8, ""))), refused},
		{"eight of a caller", document(rule("/a", "", `"*":`+list("l", 8, `,"per":["client"]`))), refused},
		{"eleven buckets", document(rule("/a", "", `"*":`+list("l", 11, `,"algorithm":"token_bucket"`))), refused},
		{"ten buckets and one at another endpoint", document(rule("/a", "", `"*":`+list("l", 10, `,"algorithm":"token_bucket"`)),
			rule("/b", "", `"*":`+limit)), split},
		{"seven endpoints", document(endpoints(7)...), whole},
		{"eight endpoints", document(endpoints(8)...), split},
		{"tier and global", document(rule("/a", "", `"free":`+list("l", 4, "")+`,"global":`+list("g", 4, `,"per":["client"]`))), split},
		{"one endpoint, in two rules", document(rule("/a", "", `"*":`+list("l", 6, "")), rule("/a", "", `"*":`+list("m", 6, ""))), refused},
		{"user and client are one subject", document(rule("/a", "", `"*":`+list("l", 4, "")),
			rule("*", "", `"*":`+list("u", 4, `,"per":["user","endpoint"]`))), split},
		{"an address has all tiers", document(rule("/a", "", `"free":`+list("l", 4, `,"per":["ip","endpoint"]`)+`,"paid":`+
			list("p", 4, `,"per":["ip"]`))), split},
		{"all callers have all tiers", document(rule("/a", "", `"free":`+list("l", 4, `,"per":["global","endpoint"]`)+`,"paid":`+
			list("p", 4, `,"per":["global","endpoint"]`))), refused},
		{"client and user with a claim are one subject", document(rule("/a", "", `"*":`+list("c", 4, `,"per":["claim:org","client"]`)+
			`,"global":`+list("u", 4, `,"per":["claim:org","user"]`))), refused},
		{"client with two claims", document(rule("/a", "", `"*":`+list("c", 4, `,"per":["claim:org","client"]`)+`,"global":`+
			list("u", 4, `,"per":["claim:team","user"]`))), whole},
		{"a tier with limits of another subject", document(rule("*", "", `"*":`+list("l", 4, "")),
			rule("/a", "", `"*":`+list("m", 4, `,"per":["claim:org"]`)+`,"paid":`+list("o", 6, `,"per":["claim:org"]`)),
			rule("/a", "", `"paid":`+list("p", 4, ""))), split},
		{"only for a tier", document(rule("*", "", `"*":`+list("l", 4, "")), rule("/a", "", `"*":`+list("m", 3, "")+`,"paid":`+list("o", 4, ""))),
			split},
		{"not for that tier", document(rule("*", "", `"*":`+list("l", 6, "")+`,"paid":`+list("p", 3, "")),
			rule("/a", "", `"paid":`+list("o", 4, ""))), whole},
		{"shadows apart", document(rule("/a", "", `"*":`+list("l", 6, "")), strings.Replace(rule("/a", "", `"*":`+list("s", 6, "")), "{",
			`{"mode":"shadow",`, 1)), whole},
		{"shards have own items, and a store in memory charges them in one step",
			document(rule("/a", "", `"*":`+tens("s", 5, `,"shards":2`)+`,"global":`+list("l", 5, `,"per":["client"]`))), whole},
		{"eleven with shards", document(rule("/a", "", `"*":`+tens("s", 5, `,"shards":2`)+`,"global":`+list("l", 6, `,"per":["client"]`))),
			split},
		{"shared count once", document(rule("/a", "", `"*":`+list("s", 7, `,"per":["client"]`)),
			rule("*", "", `"*":`+list("s", 7, `,"per":["client"]`))), whole},
		{"eight with counts", document(rule("/a", "", `"*":`+twenties("l", 8, ""))), refused},
		{"longer windows take less", document(rule("/a", "", `"*":`+strings.ReplaceAll(twenties("l", 8, ""), "1m", "30d"))), whole},
		{"an override takes more", strings.TrimSuffix(document(rule("/a", "", `"*":`+strings.ReplaceAll(twenties("l", 8, ""), "1m", "30d"))),
			"}") +
			`,"overrides":[{"user":"u","limits":{"l0":{"requests":1000000000,"window":"1s"},"l1":{"requests":1000000000,"window":"1s"}}}]}`,
			refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range []rules.Options{{Items: dynamostore.Items{}}, {Items: dynamostore.Items{}, Version: limiter.MaxVersion,
				LeaseAbove: rules.LeaseAboveDynamoDB, MaxDelay: time.Nanosecond}} {
				r, err := rules.Parse([]byte(c.document), o)
				switch {
				case err != nil && (c.want != refused || !strings.Contains(err.Error(), "in the item (")):
					t.Fatal(err)
				case err == nil && c.want == refused:
					t.Fatal("got an accepted document, want an error")
				case err == nil && r.PerEndpoint() != (c.want == split):
					t.Fatalf("PerEndpoint: got %t, want %t", r.PerEndpoint(), c.want == split)
				}
			}
		})
	}
}

// twenties is like list, but each limit has so many requests that it stores two counts.
func twenties(prefix string, n int, rest string) string {
	return strings.ReplaceAll(list(prefix, n, rest), `"requests":1,`, `"requests":20,`)
}

// tens is like list, but each limit has ten requests, so shards can divide it.
func tens(prefix string, n int, rest string) string {
	return strings.ReplaceAll(list(prefix, n, rest), `"requests":1,`, `"requests":10,`)
}

func endpoints(n int) (list []string) {
	for i := range n {
		list = append(list, rule(fmt.Sprintf("/e%d", i), "", `"*":{"requests":3,"window":"1h"}`))
	}
	return list
}

// The error of limits that do not fit an item is one line and contains the bound.
func TestParse_items_messages(t *testing.T) {
	const remedy = `; use fewer requests in logs, or add "endpoint" to the per of limits of a single endpoint`
	for _, c := range []struct{ document, want string }{
		{document(rule("/a", "GET", `"*":`+list("l", 8, ""))),
			`line 1: rules[0].limits.*[7]: does not fit one item: the first 8 limits of a "*" caller in the item (user endpoint GET /a) take up ` +
				`to 1038 bytes, want at most 1024 (one write unit); the first is rules[0].limits.*[0]` + remedy},
		{document(rule("/a", "", `"free":`+list("l", 11, `,"algorithm":"token_bucket"`))),
			`line 1: rules[0].limits.free[10]: does not fit one item: the first 11 limits of a "free" caller in the item (user endpoint /a) are ` +
				`more than 10; the first is rules[0].limits.free[0]` + remedy},
		{document(rule("*", "", `"*":`+list("a", 6, `,"per":["client"]`)), rule("/a", "", `"*":`+list("b", 2, `,"per":["client"]`)),
			rule("/b/*", "", `"*":`+list("c", 1, `,"per":["client"]`)), rule("/d", "", `"*":`+list("a", 1, `,"per":["client"]`))),
			`line 1: rules[1].limits.*[1]: does not fit one item: the first 8 limits of a "*" caller in the item (user) take up to 1038 bytes, ` +
				`want at most 1024 (one write unit); the first is rules[0].limits.*[0]` + remedy},
	} {
		if _, err := rules.Parse([]byte(c.document), rules.Options{Items: dynamostore.Items{}}); err == nil || err.Error() != c.want {
			t.Errorf("error:\n got %v\nwant %s", err, c.want)
		}
	}
}

// The item of a caller contains its limits by endpoint if they fit. Otherwise each endpoint has an
// item, and the item of the caller contains the other limits.
func TestRules_PerEndpoint(t *testing.T) {
	shared := rule("*", "", `"*":{"name":"all","requests":9,"window":"1d","per":["client"]}`)
	for n, want := range map[int][]string{
		5: {"user:alice", "user:alice"},
		7: {"user:alice|endpoint::/e0", "user:alice"}, // the item of the endpoint /e0, and one item for all endpoints
	} {
		var got []string
		for _, c := range parse(t, document(append(endpoints(n), shared)...)).Charges(nil, "GET", rules.EncodedPath("/e0"), alice) {
			got = append(got, c.Subject.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d endpoints: got charges on %v, want %v", n, got, want)
		}
	}
}
