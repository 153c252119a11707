package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// decide asks a limiter for what a request of caller is charged.
func decide(t *testing.T, r *rules.Rules, path string, caller limiter.Caller) {
	t.Helper()
	charges := r.Charges(nil, "GET", rules.MustParsePath(path), caller)
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{Cells: storetest.Must(memstore.New(memstore.Options{}))}))
	if _, err := l.Take(t.Context(), start, charges); err != nil || len(charges) == 0 {
		t.Errorf("%s: %d charges: %v", path, len(charges), err)
	}
}

// callers have every combination of identities that a document of the property counts by.
var callers = []limiter.Caller{
	{User: "u", APIKey: "k", IP: address, Claims: map[string]string{"org": "o"}},
	{APIKey: "k", IP: address, Claims: map[string]string{"org": "o"}},
	{IP: address, Claims: map[string]string{"org": "o"}},
}

// Parse refuses a document exactly if some request would charge more than ten limits on
// one subject, found by sending every short path through each rule by itself.
func TestParse_crowded_exact(t *testing.T) {
	var paths []string
	for _, a := range []string{"", "/a", "/b", "/z"} {
		for _, b := range []string{"", "/a", "/b", "/z"} {
			for _, c := range []string{"", "/a", "/z"} {
				if path := a + b + c; strings.Count(path, "/") == len(path)/2 {
					paths = append(paths, path)
				}
			}
		}
	}
	refused := 0
	rapid.Check(t, func(rt *rapid.T) {
		var drawn []string
		for range rapid.IntRange(2, 5).Draw(rt, "rules") {
			drawn = append(drawn, drawRule(rt, len(drawn)))
		}
		crowded := ""
		for _, caller := range callers {
			for _, caller.Tier = range []string{"free", "paid", "other"} {
				for _, method := range []string{"GET", "POST", "PUT"} {
					for _, path := range paths {
						if n := most(rt, drawn, method, path, caller); n > limiter.MaxCharges {
							crowded = fmt.Sprintf("%s %s of %+v charges %d", method, path, caller, n)
						}
					}
				}
			}
		}
		_, err := rules.Parse([]byte(document(drawn...)), rules.Options{})
		if (err != nil) != (crowded != "") {
			rt.Fatalf("got error %v, but %q", err, crowded)
		}
		if err != nil {
			refused++
		}
	})
	if refused == 0 {
		t.Error("no document was crowded")
	}
}

func drawRule(rt *rapid.T, i int) string {
	endpoint := rapid.SampledFrom([]string{"*", "/a", "/a/*", "/{x}", "/{x}/*", "/a/b", "/a/{x}", "/{x}/b", "/{x}/{y}", "/a/{x}/a", "/{x}/b/{y}", "/b/{x}/*", "/{x}/a/*"}).Draw(rt, "endpoint")
	var limits []string
	for _, tier := range []string{"free", "paid", "*", "global"} {
		if n := rapid.IntRange(-3, 6).Draw(rt, tier); n > 0 {
			rest := rapid.SampledFrom([]string{
				``, `,"per":["client"]`, `,"per":["user","endpoint"]`, `,"per":["apikey"]`, `,"per":["claim:org","client"]`, `,"per":["claim:org","user"]`, `,"per":["claim:org","apikey"]`, `,"per":["ip","claim:org"]`,
				`,"cells":2`, `,"shards":2`, `,"per":["global"]`,
			}).Draw(rt, "rest")
			prefix := fmt.Sprintf("l%d-", i)
			if strings.Contains(rest, "per") && !strings.Contains(rest, "endpoint") {
				prefix = "shared"
			}
			limits = append(limits, fmt.Sprintf("%q:%s", tier, strings.ReplaceAll(list(prefix, n, rest), `"requests":1,`, `"requests":10,`)))
		}
	}
	if limits == nil {
		limits = []string{`"*":` + list(fmt.Sprintf("l%d-", i), 1, "")}
	}
	method := rapid.SampledFrom([]string{"", "", "GET", "POST"}).Draw(rt, "method")
	text := rule(endpoint, method, strings.Join(limits, ","))
	if rapid.IntRange(0, 5).Draw(rt, "shadow") == 0 {
		text = strings.Replace(text, "{", `{"mode":"shadow",`, 1)
	}
	return text
}

// most returns how many limits a request charges at most on one subject, by the rules one
// after another.
func most(rt *rapid.T, of []string, method, path string, caller limiter.Caller) (most int) {
	type step struct {
		subject       limiter.Subject
		shadow, cells bool
	}
	seen := map[step]map[limiter.ID]bool{}
	for _, text := range of {
		for _, c := range alone(rt, text).Charges(nil, method, rules.MustParsePath(path), caller) {
			s := step{c.Subject, c.Limit.Shadow, c.Limit.Spread.Cells > 0}
			if seen[s] == nil {
				seen[s] = map[limiter.ID]bool{}
			}
			seen[s][c.Limit.ID] = true
			most = max(most, len(seen[s]))
		}
	}
	return most
}

var parsed = map[string]*rules.Rules{}

// alone returns a rule by itself, in a document that knows all tiers.
func alone(rt *rapid.T, text string) *rules.Rules {
	if r := parsed[text]; r != nil {
		return r
	}
	r, err := rules.Parse([]byte(document(text, rule("/of/no/request", "", `"free":`+limit+`,"paid":`+limit+`,"other":`+limit))), rules.Options{})
	if err != nil {
		rt.Skip(err) // crowded by itself
	}
	parsed[text] = r
	return r
}
