package rules_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// limitsOf parses a list such as "search=5000/1m month=2000000 anchor=31".
func limitsOf(t testing.TB, changed int64, list string) *caller.Limits {
	t.Helper()
	rates, anchor := map[string]caller.Rate{}, ""
	for word := range strings.FieldsSeq(list) {
		name, value, _ := strings.Cut(word, "=")
		if name == "anchor" {
			anchor = value
			continue
		}
		rates[name] = storetest.Must(caller.ParseRate(value))
	}
	return storetest.Must(caller.NewLimits(rates, anchor, changed))
}

// recordDocument has limits that records set, and limits that they cannot set.
const recordDocument = `{"version":100,"rules":[{"endpoint":"/a","cost":2,"limits":{
		"free":[{"name":"search","requests":10,"window":"1m"},{"name":"month","requests":100,"period":"month","time_zone":"Europe/Berlin"}],
		"paid":[{"name":"search","requests":20,"window":"1m","algorithm":"token_bucket","burst":15}]}},
	{"endpoint":"*","limits":{"global":[
		{"name":"week","requests":50,"period":"week","per":["apikey"]},
		{"name":"log","requests":30,"window":"1m","algorithm":"sliding_log","per":["apikey"]},
		{"name":"shards","requests":300,"window":"1m","shards":2,"per":["apikey"]},
		{"name":"people","requests":300,"window":"1m","per":["user"]},
		{"name":"all","requests":300,"window":"1m","per":["global"]}]}}],
	"overrides":[{"apikey":"acme","limits":{"search":{"requests":12},"week":{"requests":60}}}]}`

// fingerprints returns the name, fingerprint and version of each limit of a request with a key of acme.
func fingerprints(r *rules.Rules, c caller.Caller) string {
	var words []string
	for _, charge := range r.Charges(nil, "GET", rules.EncodedPath("/a"), c) {
		words = append(words, fmt.Sprintf("%s %s v%d", charge.Limit.Name, charge.Limit.Fingerprint(), charge.Limit.Version))
	}
	return strings.Join(words, ", ")
}

// The limits of a record replace the numbers of the document and of its overrides. All limits of the
// record's subject get a higher version, also after the limits are removed.
func TestRules_record(t *testing.T) {
	r := parse(t, recordDocument)
	const tail = ", log log/1m0s/30 v%d, shards sliding/1m0s/300 v%d, all sliding/1m0s/300 v100"
	for _, c := range []struct{ tier, limits, want string }{
		{"free", "search=5000/1m month=2000000 anchor=31", "search sliding/1m0s/5000 v1100, month month-31/2000000/Europe/Berlin v1100, week " +
			"week-monday/60/UTC v1100"},
		{"free", "anchor=15", "search log/1m0s/12 v1100, month month-15/100/Europe/Berlin v1100, week week-monday/60/UTC v1100"},
		{"free", "week=70 anchor=friday", "search log/1m0s/12 v1100, month month-1/100/Europe/Berlin v1100, week week-friday/70/UTC v1100"},
		{"free", "search=5000", "search sliding/1m0s/5000 v1100, month month-1/100/Europe/Berlin v1100, week week-monday/60/UTC v1100"},
		{"free", "", "search log/1m0s/12 v1100, month month-1/100/Europe/Berlin v1100, week week-monday/60/UTC v1100"},
		{"free", "gone=7", "search log/1m0s/12 v1100, month month-1/100/Europe/Berlin v1100, week week-monday/60/UTC v1100"},
		{"paid", "search=600", "search bucket/100ms/15 v1100, week week-monday/60/UTC v1100"},
		{"paid", "search=60/1h", "search bucket/1m0s/15 v1100, week week-monday/60/UTC v1100"},
	} {
		acme := caller.Caller{APIKey: "acme", Tier: c.tier, Limits: limitsOf(t, 1000, c.limits)}
		if got, want := fingerprints(r, acme), c.want+fmt.Sprintf(tail, 1100, 1100); got != want {
			t.Errorf("%s, %q:\n got %s\nwant %s", c.tier, c.limits, got, want)
		}
	}
	// With a token, limits by client count the user, so the record sets only the limits by API key.
	both := caller.Caller{APIKey: "acme", User: "alice", Tier: "free", Limits: limitsOf(t, 1000, "search=5000 week=70")}
	if got := fingerprints(r, both); !strings.HasPrefix(got, "search log/1m0s/10 v100, month month-1/100/Europe/Berlin v100, week "+
		"week-monday/70/UTC v1100") {
		t.Errorf("with a token: got %s, want search of the document and week of the record", got)
	}
}

