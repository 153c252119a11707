package rules_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

func numbers(charges []limiter.Charge) string {
	var list []string
	for _, c := range charges {
		list = append(list, c.Limit.Name+" "+c.Limit.Fingerprint())
	}
	return strings.Join(list, ", ")
}

// Limits have the spread and the mode that the document sets.
func TestParse_spread(t *testing.T) {
	r := load(t, "testdata/good/spread.json")
	want := map[string]limiter.Spread{"lease": {Lease: 50}, "shards": {Shards: 8}, "sync": {Sync: 100 * time.Millisecond}, "queue": {},
		"log": {}}
	for _, c := range r.Charges(nil, "GET", rules.EncodedPath("/a"), alice) {
		if c.Limit.Spread != want[c.Limit.Name] || !c.Limit.Shadow {
			t.Errorf("%s: got %+v, shadow %t; want %+v, shadow", c.Limit.Name, c.Limit.Spread, c.Limit.Shadow, want[c.Limit.Name])
		}
		delete(want, c.Limit.Name)
	}
	if len(want) > 0 {
		t.Errorf("got no charges for %v", want)
	}
}

// A shadow limit may have the name of an enforced limit.
func TestParse_shadow(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{"*":{"requests":10,"window":"1m"}}},
		{"endpoint":"/a","mode":"shadow","limits":{"*":{"requests":5,"window":"1m"}}}]}`)
	charges := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)
	if len(charges) != 2 || charges[0].Limit.Shadow || !charges[1].Limit.Shadow || charges[0].Limit.ID != charges[1].Limit.ID {
		t.Fatalf("got charges %+v, want an enforced and a shadow limit with one ID", charges)
	}
}

// A limit that needs more writes than one DynamoDB item accepts gets a Spread. If the document does not set one, a
// limit of all callers gets Spread.Sync, and any other limit gets leases. A note states by how much callers can
// exceed the limit.
func TestParse_large(t *testing.T) {
	document := func(key string) []byte {
		return []byte(strings.ReplaceAll(`{"rules":[
		{"endpoint":"/a","limits":{"KEY":{"requests":100000,"window":"1s"}}},
		{"endpoint":"/b","limits":{"KEY":{"requests":500,"window":"1s"}}},
		{"endpoint":"/c","limits":{"KEY":{"requests":100000,"window":"1s","shards":4}}},
		{"endpoint":"/d","limits":{"KEY":{"requests":100000,"window":"1s","lease":1}}},
		{"endpoint":"/e","limits":{"KEY":{"requests":60060,"window":"1m","algorithm":"token_bucket"}}},
		{"endpoint":"/f","limits":{"KEY":{"requests":327,"window":"1s","algorithm":"sliding_log"}}},
		{"endpoint":"/g","limits":{"KEY":{"requests":50000,"window":"1s","algorithm":"token_bucket","burst":10}}},
		{"endpoint":"/h","limits":{"KEY":{"requests":50000,"window":"1s","algorithm":"leaky_bucket","burst":1}}}]}`, "KEY", key))
	}
	unset, sync := limiter.Spread{}, limiter.Spread{Sync: limiter.DefaultSync}
	lease := func(n int64) limiter.Spread { return limiter.Spread{Lease: n} }
	for _, c := range []struct {
		key   string
		above int64
		want  []limiter.Spread
		note  string
	}{
		{"*", 0, []limiter.Spread{unset, unset, {Shards: 4}, lease(1), unset, unset, unset, unset}, ""},
		{"*", rules.LeaseAboveDynamoDB, []limiter.Spread{lease(1000), unset, {Shards: 4}, lease(1), lease(10), unset, lease(10), unset},
			"rules[4].limits.*: more than 500 requests a second: on DynamoDB an environment leases up to 10 requests at once. Leases save few " +
				"writes of a bucket"},
		{"global", 0, []limiter.Spread{unset, unset, {Shards: 4}, lease(1), unset, unset, unset, unset}, ""},
		{"global", rules.LeaseAboveDynamoDB, []limiter.Spread{sync, unset, {Shards: 4}, lease(1), sync, unset, sync, unset},
			"rules[0].limits.global: more than 500 requests a second: on DynamoDB each environment admits a share of the limit that follows its " +
				"share of the demand. The sum stays within 5 % of the limit"},
	} {
		r, err := rules.Parse(document(c.key), rules.Options{LeaseAbove: c.above})
		if err != nil {
			t.Fatal(err)
		}
		var got []limiter.Spread
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"} {
			got = append(got, r.Charges(nil, "GET", rules.EncodedPath(path), alice)[0].Limit.Spread)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s above %d: got %+v, want %+v", c.key, c.above, got, c.want)
		}
		if notes := fmt.Sprint(r.Notes()); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, ": on DynamoDB") {
			t.Errorf("%s above %d: got notes %s, want %q", c.key, c.above, notes, c.note)
		}
	}
}

// A leaky bucket holds at most the requests that leave within MaxDelay.
func TestParse_maxDelay(t *testing.T) {
	document := []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"requests":10,"window":"1s","burst":50,"algorithm":"leaky_bucket"}}}]}`)
	for delay, want := range map[time.Duration]string{0: "bucket/100ms/50", 250 * time.Millisecond: "bucket/100ms/3",
		time.Minute: "bucket/100ms/50"} {
		r, err := rules.Parse(document, rules.Options{MaxDelay: delay})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Charges(nil, "GET", rules.EncodedPath("/"), alice)[0].Limit.Fingerprint(); got != want {
			t.Errorf("MaxDelay %s: got %s, want %s", delay, got, want)
		}
	}
}

