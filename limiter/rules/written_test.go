package rules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// items returns how many items a request of a user with a path writes.
func items(r *rules.Rules, path string) int {
	subjects := map[limiter.Subject]bool{}
	for _, c := range r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: caller.Caller{User: "x", APIKey: "x",
		IP: address}}).Charges {
		subjects[c.Subject] = true
	}
	return len(subjects)
}

// The number of items is that of a request which exists, and no spelling of a path has more.
func TestRules_MostItems(t *testing.T) {
	per := func(endpoint, words string) string {
		return rule(endpoint, "", `"*":{"name":"n`+strings.Trim(fmt.Sprint(len(endpoint)), " ")+`","requests":9,"window":"1m","per":[`+words+`]}`)
	}
	documents := map[string][2]int{
		document(per("/a", `"client"`)):                                                     {1, 1},
		document(per("/a", `"client"`), per("/b", `"user"`)):                                {1, 1},
		document(per("/docs/{id}", `"user","path:id"`)):                                     {4, 4},
		document(per("/docs/{id}/x", `"user","path:id"`)):                                   {2, 4},
		document(per("/a/{x}", `"ip"`), per("/{y}/b", `"user"`)):                            {2, 2},
		document(per("/a/{x}", `"ip"`), per("/a/{x}/{y}", `"user"`)):                        {2, 2},
		document(per("/a", `"ip"`), per("/b", `"user"`), per("/c/d", `"apikey"`)):           {2, 3},
		document(per("/a/{x}", `"ip","path:x"`), per("/b/{x}", `"user","path:x"`)):          {5, 8},
		document(per("/a/{x}", `"ip","path:x"`), per("*", `"user"`), per("/b", `"apikey"`)): {6, 6},
	}
	for text, want := range documents {
		r := parse(t, text)
		most, example, bound := r.MostItems()
		if got := [2]int{most, bound}; got != want || items(r, example) != most {
			t.Errorf("%s: got %v for %q, which writes %d, want %v", text, got, example, items(r, example), want)
		}
	}
	pieces := []string{"/", "/", "a", "b", "c", "d", "docs", "x", "%2F", "?", "#", " ", "%20", "//", "%3F", "%2525", `\`, ".", ";"}
	rng := rand.New(rand.NewPCG(1, 1))
	for text := range documents {
		for _, settings := range []string{"", `"ignore_case":true,"ignore_suffix":true,`, `"backslash_is_slash":true,"ignore_parameters":true,`} {
			r := parse(t, strings.Replace(text, "{", "{"+settings, 1))
			most, _, bound := r.MostItems()
			if most > bound {
				t.Errorf("%s: got %d items, above the bound %d", r.Labels(), most, bound)
			}
			for range 2_000 {
				path := "/"
				for range rng.IntN(8) {
					path += pieces[rng.IntN(len(pieces))]
				}
				if n := items(r, path); n > most {
					t.Errorf("%s: got %d items for %q, want at most %d", r.Labels(), n, path, most)
					break
				}
			}
		}
	}
	large := parse(t, document(fill(400, func(i int) string {
		return rule(fmt.Sprintf("/api/v1/things%d/{id}/parts/{part}/and/a/long/path/that/makes/the/document/large", i), "", tiers(i%7*5, 2))
	})))
	begun := time.Now()
	if most, _, bound := large.MostItems(); most != 2 || bound < most || time.Since(begun) > 10*time.Second {
		t.Errorf("a large document: got %d after %s", most, time.Since(begun))
	}
}

// The maximum is that of the best combination of header fields, in whatever order the rules have them.
func TestRules_MostItems_headers(t *testing.T) {
	one := func(name string, per ...string) string {
		limits := fill(len(per), func(i int) string {
			return fmt.Sprintf(`{"name":"n%d","requests":9,"window":"1m","per":[%q]}`, i, per[i])
		})
		return fmt.Sprintf(`{"endpoint":"/mcp","headers":{"mcp-name":%q},"limits":{"*":[%s]}}`, name, limits)
	}
	three, single := one("a", "ip", "user", "apikey"), one("b", "ip")
	exact, open := one("search_docs", "ip"), one("search_*", "user")
	limits := func(list string) string { return rule("/a", "", `"*":[`+list+`]`) }
	const rest, bad = `,"requests":9,"window":"1m","per":["`, `{"name":"b","only":"bad_credentials"`
	for text, want := range map[string]int{document(three, single): 3, document(single, three): 3, document(exact, open): 2,
		document(open, exact): 2, document(limits(`{"name":"a"` + rest + `claim:org"]}`)): 8,
		document(limits(`{"name":"a"` + rest + `user"]},` + bad + rest + `ip"]}`)): 1} {
		if most, _, bound := parse(t, text).MostItems(); most != want || bound != want {
			t.Errorf("%s: got %d of at most %d, want %d", text, most, bound, want)
		}
	}
}
