package edge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	keys    []string // sorted
	version int
	size    int
	calls   int
	updates int
	others  int    // changes of another process before the next updates
	another func() // acts once, before the second update
	lag     int    // reads of the state after an update that return the tag before it
	stale   int
	fail    int // number of updates after which the store fails; 0 means never
}

func newList() *list { return &list{values: map[string]string{}} }

// State implements edge.Store.
func (l *list) State(context.Context) (string, int, error) {
	l.calls++
	if l.stale > 0 {
		l.stale--
		return strconv.Itoa(l.version - 1), l.size, nil
	}
	return strconv.Itoa(l.version), l.size, nil
}

// Get implements edge.Store.
func (l *list) Get(_ context.Context, key string) (string, error) {
	l.calls++
	return l.values[key], nil
}

// Page implements edge.Store.
func (l *list) Page(_ context.Context, token string) (values map[string]string, next string, err error) {
	l.calls++
	at, _ := slices.BinarySearch(l.keys, token)
	end := min(at+edge.MaxPage, len(l.keys))
	values = map[string]string{}
	for _, key := range l.keys[at:end] {
		values[key] = l.values[key]
	}
	if end < len(l.keys) {
		next = l.keys[end]
	}
	return values, next, nil
}

// Update implements edge.Store.
func (l *list) Update(_ context.Context, tag string, values map[string]string) error {
	l.calls++
	if act := l.another; act != nil && l.updates == 1 {
		l.another = nil
		act()
	}
	if l.others > 0 {
		l.others--
		l.version++
	}
	switch {
	case l.fail > 0 && l.updates == l.fail:
		return errFailed
	case tag != strconv.Itoa(l.version):
		return edge.ErrConflict
	case len(values) > edge.MaxChanges:
		return fmt.Errorf("got %d changes, want at most %d", len(values), edge.MaxChanges)
	}
	l.updates++
	l.version++
	l.stale = l.lag
	for key, value := range values {
		l.set(key, value)
	}
	if l.size > edge.MaxList {
		return errors.New("the list is full")
	}
	return nil
}

var errFailed = errors.New("failed")

func (l *list) set(key, value string) {
	at, listed := slices.BinarySearch(l.keys, key)
	if listed {
		l.size -= len(key) + len(l.values[key])
		delete(l.values, key)
	}
	switch {
	case value != "":
		l.values[key] = value
		l.size += len(key) + len(value)
		if !listed {
			l.keys = slices.Insert(l.keys, at, key)
		}
	case listed:
		l.keys = slices.Delete(l.keys, at, at+1)
	}
}

