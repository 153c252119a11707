package edge_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
)

// Retire changes only the version of the list, lets every request pass until a function of these rules writes, and never
// goes back. package viewer tests that the function then refuses nobody.
func TestRetire(t *testing.T) {
	l := newList()
	if err := edge.Retire(ctx, l, 8); err != nil || len(l.values) != 0 {
		t.Errorf("without a list: got %v and %d values, want no change", err, len(l.values))
	}
	full := config
	full.Pass, full.Origins = []string{"/" + strings.Repeat("a", 800)}, []string{"https://a.example"}
	if err := edge.NewWriter(l).Write(ctx, noon, full, entries(3, "a", noon.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int64]int64{6: 7, 7: 7} {
		if err := edge.Retire(ctx, l, version); err != nil || l.updates != 1 {
			t.Errorf("version %d: got %v and %d updates, want version %d without another update", version, err, l.updates, want)
		}
	}
	l.others = 2
	const newest = 1 << 40
	if err := edge.Retire(ctx, l, newest); err != nil {
		t.Fatal(err)
	}
	var got edge.Config
	if err := json.Unmarshal([]byte(l.values[edge.ConfigKey]), &got); err != nil || got.Version != newest || got.Secret != config.Secret || len(got.Pass) != 1 || got.Pass[0] != "/*" || len(got.Origins) != 0 || len(l.values) != 4 {
		t.Errorf("newer rules: got %+v, %v and %d values, want only the version changed, and every path to pass", got, err, len(l.values))
	}
	if err := edge.NewWriter(l).Write(ctx, noon, config, entries(1, "b", noon.Add(time.Minute))); err != nil || len(l.values) != 4 {
		t.Errorf("a late line of the older rules: got %v and %d values, want no new entry", err, len(l.values))
	}
	full.Version = newest
	want, _ := full.Value()
	if err := edge.NewWriter(l).Write(ctx, noon, full, nil); err != nil || l.values[edge.ConfigKey] != want {
		t.Errorf("a line of the newer rules: got %v and %s, want %s", err, l.values[edge.ConfigKey], want)
	}
	l.others = 100
	if err := edge.Retire(ctx, l, newest+1); !errors.Is(err, edge.ErrConflict) {
		t.Errorf("endless conflicts: got %v, want %v", err, edge.ErrConflict)
	}
	l.values[edge.ConfigKey] = "{"
	if err := edge.Retire(ctx, l, newest+1); err == nil || !strings.HasPrefix(err.Error(), "edge: config: ") {
		t.Errorf("a malformed list: got %v, want an error", err)
	}
}

// A lookup finds the entry of an address, or the longest of an id's API keys, while it acts.
func TestLookup(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	l := newList()
	if _, ok, err := edge.LookupAddress(ctx, l, noon, addr); ok || err != nil {
		t.Errorf("without a list: got %t, %v, want none", ok, err)
	}
	c := config
	c.Credentials = true
	until := noon.Add(time.Hour)
	entry := edge.Entry{Until: until, Version: 7, Name: "flood", Capacity: 60, Requests: 60, Window: time.Minute, Reset: until, Period: true}
	short, long := entry, entry
	short.Owner, short.Until, long.Owner = c.Owner("acme"), until.Add(-time.Minute), c.Owner("acme")
	listed := entries(edge.MaxPage, "-", noon.Add(2*time.Hour)) // a page before them
	maps.Copy(listed, map[string]edge.Entry{c.Key(c.Address(addr)): entry, c.Key(edge.APIKey("a")): short, c.Key(edge.APIKey("b")): long})
	if err := edge.NewWriter(l).Write(ctx, noon, c, listed); err != nil {
		t.Fatal(err)
	}
	ofAddress := func(text string, now time.Time) (edge.Refusal, bool, error) {
		return edge.LookupAddress(ctx, l, now, netip.MustParseAddr(text))
	}
	want := edge.Refusal{Until: until, Limit: "flood", Version: 7, Credentials: true}
	same := func(r edge.Refusal) bool {
		at := r.Until
		r.Until = want.Until
		return r == want && at.Equal(want.Until)
	}
	if r, ok, err := ofAddress("2001:db8::2", until.Add(-time.Millisecond)); !ok || err != nil || !same(r) {
		t.Errorf("an address of the network: got %+v, %t, %v, want %+v", r, ok, err, want)
	}
	if r, ok, err := edge.LookupOwner(ctx, l, noon, "acme"); !ok || err != nil || !same(r) {
		t.Errorf("an id: got %+v, %t, %v, want %+v", r, ok, err, want)
	}
	for name, ok := range map[string]func() (edge.Refusal, bool, error){
		"after the wait":  func() (edge.Refusal, bool, error) { return ofAddress("2001:db8::1", until) },
		"another address": func() (edge.Refusal, bool, error) { return ofAddress("192.0.2.1", noon) },
		"another id":      func() (edge.Refusal, bool, error) { return edge.LookupOwner(ctx, l, noon, "other") },
	} {
		if r, ok, err := ok(); ok || err != nil {
			t.Errorf("%s: got %+v, %v, want none", name, r, err)
		}
	}
	if err := edge.Retire(ctx, l, 8); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := ofAddress("2001:db8::1", noon); ok || err != nil {
		t.Errorf("under newer rules: got %+v, %v, want none", r, err)
	}
	l.values[edge.ConfigKey] = "{"
	if _, _, err := ofAddress("2001:db8::1", noon); err == nil {
		t.Error("a malformed list: got no error")
	}
}