// Numbers that do not fit the document are an error of CheckLimits. A request ignores them and reports
// the reason.
func TestRules_CheckLimits(t *testing.T) {
	r := parse(t, recordDocument)
	for _, c := range []struct {
		limits, want string
		ignored      bool // true if a request with such a key reports the mistake
	}{
		{"search=5000/1m month=2000000 anchor=31", "", false},
		{"log=30 week=9 anchor=monday", "", false},
		{"serch=5", `limit serch: no limit of this name counts by apikey, want "log", "month", "search", "shards" or "week" ` +
			`(did you mean "search"?)`, false},
		{"people=5", `limit people: no limit of this name counts by apikey, want "log", "month", "search", "shards" or "week"`, false},
		{"all=5", "limit all: no limit of this name counts by apikey", false},
		{"month=5/1h", "limit month: got the window 1h, want only a number: the limit has the period month", true},
		{"shards=5", "limit shards: has lease, shards or sync_ms in the rules; a record cannot set such a limit", true},
		{"log=31", "limit log: got 31 requests, want at most 30: a sliding_log must fit its item", true},
		{"search=1", "limit search: got a capacity of 1, want at least 2, the cost in rules[0].cost", true},
	} {
		limits := limitsOf(t, 1000, c.limits)
		err := r.CheckLimits(limits)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.HasPrefix(got, c.want) && c.want != "" {
			t.Errorf("%s: got %v, want %q", c.limits, err, c.want)
		}
		q := rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: caller.Caller{APIKey: "x", Tier: "free", Limits: limits}}
		s := r.Select(nil, q)
		if (s.Ignored != nil) != c.ignored {
			t.Errorf("%s: got the reason %v, want one: %t", c.limits, s.Ignored, c.ignored)
		}
		if c.ignored && s.Ignored.Error() != err.Error() {
			t.Errorf("%s: got the reason %q, want %q", c.limits, s.Ignored, err)
		}
	}
	if err := parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":1,"window":"1m"}}}]}`).CheckLimits(limitsOf(t, 1,
		"anchor=31")); err == nil {
		t.Error("anchor without a period: got no error, want one")
	}
}

// A record with a mistake sets nothing. Its time of change, if valid, still raises the version.
func TestRules_record_mistake(t *testing.T) {
	r := parse(t, recordDocument)
	for _, c := range []struct {
		text    string
		version int64
	}{
		{`{"rates":{"search":"0/1m"},"changed":1000}`, 100},
		{`{"rates":{"search":"5"},"anchor":32,"changed":1000}`, 1100},
		{`{"rates":{"search":"5"},"changed":0}`, 100},
		{`{"rates":{"search":"5"},"changed":1000,"more":1}`, 100},
		{`junk`, 100},
		{`{"changed":1000,"rates":{"search":"5"}} {}`, 1100},
		{strings.Repeat(" ", 5000), 100},
	} {
		q := rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: caller.Caller{APIKey: "x", Tier: "free",
			Limits: caller.ParseLimits(c.text)}}
		s := r.Select(nil, q)
		if got := s.Charges[0].Limit; s.Ignored == nil || got.Fingerprint() != "log/1m0s/10" || got.Version != c.version && c.version != 100 {
			t.Errorf("%.60s: got %s of version %d with the reason %v, want the limit of the document with version %d and a reason", c.text,
				got.Fingerprint(), got.Version, s.Ignored, c.version)
		}
	}
	// The sum of both versions is above MaxVersion, so a store could not keep it.
	high := parse(t, fmt.Sprintf(`{"version":%d,"rules":[{"endpoint":"/a","limits":{"*":{"requests":9,"window":"1m","up_to":{"*":"34%%"}}}}]}`,
		int64(limiter.MaxVersion)))
	s := high.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/a"), Caller: caller.Caller{APIKey: "x",
		Limits: limitsOf(t, 1000, "a=5")}})
	if got := s.Charges[0].Limit; s.Ignored == nil || got.Version != limiter.MaxVersion || got.MaxCost() != 3 {
		t.Errorf("version above the maximum: got version %d, at most %d and the reason %v; want the tier's part, 3, of the document",
			got.Version, got.MaxCost(), s.Ignored)
	}
}