// expired returns the number of entries whose wait is over.
func (l *list) expired(now time.Time) (n int) {
	for key, value := range l.values {
		if until, ok := edge.UntilOf(value); ok && key[0] == 'a' && !until.After(now) {
			n++
		}
	}
	return n
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
func TestWrite(t *testing.T) { synctest.Test(t, testWrite) } // waits after conflicts

func testWrite(t *testing.T) {
	l := newList()
	l.others = 3
	writer := edge.NewWriter(l)
	if err := writer.Write(ctx, noon, config, entries(120, "a", noon.Add(time.Minute))); err != nil || len(l.values) != 121 || l.updates != 3 {
		t.Fatalf("got %v, %d values after %d updates; want 121 after 3", err, len(l.values), l.updates)
	}
	if err := writer.Write(ctx, noon, config, entries(1, "b", noon)); err != nil || len(l.values) != 121 {
		t.Errorf("an expired entry: got %v and %d values, want 121", err, len(l.values))
	}
	older := config
	older.Version = 6
	if err := writer.Write(ctx, noon, older, entries(1, "c", noon.Add(time.Minute))); err != nil || len(l.values) != 121 {
		t.Errorf("older rules: got %v and %d values, want 121", err, len(l.values))
	}
	large := config
	large.Version = 8
	for range 200 {
		large.Pass = append(large.Pass, "/health")
	}
	if err := writer.Write(ctx, noon, large, entries(1, "d", noon.Add(time.Minute))); err != nil || len(l.values) != 121 || !strings.Contains(l.values[edge.ConfigKey], `"v":8,`) {
		t.Errorf("endpoints that do not fit: got %v and %d values under %s, want nothing listed, and the new version", err, len(l.values), l.values[edge.ConfigKey])
	}
	if err := writer.Write(ctx, noon, config, entries(1, "d", noon.Add(time.Minute))); err != nil || len(l.values) != 121 {
		t.Errorf("the rules before: got %v and %d values, want 121", err, len(l.values))
	}
	config := config
	config.Version = 8
	l.others = 100
	if err := writer.Write(ctx, noon, config, entries(1, "e", noon.Add(time.Minute))); !errors.Is(err, edge.ErrConflict) {
		t.Errorf("endless conflicts: got %v, want %v", err, edge.ErrConflict)
	}
}

// While a write adds its first entries, another process publishes newer rules, or resets the callers. Then it adds no more.
func TestWrite_another(t *testing.T) {
	newer := config
	newer.Version = 8
	owned := entries(120, "a", noon.Add(time.Hour))
	for key, e := range owned {
		e.Owner, e.Refused = config.Owner("acme"), noon
		owned[key] = e
	}
	for name, c := range map[string]struct {
		act  func(*list) error
		want int // entries
	}{
		"newer rules": {func(l *list) error { return edge.NewWriter(l).Write(ctx, noon, newer, nil) }, edge.MaxChanges - 1},
		"a reset": {func(l *list) error {
			_, err := edge.RemoveOwner(ctx, l, noon, "acme")
			return err
		}, 0},
	} {
		l := newList()
		l.another = func() {
			if err := c.act(l); err != nil {
				t.Error(err)
			}
		}
		if err := edge.NewWriter(l).Write(ctx, noon, config, owned); err != nil {
			t.Fatal(err)
		}
		n := 0
		for key := range owned {
			if l.values[key] != "" {
				n++
			}
		}
		if n != c.want || l.another != nil {
			t.Errorf("%s: got %d entries, want %d", name, n, c.want)
		}
	}
}

// fullAt is the size at which a list is full.
const fullAt = edge.MaxList * 9 / 10

// full returns a full list of the longest entries, with waits until an instant for each.
func full(t *testing.T, until func(i int) time.Time) *list {
	t.Helper()
	l := newList()
	value, _ := config.Value()
	l.set(edge.ConfigKey, value)
	e := edge.Entry{Version: 1<<53 - 1, Name: strings.Repeat("a", 32), Capacity: 1e9, Requests: 1e9, Window: 366 * 24 * time.Hour, Period: true, Owner: config.Owner("acme")}
	for i := 0; ; i++ {
		e.Until = until(i)
		key, value := fmt.Sprintf("a%021d", i), e.Value()
		if l.size+len(key)+len(value) > fullAt {
			if i < 40_000 {
				t.Fatalf("got %d entries, want at least 40000", i)
			}
			return l
		}
		l.set(key, value)
	}
}

// A write removes what has ended from a page, also if its own entries take all changes of a call.
func TestWrite_sweeps(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 98, 99} {
		l := newList()
		value, _ := config.Value()
		l.set(edge.ConfigKey, value)
		for key, e := range entries(40, "a", noon.Add(-time.Hour)) {
			l.set(key, e.Value())
		}
		if err := edge.NewWriter(l).Write(ctx, noon, config, entries(n, "b", noon.Add(time.Hour))); err != nil || len(l.values) != n+1 || l.updates != (40+n+49)/50 {
			t.Errorf("%d new entries: got %v and %d values after %d updates, want %d after %d", n, err, len(l.values), l.updates, n+1, (40+n+49)/50)
		}
	}
}

