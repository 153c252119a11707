package edge_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/edge"
)

// A removal deletes the entries of one address, or of all keys of one id, also after conflicts. A late line does not add
// them again, and a later refusal does.
func TestRemove(t *testing.T) { synctest.Test(t, testRemove) } // waits after conflicts

func testRemove(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	ofAddress := config.Key(config.Address(addr))
	until := noon.Add(time.Hour)
	listed := map[string]edge.Entry{ofAddress: {Until: until}, config.Key(config.Address(netip.MustParseAddr("192.0.2.1"))): {Until: until}}
	for i := range 60 {
		listed[config.Key(edge.APIKey(fmt.Sprint("acme", i)))] = edge.Entry{Until: until, Owner: config.Owner("acme")}
	}
	listed[config.Key(edge.APIKey("other"))] = edge.Entry{Until: until, Owner: config.Owner("other")}
	l := newList()
	if n, err := edge.RemoveAddress(ctx, l, noon, addr); n != 0 || err != nil || len(l.values) != 0 {
		t.Errorf("without a list: got %d, %v and %d values, want no change", n, err, len(l.values))
	}
	write := func(at time.Duration) (n int) {
		t.Helper()
		for key, e := range listed {
			e.Refused, e.Name = noon.Add(at), "a"
			listed[key] = e
		}
		if err := edge.NewWriter(l).Write(ctx, noon.Add(at), config, listed); err != nil {
			t.Fatal(err)
		}
		for key := range listed {
			if l.values[key] != "" {
				n++
			}
		}
		return n
	}
	if n := write(0); n != 63 {
		t.Fatalf("got %d entries, want 63", n)
	}
	l.others = 2
	if n, err := edge.RemoveAddress(ctx, l, noon, addr); n != 1 || err != nil || l.values[ofAddress] != "" {
		t.Errorf("an address: got %d, %v, value %q; want its entry removed", n, err, l.values[ofAddress])
	}
	if n, err := edge.RemoveAddress(ctx, l, noon, addr); n != 0 || err != nil {
		t.Errorf("again: got %d, %v, want none", n, err)
	}
	l.others = 2
	if n, err := edge.RemoveOwner(ctx, l, noon, "acme"); n != 60 || err != nil {
		t.Errorf("an id: got %d, %v, want 60", n, err)
	}
	for at, want := range map[time.Duration]int{-time.Minute: 2, time.Second: 2} {
		if n := write(at); n != want {
			t.Errorf("lines of refusals at %s: got %d entries, want %d", at, n, want)
		}
	}
	for at, want := range map[time.Duration]int{4 * time.Second: 3, 75 * time.Second: 3} {
		if n := write(at); n != want {
			t.Errorf("refusals at %s: got %d entries, want %d, none by a record before its change", at, n, want)
		}
	}
	if n := write(77 * time.Second); n != 63 {
		t.Errorf("later refusals: got %d entries, want 63", n)
	}
	l.others = 100
	if _, err := edge.RemoveAddress(ctx, l, noon, addr); !errors.Is(err, edge.ErrConflict) {
		t.Errorf("endless conflicts: got %v, want %v", err, edge.ErrConflict)
	}
}

// After more removals than a value can have, a late line of none of their callers adds an entry.
func TestRemove_many(t *testing.T) {
	l := newList()
	w := edge.NewWriter(l)
	if err := w.Write(ctx, noon, config, nil); err != nil {
		t.Fatal(err)
	}
	entry := func(i int, at time.Duration) (key string, e map[string]edge.Entry) {
		key = config.Key(config.Address(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})))
		return key, map[string]edge.Entry{key: {Name: "a", Until: noon.Add(time.Hour), Refused: noon.Add(at)}}
	}
	const removals = 200
	for i := range removals {
		if _, err := edge.RemoveAddress(ctx, l, noon.Add(time.Duration(i)*time.Second), netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range l.values {
		if len(value) > edge.MaxValue {
			t.Errorf("%s: got %d bytes, want at most %d", key, len(value), edge.MaxValue)
		}
	}
	for i := range removals {
		for at, want := range map[time.Duration]bool{time.Duration(i) * time.Second: false, (removals + 5) * time.Second: true} {
			key, e := entry(i, at)
			if err := w.Write(ctx, noon.Add(removals*time.Second), config, e); err != nil || (l.values[key] != "") != want {
				t.Errorf("line of a refusal at %s, reset at %d s: got %v, listed %t; want %t", at, i, err, !want, want)
			}
			l.set(key, "")
		}
	}
	if key, e := entry(201, 170*time.Second); w.Write(ctx, noon.Add(removals*time.Second), config, e) != nil || l.values[key] == "" {
		t.Error("another caller, after the removals that are not kept: got no entry, want one")
	}
}
