package edge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
)

// list is a KeyValueStore with the limits of CloudFront.
type list struct {
	values  map[string]string
	version int
	size    int
	updates int
	others  int // changes of another process before the next updates
}

// State implements edge.Store.
func (l *list) State(context.Context) (string, int, error) {
	return strconv.Itoa(l.version), l.size, nil
}

// Get implements edge.Store.
func (l *list) Get(_ context.Context, key string) (string, error) { return l.values[key], nil }

// All implements edge.Store.
func (l *list) All(context.Context) (map[string]string, error) { return maps.Clone(l.values), nil }

// Update implements edge.Store.
func (l *list) Update(_ context.Context, tag string, values map[string]string) error {
	if l.others > 0 {
		l.others--
		l.version++
	}
	if tag != strconv.Itoa(l.version) {
		return edge.ErrConflict
	}
	if len(values) > edge.MaxChanges {
		return fmt.Errorf("got %d changes, want at most %d", len(values), edge.MaxChanges)
	}
	l.updates++
	l.version++
	for key, value := range values {
		if old, listed := l.values[key]; listed {
			l.size -= len(key) + len(old)
		}
		delete(l.values, key)
		if value != "" {
			l.values[key] = value
			l.size += len(key) + len(value)
		}
	}
	if l.size > edge.MaxList {
		return errors.New("the list is full")
	}
	return nil
}

var config = edge.Config{Version: 7, Secret: "secret", IPv6Bits: 64}

func entries(n int, prefix string, until time.Time) map[string]edge.Entry {
	all := map[string]edge.Entry{}
	for i := range n {
		all[fmt.Sprintf("%s%021d", prefix, i)] = edge.Entry{Until: until.Add(time.Duration(i) * time.Second), Version: 7, Name: "address", Capacity: 60, Requests: 60, Window: time.Minute}
	}
	return all
}

// A write has at most 50 changes, is repeated after a conflict, and never goes back to older rules.
func TestWrite(t *testing.T) {
	l := &list{values: map[string]string{}, others: 3}
	if err := edge.Write(ctx, l, noon, config, entries(120, "a", noon.Add(time.Minute))); err != nil || len(l.values) != 121 || l.updates != 3 {
		t.Fatalf("got %v, %d values after %d updates; want 121 after 3", err, len(l.values), l.updates)
	}
	if err := edge.Write(ctx, l, noon, config, entries(1, "b", noon)); err != nil || len(l.values) != 121 {
		t.Errorf("an expired entry: got %v and %d values, want 121", err, len(l.values))
	}
	older := config
	older.Version = 6
	if err := edge.Write(ctx, l, noon, older, entries(1, "c", noon.Add(time.Minute))); err != nil || len(l.values) != 121 {
		t.Errorf("older rules: got %v and %d values, want 121", err, len(l.values))
	}
	large := config
	large.Version = 8
	for range 200 {
		large.Pass = append(large.Pass, "/health")
	}
	if err := edge.Write(ctx, l, noon, large, entries(1, "d", noon.Add(time.Minute))); err != nil || len(l.values) != 121 || !strings.Contains(l.values[edge.ConfigKey], `"v":8,`) {
		t.Errorf("endpoints that do not fit: got %v and %d values under %s, want nothing listed, and the new version", err, len(l.values), l.values[edge.ConfigKey])
	}
	if err := edge.Write(ctx, l, noon, config, entries(1, "d", noon.Add(time.Minute))); err != nil || len(l.values) != 121 {
		t.Errorf("the rules before: got %v and %d values, want 121", err, len(l.values))
	}
	config := config
	config.Version = 8
	l.others = 100
	if err := edge.Write(ctx, l, noon, config, entries(1, "e", noon.Add(time.Minute))); !errors.Is(err, edge.ErrConflict) {
		t.Errorf("endless conflicts: got %v, want %v", err, edge.ErrConflict)
	}
}

// A full list loses the entries whose wait is over, then those with the shortest waits, and never its configuration.
func TestWrite_full(t *testing.T) {
	l := &list{values: map[string]string{}}
	write := func(e map[string]edge.Entry, now time.Time) {
		t.Helper()
		if err := edge.Write(ctx, l, now, config, e); err != nil {
			t.Fatal(err)
		}
	}
	write(entries(10_000, "old", noon.Add(-time.Hour)), noon.Add(-time.Hour))
	write(entries(65_000, "a", noon.Add(time.Hour)), noon.Add(-time.Hour))
	write(entries(40, "b", noon.Add(100*time.Hour)), noon)
	if l.size > edge.MaxList || l.values[edge.ConfigKey] == "" {
		t.Fatalf("got %d bytes and the configuration %q", l.size, l.values[edge.ConfigKey])
	}
	for key, want := range map[string]bool{"old000000000000000000000": false, "a000000000000000064999": true, "b000000000000000000000": true} {
		if got := l.values[key] != ""; got != want {
			t.Errorf("%s: listed: got %t, want %t", key, got, want)
		}
	}
	shortest, cut := noon.Add(1000*time.Hour), time.Time{}
	for i := range 65_000 {
		until := noon.Add(time.Hour + time.Duration(i)*time.Second)
		if l.values[fmt.Sprintf("a%021d", i)] == "" {
			cut = until
		} else if until.Before(shortest) {
			shortest = until
		}
	}
	if cut.After(shortest) {
		t.Errorf("removed an entry until %s, kept one until %s; want the longest waits", cut, shortest)
	}
}

// A caller is listed once for each wait, after 20 refusals in ten seconds, if the wait is twice as long as the delay.
func TestWatch(t *testing.T) {
	w := edge.NewWatch(10 * time.Second)
	refuse := func(name string, at, until time.Duration, n int) (listed int) {
		for range n {
			if w.Refused(noon.Add(at), name, noon.Add(until)) {
				listed++
			}
		}
		return listed
	}
	for _, c := range []struct {
		name      string
		at, until time.Duration
		n, want   int
	}{
		{"a", 0, time.Minute, 19, 0},
		{"a", 10 * time.Second, time.Minute, 100, 1},
		{"a", 61 * time.Second, 2 * time.Minute, 19, 0},
		{"a", 61 * time.Second, 2 * time.Minute, 1, 1},
		{"slow", 0, time.Hour, 19, 0},
		{"slow", 10*time.Second + 1, time.Hour, 19, 0},
		{"short", 0, 20*time.Second - 1, 100, 0},
		{"long enough", 0, 20 * time.Second, 100, 1},
	} {
		if got := refuse(c.name, c.at, c.until, c.n); got != c.want {
			t.Errorf("%s: %d refusals at %s: got %d entries, want %d", c.name, c.n, c.at, got, c.want)
		}
	}
	for i := range 10_000 {
		refuse(fmt.Sprint(i), 0, time.Hour, 1)
	}
	if refuse("one too many", 0, time.Hour, 100) != 0 || refuse("later", 11*time.Second, time.Hour, 20) != 1 {
		t.Error("got no bound of the callers, or no room after ten seconds")
	}
}