// A write to a full list removes what has ended, and continues where the last one stopped, also if the store's tags lag,
// others write, or it fails in between.
func TestWrite_full(t *testing.T) {
	l := full(t, func(i int) time.Time {
		if i%10 == 0 {
			return noon
		}
		return noon.Add(time.Hour + time.Duration(i)*time.Second)
	})
	ended := l.expired(noon)
	w := edge.NewWriter(l)
	l.lag, l.fail = 1, 3
	many := entries(120, "b", noon.Add(100*time.Hour))
	if err := w.Write(ctx, noon, config, many); !errors.Is(err, errFailed) || l.expired(noon) == ended {
		t.Fatalf("after three changes: got %v, %d of %d entries that have ended; want the failure, and fewer", err, l.expired(noon), ended)
	}
	l.fail, l.others, l.calls = 0, 2, 0
	if err := w.Write(ctx, noon, config, many); err != nil || l.calls > 2*30*5 {
		t.Fatalf("got %v after %d calls, want at most 300", err, l.calls)
	}
	for key := range many {
		if l.values[key] == "" {
			t.Fatalf("%s: not listed", key)
		}
	}
	if l.size > fullAt || l.values[edge.ConfigKey] == "" {
		t.Errorf("got %d bytes and the configuration %q", l.size, l.values[edge.ConfigKey])
	}
	l.lag, l.calls = 0, 0
	const writes = 900 // pages of the list, and some more
	for i := range writes {
		if err := w.Write(ctx, noon, config, entries(1, fmt.Sprintf("c%d", i), noon.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.expired(noon); n != 0 || l.calls > writes*5+20*5 {
		t.Errorf("got %d entries that have ended, after %d writes with %d calls; want none after at most 5 each, and 100 while the list is full", n, writes, l.calls)
	}
}

// Without an entry that has ended, a full list loses those with shorter waits than the new ones. New ones with shorter
// waits are dropped. The configuration and the removals stay.
func TestWrite_noRoom(t *testing.T) {
	l := full(t, func(i int) time.Time { return noon.Add(time.Hour + time.Duration(i)*time.Second) })
	const removals = "removals"
	l.set(removals, strings.Repeat("x", max(1, fullAt-l.size-len(removals))))
	w := edge.NewWriter(l)
	before := maps.Clone(l.values)
	if err := w.Write(ctx, noon, config, entries(10, "b", noon.Add(time.Minute))); err != nil || !maps.Equal(l.values, before) || l.calls != 20*4 {
		t.Errorf("shorter waits: got %v, %d values after %d calls; want no change of %d, and 80 calls", err, len(l.values), l.calls, len(before))
	}
	l.calls = 0
	long := entries(200, "b", noon.Add(100*time.Hour))
	if err := w.Write(ctx, noon, config, long); err != nil || l.calls > 25*5 {
		t.Errorf("longer waits: got %v after %d calls, want at most 125", err, l.calls)
	}
	for key := range long {
		if l.values[key] == "" {
			t.Fatalf("%s: not listed", key)
		}
	}
	if l.size > fullAt || l.values[edge.ConfigKey] != before[edge.ConfigKey] || l.values[removals] != before[removals] || len(before)-len(l.values) > 0 {
		t.Errorf("got %d values of %d bytes, want at least %d of at most %d, with the configuration and the removals", len(l.values), l.size, len(before), fullAt)
	}
}

// A caller is listed once for each wait, after 20 refusals in ten seconds, if the wait is twice as long as the delay. It is
// listed again if it is refused from memory later than 30 seconds after that.
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
		{"slow", 0, time.Hour, 19, 0},
		{"short", 0, 20*time.Second - 1, 100, 0},
		{"long enough", 0, 20 * time.Second, 100, 1},
		{"reset", 0, time.Hour, 100, 1},
		{"next wait", 0, 25 * time.Second, 100, 1},
		{"a", 10 * time.Second, time.Minute, 100, 1},
		{"slow", 10*time.Second + 1, time.Hour, 19, 0},
		{"next wait", 26 * time.Second, time.Minute, 100, 1},
		{"reset", 30 * time.Second, time.Hour, 100, 0},
		{"reset", 30*time.Second + 1, time.Hour, 100, 1},
		{"reset", 31 * time.Second, time.Hour, 100, 0},
		{"a", 61 * time.Second, 2 * time.Minute, 19, 0},
		{"a", 61 * time.Second, 2 * time.Minute, 1, 1},
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
	w = edge.NewWatch(10 * time.Second)
	for i := range 10_000 {
		refuse(fmt.Sprint("listed", i), time.Minute, time.Hour, 20)
	}
	if refuse("after many listed ones", 71*time.Second, time.Hour, 20) != 1 {
		t.Error("got no room ten seconds after other callers with long waits were listed")
	}
}

// distant is a list whose calls take 40 ms. It is safe for concurrent use.
type distant struct {
	*list
	mu sync.Mutex
}

func (d *distant) call() (done func()) {
	time.Sleep(40 * time.Millisecond)
	d.mu.Lock()
	return d.mu.Unlock
}

// State implements edge.Store.
func (d *distant) State(ctx context.Context) (string, int, error) {
	defer d.call()()
	return d.list.State(ctx)
}

// Get implements edge.Store.
func (d *distant) Get(ctx context.Context, key string) (string, error) {
	defer d.call()()
	return d.list.Get(ctx, key)
}

// Page implements edge.Store.
func (d *distant) Page(ctx context.Context, token string) (map[string]string, string, error) {
	defer d.call()()
	return d.list.Page(ctx, token)
}

// Update implements edge.Store.
func (d *distant) Update(ctx context.Context, tag string, values map[string]string) error {
	defer d.call()()
	return d.list.Update(ctx, tag, values)
}

// The environments of a flooded function list the same caller within a second, each by an own invocation. All invocations
// succeed, with few calls.
func TestWrite_together(t *testing.T) {
	for n, most := range map[int]int{5: 50, 20: 250, 40: 600} {
		synctest.Test(t, func(t *testing.T) {
			l := &distant{list: newList()}
			var failed atomic.Int64
			var writers sync.WaitGroup
			for i := range n {
				writers.Go(func() {
					time.Sleep(time.Duration(i) * time.Second / time.Duration(n))
					if err := edge.NewWriter(l).Write(ctx, noon, config, entries(1, "a", noon.Add(time.Hour))); err != nil {
						failed.Add(1)
					}
				})
			}
			writers.Wait()
			if failed.Load() > 0 || l.calls > most || len(l.values) != 2 {
				t.Errorf("%d writers: got %d failures, %d calls and %d values; want no failure, at most %d calls, and 2 values", n, failed.Load(), l.calls, len(l.values), most)
			}
			t.Logf("%d writers: %d calls, %d updates", n, l.calls, l.updates)
		})
	}
}

// A flood from new addresses lists ten callers, and then one for each delay. Two callers that never stop are listed for each
// of their waits.
func TestWatch_many(t *testing.T) {
	const delay, lasts = 10 * time.Second, 10 * time.Minute
	w := edge.NewWatch(delay)
	listed := 0
	for at := time.Duration(0); at < lasts; at += 50 * time.Millisecond {
		for range 25 {
			if w.Refused(noon.Add(at), at.String(), noon.Add(at+time.Minute)) {
				listed++
			}
		}
	}
	if want := 10 + int(lasts/delay) - 1; listed != want { // the first one of the pauses is due after a delay
		t.Errorf("got %d listed callers of 12,000, want %d", listed, want)
	}
	w = edge.NewWatch(delay)
	for at := time.Duration(0); at < time.Hour; at += 2*delay + time.Millisecond {
		for _, name := range []string{"a", "b"} {
			listed := 0
			for range 30 {
				if w.Refused(noon.Add(at), name, noon.Add(at+2*delay)) {
					listed++
				}
			}
			if listed != 1 {
				t.Fatalf("%s after %s: got %d lines, want 1", name, at, listed)
			}
		}
	}
}
