package rules_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// callers are one caller with a user and a key, one with a key alone, and one with neither. All have an
// address and a claim.
var callers = []caller.Caller{
	{User: "u", APIKey: "k", IP: address, Claims: map[string][]string{"org": {"o"}}},
	{APIKey: "k", IP: address, Claims: map[string][]string{"org": {"o"}}},
	{IP: address, Claims: map[string][]string{"org": {"o"}}},
}

// fitting is the number of limits of ten requests a minute that fit one item.
const fitting = 7

// item identifies an item of a store in the reference model of this test.
type item struct {
	subject  limiter.Subject
	endpoint string
	shadow   bool
}

// A caller has an item for each endpoint if and only if its limits do not fit one item. Parse rejects a
// document if and only if the limits of a caller do not fit these items either. The reference model
// counts the limits of each caller and tier.
func TestParse_items_exact(t *testing.T) {
	refused, split := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var list []drawn
		for range rapid.IntRange(2, 5).Draw(rt, "rules") {
			list = append(list, drawRule(rt, len(list)))
		}
		var texts []string
		for _, d := range list {
			texts = append(texts, d.text)
		}
		whole, apart := crowded(rt, list, false), crowded(rt, list, true)
		r, err := rules.Parse([]byte(document(texts...)), rules.Options{Items: dynamostore.Items{}})
		switch {
		case (err != nil) != apart:
			rt.Fatalf("got error %v, want the document rejected: %t", err, apart)
		case err != nil:
			refused++
		case r.PerEndpoint() != whole:
			rt.Fatalf("PerEndpoint: got %t, want %t", r.PerEndpoint(), whole)
		case whole:
			split++
		}
	})
	if refused == 0 || split == 0 {
		t.Errorf("got %d rejected documents, and %d with an item for each endpoint; want some of both", refused, split)
	}
}

// The readings of a path can match more rules than a plain path. A store still accepts their charges: each limit of a
// subject is charged once, and a subject has at most MaxCharges limits.
func TestRules_Select_readingsFit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var texts []string
		for range rapid.IntRange(2, 6).Draw(rt, "rules") {
			texts = append(texts, drawRule(rt, len(texts)).text)
		}
		r, err := rules.Parse([]byte(document(texts...)), rules.Options{Items: dynamostore.Items{}})
		if err != nil {
			return
		}
		var path strings.Builder
		for range rapid.IntRange(1, 5).Draw(rt, "segments") {
			path.WriteString(rapid.SampledFrom([]string{"/", "/", "//", "%2F", "%2f"}).Draw(rt, "separator"))
			path.WriteString(rapid.SampledFrom([]string{"a", "b", "z", "%61", ""}).Draw(rt, "segment"))
		}
		for _, caller := range callers {
			caller.Tier = rapid.SampledFrom([]string{"free", "paid"}).Draw(rt, "tier")
			q := rules.Request{Method: "GET", Path: rules.EncodedPath("/" + path.String()), Caller: caller}
			charges := r.Select(nil, q).Charges
			l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
			if _, err := l.Take(t.Context(), start, charges); err != nil {
				rt.Fatalf("%s: got error %v, want none", q.Path, err)
			}
			if e := r.Explain(q); !slices.Equal(e.Charges, charges) || !explains(e) {
				rt.Fatalf("%s: explained: got %+v, want the charges %+v", q.Path, e, charges)
			}
		}
	})
}

// crowded reports whether the limits of some caller do not fit an item.
func crowded(rt *rapid.T, list []drawn, split bool) bool {
	all := map[item][2]map[limiter.ID]bool{} // limits of callers of all tiers; index 0 has limits without shards, index 1 limits with shards
	for _, caller := range callers {
		for _, caller.Tier = range []string{"free", "paid", "other"} {
			own := map[item][2]map[limiter.ID]bool{}
			for _, d := range list {
				for _, c := range alone(rt, d.text).Charges(nil, cmp.Or(d.method, "GET"), rules.EncodedPath(d.path), caller) {
					name, _, _ := strings.Cut(c.Subject.String(), "|endpoint:")
					stored := item{subject: limiter.Custom("", name), shadow: c.Limit.Shadow}
					if !strings.HasPrefix(c.Limit.Name, "shared") && split {
						stored.endpoint = d.method + " " + d.endpoint
					}
					items, shards := own, 0
					if c.Limit.Global {
						items = all
					}
					if _, ok := items[stored]; !ok {
						items[stored] = [2]map[limiter.ID]bool{{}, {}}
					}
					if c.Limit.Spread.Shards > 0 {
						shards = 1
					}
					items[stored][shards][c.Limit.ID] = true
				}
			}
			if tooMany(own) {
				return true
			}
		}
	}
	return tooMany(all)
}

func tooMany(items map[item][2]map[limiter.ID]bool) bool {
	for _, ids := range items {
		if n, shards := len(ids[0]), len(ids[1]); n+shards > limiter.MaxCharges || max(n, shards) > fitting {
			return true
		}
	}
	return false
}

// drawn is a rule and a request that matches it.
type drawn struct{ text, endpoint, method, path string }

func drawRule(rt *rapid.T, i int) drawn {
	endpoint := rapid.SampledFrom([]string{"*", "/a", "/a/*", "/{x}", "/{x}/*", "/a/b", "/a/{x}", "/{x}/b", "/{x}/{y}", "/a/{x}/a",
		"/{x}/b/{y}", "/b/{x}/*", "/{x}/a/*"}).Draw(rt, "endpoint")
	var limits []string
	for _, tier := range []string{"free", "paid", "*", "global"} {
		if n := rapid.IntRange(-3, 6).Draw(rt, tier); n > 0 {
			rest := rapid.SampledFrom([]string{
				``, `,"per":["client"]`, `,"per":["user","endpoint"]`, `,"per":["apikey"]`, `,"per":["claim:org","client"]`,
				`,"per":["claim:org","user"]`, `,"per":["claim:org","apikey"]`, `,"per":["ip","claim:org"]`,
				`,"shards":2`, `,"per":["global"]`,
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
	path := strings.NewReplacer("{x}", "z", "{y}", "z", "*", "z").Replace("/" + strings.TrimPrefix(endpoint, "/"))
	return drawn{text, endpoint, method, path}
}

var parsed = map[string]*rules.Rules{}

// alone returns the Rules of a single rule in a document that names all tiers.
func alone(rt *rapid.T, text string) *rules.Rules {
	if r := parsed[text]; r != nil {
		return r
	}
	r, err := rules.Parse([]byte(document(text, rule("/of/no/request", "", `"free":`+limit+`,"paid":`+limit+`,"other":`+limit))),
		rules.Options{Items: dynamostore.Items{}})
	if err != nil {
		rt.Skip(err) // even this rule alone has more limits than an item can hold
	}
	parsed[text] = r
	return r
}
