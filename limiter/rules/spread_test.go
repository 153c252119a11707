package rules_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// numbers writes charges as name fingerprint, one after another.
func numbers(charges []limiter.Charge) string {
	var list []string
	for _, c := range charges {
		list = append(list, c.Limit.Name+" "+c.Limit.Fingerprint())
	}
	return strings.Join(list, ", ")
}

// What spreads a limit, and shadows, are as the document says.
func TestParse_spread(t *testing.T) {
	r := load(t, "testdata/good/spread.json")
	want := map[string]limiter.Spread{"lease": {Lease: 50}, "shards": {Shards: 8}, "sync": {Sync: 100 * time.Millisecond}, "cells": {Cells: 10}, "queue": {}, "log": {}}
	for _, c := range r.Charges(nil, "GET", "/a", alice) {
		if c.Limit.Spread != want[c.Limit.Name] || !c.Limit.Shadow {
			t.Errorf("%s: %+v, shadow %t", c.Limit.Name, c.Limit.Spread, c.Limit.Shadow)
		}
		delete(want, c.Limit.Name)
	}
	if len(want) > 0 {
		t.Errorf("not charged: %v", want)
	}
}

// A rule that is tried out stands beside an enforced one of the same name.
func TestParse_shadow(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{"*":{"requests":10,"window":"1m"}}},
		{"endpoint":"/a","mode":"shadow","limits":{"*":{"requests":5,"window":"1m"}}}]}`)
	charges := r.Charges(nil, "GET", "/a", alice)
	if len(charges) != 2 || charges[0].Limit.Shadow || !charges[1].Limit.Shadow || charges[0].Limit.ID != charges[1].Limit.ID {
		t.Fatalf("charges %+v", charges)
	}
}

// A limit that one DynamoDB item cannot bear leases, unless it says how it is spread, and
// the notes tell.
func TestParse_leases(t *testing.T) {
	document := `{"rules":[
		{"endpoint":"/a","limits":{"global":{"requests":100000,"window":"1s"}}},
		{"endpoint":"/b","limits":{"global":{"requests":500,"window":"1s"}}},
		{"endpoint":"/c","limits":{"global":{"requests":100000,"window":"1s","shards":4}}},
		{"endpoint":"/d","limits":{"global":{"requests":100000,"window":"1s","lease":1}}},
		{"endpoint":"/e","limits":{"global":{"requests":60060,"window":"1m","algorithm":"token_bucket"}}},
		{"endpoint":"/f","limits":{"global":{"requests":1002,"window":"2s","algorithm":"sliding_log"}}}]}`
	for above, want := range map[int64][]int64{0: {0, 0, 0, 1, 0, 0}, rules.LeaseAboveDynamoDB: {1000, 0, 0, 1, 10, 0}} {
		r, err := rules.Parse([]byte(document), rules.Options{LeaseAbove: above})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f"} {
			got = append(got, r.Charges(nil, "GET", path, alice)[0].Limit.Spread.Lease)
		}
		if !slices.Equal(got, want) {
			t.Errorf("above %d: leases %v, want %v", above, got, want)
		}
		if notes := fmt.Sprint(r.Notes()); strings.Contains(notes, "rules[0].limits.global: more than 500 requests a second, so on DynamoDB it leases up to 1000 at once") != (above > 0) {
			t.Errorf("notes %s", notes)
		}
	}
}

// Whoever waits for his turn waits no longer than is allowed: the queue is as deep.
func TestParse_maxDelay(t *testing.T) {
	document := []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"requests":10,"window":"1s","burst":50,"algorithm":"leaky_bucket"}}}]}`)
	for delay, want := range map[time.Duration]string{0: "bucket/100ms/50", 250 * time.Millisecond: "bucket/100ms/3", time.Minute: "bucket/100ms/50"} {
		r, err := rules.Parse(document, rules.Options{MaxDelay: delay})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Charges(nil, "GET", "/", alice)[0].Limit.Fingerprint(); got != want {
			t.Errorf("at most %s: %s, want %s", delay, got, want)
		}
	}
}