// Requests with the same record get the same limits, by pointer, without an allocation. The cache is
// bounded.
func TestRules_record_cached(t *testing.T) {
	r := parse(t, recordDocument)
	acme := caller.Caller{APIKey: "acme", Tier: "free", Limits: limitsOf(t, 1000, "search=5000 anchor=31")}
	first := r.Charges(nil, "GET", rules.EncodedPath("/a"), acme)
	acme.Limits = caller.ParseLimits(acme.Limits.Text()) // a read of the record returns an equal, but different, Limits
	path, dst := rules.EncodedPath("/a"), make([]limiter.Charge, 0, 16)
	if allocs := testing.AllocsPerRun(100, func() { dst = r.Charges(dst[:0], "GET", path, acme) }); allocs > 0 {
		t.Errorf("got %g allocations for a request, want 0", allocs)
	}
	for i := range first {
		if first[i].Limit != dst[i].Limit {
			t.Errorf("limit %s: got another pointer, want the same", first[i].Limit.Name)
		}
	}
	for i := range 3000 { // each of these records has five limits
		acme.Limits = limitsOf(t, int64(2000+i), "search=5000")
		r.Charges(dst[:0], "GET", path, acme)
	}
	if again := r.Charges(dst[:0], "GET", path, caller.Caller{APIKey: "acme", Tier: "free",
		Limits: limitsOf(t, 1000, "search=5000 anchor=31")}); again[0].Limit == first[0].Limit {
		t.Error("after 15,000 limits of other records: got the first limit, want a bounded cache without it")
	}
}

// Two limiters share a store. They learn of changes of the record at different times, and the rules
// change too. In each window, both together admit at most what the largest of the limits allows. At the
// end, the newest document and the newest record decide.
func TestRules_record_differential(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		store := storetest.Must(memstore.New(memstore.Options{}))
		documents := make([]*rules.Rules, 3)
		for i := range documents {
			documents[i] = parse(t, fmt.Sprintf(`{"version":%d,"rules":[{"endpoint":"/a","limits":{"*":{"requests":%d,"window":"1h",`+
				`"algorithm":"fixed_window"}}}]}`, 100+i, 5+rng.IntN(20)))
		}
		most := int64(0)
		records := make([]*caller.Limits, 6)
		for i := range records {
			list := ""
			if rng.IntN(3) > 0 {
				list = fmt.Sprintf("a=%d", 1+rng.IntN(40))
			}
			if i > 0 { // the first version has no record
				records[i] = limitsOf(t, 1000+int64(i), list)
			}
		}
		limiters, seen, read := make([]*limiter.Limiter, 2), make([]int, 2), make([]int, 2)
		for i := range limiters {
			limiters[i] = storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		}
		now, admitted := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC), int64(0)
		for range 300 {
			i := rng.IntN(2)
			if rng.IntN(15) == 0 {
				seen[i] = min(seen[i]+1, len(records)-1)
			}
			if rng.IntN(40) == 0 {
				read[i] = min(read[i]+1, len(documents)-1)
			}
			now = now.Add(time.Duration(rng.IntN(int(10 * time.Second))))
			charges := documents[read[i]].Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{APIKey: "acme", Limits: records[seen[i]]})
			most = max(most, charges[0].Limit.Rate.Requests)
			d, err := limiters[i].Take(t.Context(), now, charges)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted++
			}
		}
		if admitted > most {
			t.Fatalf("seed %d: got %d admitted in one window, want at most %d", seed, admitted, most)
		}
		last := documents[len(documents)-1].Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{APIKey: "acme",
			Limits: records[len(records)-1]})
		if d, err := limiters[0].Take(t.Context(), now, last); err != nil || d.Superseded {
			t.Fatalf("seed %d: got superseded rules, error %v; want the newest document and record to decide in the end", seed, err)
		}
	}
}