// An override changes the numbers of a limit in every rule and tier. It does not change the identity
// of the limit.
func TestParse_overrides(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{
			"free":[{"name":"minute","requests":10,"window":"1m","lease":10},{"name":"day","requests":100,"window":"1d"}],
			"paid":{"name":"minute","requests":50,"window":"1m"},
			"global":{"name":"minute","requests":1000,"window":"1m"}}},
		{"endpoint":"/b","limits":{"*":{"name":"team","requests":10,"window":"1h","per":["user","claim:org"]}}}],
	"overrides":[
		{"user":"alice","limits":{"minute":{"requests":5,"window":"1m"}}},
		{"apikey":"k1","limits":{"day":{"requests":70,"window":"30d"}}},
		{"ip":"203.0.113.7","limits":{"minute":{"requests":1,"window":"1m"}}},
		{"ip":"2001:db8:1::/64","limits":{"minute":{"requests":2,"window":"1m"}}},
		{"claim:org":"acme","limits":{"team":{"requests":70,"window":"1h","algorithm":"token_bucket","burst":3}}}]}`)
	for _, c := range []struct {
		path   string
		caller caller.Caller
		want   string
	}{
		{"/a", alice, "minute sliding/1m0s/5, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", caller.Caller{User: "alice", Tier: "paid"}, "minute log/1m0s/5, minute sliding/1m0s/1000"},
		{"/a", caller.Caller{User: "bob", APIKey: "k1", IP: address},
			"minute sliding/1m0s/10, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", caller.Caller{APIKey: "k1", IP: address}, "minute sliding/1m0s/10, day sliding/720h0m0s/70, minute sliding/1m0s/1000"},
		{"/a", anonymous, "minute sliding/1m0s/1, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", caller.Caller{IP: netip.MustParsePrefix("2001:db8:1::/64")},
			"minute sliding/1m0s/2, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/b", caller.Caller{User: "bob", Claims: map[string][]string{"org": {"acme"}}}, "team bucket/51.428571429s/3"},
		{"/b", caller.Caller{User: "bob", Claims: map[string][]string{"org": {"umbrella"}}}, "team log/1h0m0s/10"},
	} {
		if got := numbers(r.Charges(nil, "GET", rules.EncodedPath(c.path), c.caller)); got != c.want {
			t.Errorf("%s %+v:\n got %s\nwant %s", c.path, c.caller, got, c.want)
		}
	}
	// An override keeps the ID of its limit. The horizon of both limits is the longest horizon of all
	// callers.
	own, others := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)[0].Limit, r.Charges(nil, "GET", rules.EncodedPath("/a"),
		caller.Caller{User: "bob"})[0].Limit
	if own.ID != others.ID || own.Horizon < 60*24*time.Hour || others.Horizon != own.Horizon {
		t.Errorf("got IDs %s and %s, horizons %s and %s; want one ID, and one horizon of at least 60 days", own.ID, others.ID, own.Horizon,
			others.Horizon)
	}
	if own.Spread.Lease != 5 {
		t.Errorf("lease: got %d, want 5", own.Spread.Lease)
	}
}

// An override applies to every limit with its name that counts by its identity. It applies in each
// tier, in each rule that shares the count, and in shadow rules.
func TestParse_overrides_all(t *testing.T) {
	r := parse(t, `{"default_tier":"paid","rules":[
		{"endpoint":"/a","limits":{"free":{"name":"s","requests":10,"window":"1m","per":["client"]},"paid":{"name":"s","requests":20,
			"window":"1m","per":["client"]}}},
		{"endpoint":"/b","cost":2,"limits":{"free":{"name":"s","requests":10,"window":"1m","per":["client"]},"paid":{"name":"s","requests":30,
			"window":"1m","per":["user","endpoint"]}}},
		{"endpoint":"*","mode":"shadow","limits":{"*":{"name":"s","requests":40,"window":"1m"}}}],
		"overrides":[{"user":"alice","limits":{"s":{"requests":5,"window":"1m"}}},{"user":"bob","limits":{"s":{"requests":5,"window":"1m"}}}]}`)
	for _, tier := range []string{"free", "paid", "gold"} {
		for _, path := range []string{"/a", "/b"} {
			for _, user := range []string{"alice", "bob"} {
				if got, want := numbers(r.Charges(nil, "GET", rules.EncodedPath(path), caller.Caller{User: user, Tier: tier})),
					"s log/1m0s/5, s log/1m0s/5"; got != want {
					t.Errorf("%s %s of %s: got %s, want %s", tier, path, user, got, want)
				}
			}
		}
	}
	a, b := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: "alice", Tier: "free"})[0],
		r.Charges(nil, "GET", rules.EncodedPath("/b"), caller.Caller{User: "alice", Tier: "free"})[0]
	if a.Limit != b.Limit {
		t.Error("override of a shared count: got two limits, want one")
	}
	if shadow := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)[1].Limit; !shadow.Shadow {
		t.Error("override of a shadow limit: got an enforced limit, want a shadow limit")
	}
}

// An override for a user, key or address takes precedence over an override for a claim.
func TestParse_overrides_combined(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"s","requests":10,"window":"1m","per":["claim:org","client"]}}}],
		"overrides":[
		{"claim:org":"acme","limits":{"s":{"requests":50,"window":"1m"}}},
		{"user":"alice","limits":{"s":{"requests":31,"window":"30d"}}},
		{"apikey":"k","limits":{"s":{"requests":2,"window":"1m"}}},
		{"ip":"::ffff:203.0.113.7","limits":{"s":{"requests":3,"window":"1m"}}}]}`)
	acme, other := map[string][]string{"org": {"acme"}}, map[string][]string{"org": {"other"}}
	for _, c := range []struct {
		caller caller.Caller
		want   string
	}{
		{caller.Caller{User: "alice", Claims: acme}, "s sliding/720h0m0s/31"},
		{caller.Caller{User: "alice", APIKey: "k", Claims: other}, "s sliding/720h0m0s/31"},
		{caller.Caller{User: "bob", APIKey: "k", IP: address, Claims: acme}, "s sliding/1m0s/50"},
		{caller.Caller{User: "bob", APIKey: "k", IP: address, Claims: other}, "s log/1m0s/10"},
		{caller.Caller{APIKey: "k", IP: address, Claims: acme}, "s log/1m0s/2"},
		{caller.Caller{IP: address, Claims: acme}, "s log/1m0s/3"},
		{caller.Caller{Claims: acme}, "s sliding/1m0s/50"},
	} {
		charges := r.Charges(nil, "GET", rules.EncodedPath("/"), c.caller)
		if got := numbers(charges); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.caller, got, c.want)
		}
		// The horizon of every client is the longest horizon of all overrides.
		if got, want := charges[0].Limit.Horizon, 60*24*time.Hour; got != want {
			t.Errorf("%+v: horizon: got %s, want %s", c.caller, got, want)
		}
	}
}

// The size of a lease follows from the numbers of the override, not from the numbers of the limit.
func TestParse_overrides_leases(t *testing.T) {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":[
		{"name":"small","requests":10,"window":"1s"},{"name":"large","requests":10000,"window":"1s"},{"name":"said","requests":100,"window":"1s",
			"lease":50}]}}],"overrides":[
		{"user":"alice","limits":{"small":{"requests":20000,"window":"1s"},"large":{"requests":10,"window":"1s"},"said":{"requests":20,
			"window":"1s"}}},
		{"user":"bob","limits":{"said":{"requests":20,"window":"1s","algorithm":"sliding_log"},"large":{"requests":20,"window":"1s",
			"algorithm":"sliding_log"}}}]}`), rules.Options{LeaseAbove: rules.LeaseAboveDynamoDB})
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string][]int64{"alice": {200, 0, 20}, "bob": {0, 0, 0}, "carol": {0, 100, 50}} {
		var got []int64
		for _, c := range r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{User: user}) {
			got = append(got, c.Limit.Spread.Lease)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: leases: got %v, want %v", user, got, want)
		}
	}
}