// A caller's own numbers stand in place of its tier's, in the same limit, wherever it
// counts by that identity.
func TestParse_overrides(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{
			"free":[{"name":"minute","requests":10,"window":"1m","lease":10},{"name":"day","requests":100,"window":"1d"}],
			"paid":{"name":"minute","requests":50,"window":"1m"},
			"global":{"name":"minute","requests":1000,"window":"1m"}}},
		{"endpoint":"/b","limits":{"*":{"name":"team","requests":10,"window":"1h","per":["user","claim:org"]}}}],
	"overrides":[
		{"user":"alice","limits":{"minute":{"requests":5,"window":"1m"}}},
		{"apikey":"k1","limits":{"day":{"requests":7,"window":"30d"}}},
		{"ip":"203.0.113.7","limits":{"minute":{"requests":1,"window":"1m"}}},
		{"ip":"2001:db8:1::/64","limits":{"minute":{"requests":2,"window":"1m"}}},
		{"claim:org":"acme","limits":{"team":{"requests":70,"window":"1h","algorithm":"token_bucket","burst":3}}}]}`)
	for _, c := range []struct {
		path   string
		caller limiter.Caller
		want   string
	}{
		{"/a", alice, "minute sliding/1m0s/5, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", limiter.Caller{User: "alice", Tier: "paid"}, "minute sliding/1m0s/5, minute sliding/1m0s/1000"},
		{"/a", limiter.Caller{User: "bob", APIKey: "k1", IP: address}, "minute sliding/1m0s/10, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", limiter.Caller{APIKey: "k1", IP: address}, "minute sliding/1m0s/10, day sliding/720h0m0s/7, minute sliding/1m0s/1000"},
		{"/a", anonymous, "minute sliding/1m0s/1, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/a", limiter.Caller{IP: netip.MustParsePrefix("2001:db8:1::/64")}, "minute sliding/1m0s/2, day sliding/24h0m0s/100, minute sliding/1m0s/1000"},
		{"/b", limiter.Caller{User: "bob", Claims: map[string]string{"org": "acme"}}, "team bucket/51.428571429s/3"},
		{"/b", limiter.Caller{User: "bob", Claims: map[string]string{"org": "umbrella"}}, "team sliding/1h0m0s/10"},
	} {
		if got := numbers(r.Charges(nil, "GET", c.path, c.caller)); got != c.want {
			t.Errorf("%s %+v:\n got %s\nwant %s", c.path, c.caller, got, c.want)
		}
	}
	// The same limit, which a store keeps as long as any caller's needs.
	own, others := r.Charges(nil, "GET", "/a", alice)[0].Limit, r.Charges(nil, "GET", "/a", limiter.Caller{User: "bob"})[0].Limit
	if own.ID != others.ID || own.Horizon < 60*24*time.Hour || others.Horizon != own.Horizon {
		t.Errorf("ids %s and %s, horizons %s and %s", own.ID, others.ID, own.Horizon, others.Horizon)
	}
	if own.Spread.Lease != 5 {
		t.Errorf("leases %d of 5", own.Spread.Lease)
	}
}

// Limits that are taken in steps of their own do not crowd a subject.
func TestParse_crowded_spread(t *testing.T) {
	for rest, crowded := range map[string]bool{"": true, `,"shards":2`: false, `,"cells":2`: false, `,"lease":2`: true, `,"sync_ms":100`: true} {
		limits := strings.ReplaceAll(list("l", 11, rest), `"requests":1,`, `"requests":10,`)
		_, err := rules.Parse([]byte(document(rule("/a", "", `"*":`+limits))), rules.Options{})
		if (err != nil) != crowded {
			t.Errorf("eleven limits%s: %v", rest, err)
		}
	}
}
