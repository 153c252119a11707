package caller_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

var errDown = errors.New("table down")

// table is a KeyTable in memory. It counts its reads.
type table struct {
	mu                 sync.Mutex
	secret             []byte
	records            map[string]caller.Record
	down               bool
	broken             map[string]bool // hashes of the records that cannot be read
	slow               time.Duration
	slowSecret         time.Duration
	reads, secretReads int
}

func newTable(secret string) *table {
	return &table{secret: []byte(secret), records: map[string]caller.Record{}}
}

func (t *table) add(secret, id string) (key string) {
	key = caller.NewAPIKey()
	t.records[caller.HashAPIKey([]byte(secret), key)] = caller.Record{ID: id, Tier: "paid"}
	return key
}

func (t *table) wait(ctx context.Context, slow time.Duration) error {
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if t.down {
		return errDown
	}
	return nil
}

func (t *table) Secret(ctx context.Context) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.secretReads++
	if err := t.wait(ctx, t.slow+t.slowSecret); err != nil {
		return nil, err
	}
	return t.secret, nil
}

func (t *table) Record(ctx context.Context, hash string) (caller.Record, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if err := t.wait(ctx, t.slow); err != nil {
		return caller.Record{}, false, err
	}
	if t.broken[hash] {
		return caller.Record{}, false, fmt.Errorf("%w: no id", caller.ErrRecord)
	}
	r, ok := t.records[hash]
	return r, ok, nil
}

// look compares a lookup with the expected record ID or error, and with the expected number of reads.
func look(t *testing.T, r *caller.RemoteRecords, source *table, now time.Time, key, id string, want error, reads int) {
	t.Helper()
	record, err := r.Lookup(ctx, now, key)
	if record.ID != id || !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Errorf("at %s: got %q, %v, want %q, %v", now.Sub(noon), record.ID, err, id, want)
	}
	if source.reads != reads {
		t.Errorf("at %s: got %d reads, want %d", now.Sub(noon), source.reads, reads)
	}
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("got an error with the key, want it without: %v", err)
	}
}

func TestNewAPIKey(t *testing.T) {
	shape := regexp.MustCompile(`^weir_[A-Za-z0-9_-]{48}$`)
	if a, b := caller.NewAPIKey(), caller.NewAPIKey(); a == b || !shape.MatchString(a) {
		t.Errorf("got keys %s and %s, want two different keys of the documented format", a, b)
	}
}

// A key that is malformed or has a wrong checksum is rejected without a read.
func TestRemoteRecords_malformed(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	good := source.add("s", "k")
	bad := []string{"", "weir_", "weir_free_x", good[1:], good + "A", good[:len(good)-1], strings.ToUpper(good[:4]) + good[4:],
		strings.Repeat("x", 1<<20), good[:20] + "\n" + good[20:], good[:20] + "\n" + good[21:], good[:20] + "=" + good[21:]}
	for i := range len(good) {
		other := byte('A')
		if good[i] == other {
			other = 'B'
		}
		bad = append(bad, good[:i]+string(other)+good[i+1:])
	}
	for _, key := range bad {
		if _, err := r.Lookup(ctx, noon, key); !errors.Is(err, caller.ErrInvalidCredential) || !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%.60q: got %v, want ErrInvalidCredential: malformed", key, err)
		}
	}
	if source.reads != 0 || source.secretReads != 0 {
		t.Errorf("reads of the secret and of records: got %d and %d, want 0", source.secretReads, source.reads)
	}
	look(t, r, source, noon, good, "k", nil, 1)
}

// A record is read once a minute, so a revocation takes effect within a minute. An unknown key is
// read again after ten seconds.
func TestRemoteRecords(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	key, unknown := source.add("s", "k"), caller.NewAPIKey()
	at := noon.Add
	look(t, r, source, at(0), key, "k", nil, 1)
	look(t, r, source, at(0), unknown, "", caller.ErrInvalidCredential, 2)
	look(t, r, source, at(10*time.Second-1), unknown, "", caller.ErrInvalidCredential, 2)
	look(t, r, source, at(10*time.Second), unknown, "", caller.ErrInvalidCredential, 3)
	source.records = map[string]caller.Record{} // revokes the key
	look(t, r, source, at(time.Minute-1), key, "k", nil, 3)
	look(t, r, source, at(-time.Minute+1), key, "k", nil, 3) // the clock of this request is behind
	look(t, r, source, at(time.Minute), key, "", caller.ErrInvalidCredential, 4)
	look(t, r, source, at(time.Minute), key, "", caller.ErrInvalidCredential, 4)
	source.records[caller.HashAPIKey([]byte("s"), unknown)] = caller.Record{ID: "new"}
	look(t, r, source, at(time.Minute), unknown, "new", nil, 5)
}

// While the table fails, known keys stay valid for an hour, and other keys cannot be verified. The
// number of reads stays small.
func TestRemoteRecords_tableFails(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	key, other := source.add("s", "k"), source.add("s", "other")
	source.down = true
	look(t, r, source, noon, key, "", caller.ErrUnverified, 0) // the secret cannot be read
	source.down = false
	look(t, r, source, noon.Add(time.Second-1), key, "", caller.ErrUnverified, 0)
	now := noon.Add(time.Second)
	look(t, r, source, now, key, "k", nil, 1)
	source.down = true
	look(t, r, source, now.Add(time.Minute), key, "k", nil, 2) // uses the secret of the last read
	look(t, r, source, now.Add(70*time.Second-1), key, "k", nil, 2)
	look(t, r, source, now.Add(70*time.Second), key, "k", nil, 3)
	// no read, because the read of another key has just failed
	look(t, r, source, now.Add(70*time.Second), other, "", caller.ErrUnverified, 3)
	look(t, r, source, now.Add(71*time.Second-1), other, "", caller.ErrUnverified, 3)
	look(t, r, source, now.Add(71*time.Second), other, "", caller.ErrUnverified, 4)
	look(t, r, source, now.Add(time.Hour-1), key, "k", nil, 5)
	look(t, r, source, now.Add(time.Hour), key, "", caller.ErrUnverified, 5) // the secret cannot be read and is too old
	source.down = false
	look(t, r, source, now.Add(time.Hour+time.Second), key, "k", nil, 6)
	look(t, r, source, now.Add(time.Hour+time.Second), other, "other", nil, 7)
}

// Before the first key exists, there is no secret and no hash.
func TestRemoteRecords_first(t *testing.T) {
	source := newTable("")
	r := caller.NewRemoteRecords(source)
	look(t, r, source, noon, caller.NewAPIKey(), "", caller.ErrInvalidCredential, 0)
	source.secret = []byte("s")
	key := source.add("s", "k")
	look(t, r, source, noon.Add(10*time.Second-1), key, "", caller.ErrInvalidCredential, 0)
	look(t, r, source, noon.Add(20*time.Second), key, "k", nil, 1)
}

// Guessed keys do not increase memory without bound, and do not evict a record.
func TestRemoteRecords_flood(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	key := source.add("s", "k")
	look(t, r, source, noon, key, "k", nil, 1)
	for i := range 10_100 {
		if _, err := r.Lookup(ctx, noon, caller.NewAPIKey()); !errors.Is(err, caller.ErrInvalidCredential) {
			t.Fatal(err)
		}
		if known, unknown := r.Remembered(); known != 1 || unknown > 10_000 {
			t.Fatalf("after %d guesses: got %d cached known keys and %d cached unknown keys, want 1 and at most 10,000", i, known, unknown)
		}
	}
	look(t, r, source, noon, key, "k", nil, 10_101)
}

// The number of cached records is bounded, and records in use stay cached.
func TestRemoteRecords_many(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	used := source.add("s", "used")
	for i := range 10_100 {
		if _, err := r.Lookup(ctx, noon, source.add("s", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Lookup(ctx, noon, used); err != nil {
			t.Fatal(err)
		}
	}
	if known, _ := r.Remembered(); known > 10_000 || source.reads != 10_101 {
		t.Errorf("got %d cached records after %d reads, want at most 10,000 after 10,101", known, source.reads)
	}
}

// More keys in turn than the cache has room for cost a read for each request. Fewer keys cost one read a minute each.
func TestRemoteRecords_manyFlood(t *testing.T) {
	for _, c := range []struct{ keys, reads int }{{10_000, 10_000}, {10_001, 20_002}} {
		source := newTable("s")
		r := caller.NewRemoteRecords(source)
		keys := make([]string, c.keys)
		for i := range keys {
			keys[i] = source.add("s", fmt.Sprint(i))
		}
		for range 2 {
			for _, key := range keys {
				if _, err := r.Lookup(ctx, noon, key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if source.reads != c.reads {
			t.Errorf("%d keys, twice each: got %d reads, want %d", c.keys, source.reads, c.reads)
		}
	}
}

// Requests for one key share a read. The read continues if the client disconnects. Requests wait a
// bounded time for a table that does not answer.
func TestRemoteRecords_sharedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newTable("s")
		r := caller.NewRemoteRecords(source)
		key := source.add("s", "k")
		source.slow = 300 * time.Millisecond
		gone, hangUp := context.WithCancel(ctx)
		hangUp()
		if _, err := r.Lookup(gone, noon, key); !errors.Is(err, caller.ErrUnverified) || !errors.Is(err, context.Canceled) {
			t.Errorf("after the client disconnected: got %v, want ErrUnverified and context.Canceled", err)
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { look(t, r, source, noon, key, "k", nil, 1) })
		}
		wg.Wait()
		if took := time.Since(begun); took != 600*time.Millisecond {
			t.Errorf("wait for the secret and the record: got %s, want 600 ms", took)
		}
		later := noon.Add(time.Minute)
		if _, err := r.Lookup(gone, later, key); err != nil {
			t.Errorf("with a cached record, after the client disconnected: got error %v, want none", err)
		}
		begun = time.Now()
		if _, err := r.Lookup(ctx, later, key); err != nil || time.Since(begun) != 0 {
			t.Errorf("with a cached record: got error %v after %s, want none after 0s", err, time.Since(begun))
		}
		time.Sleep(time.Second) // on the fake clock; the read ends during this time
		synctest.Wait()
		source.slow = time.Hour
		begun = time.Now()
		if _, err := r.Lookup(ctx, later, caller.NewAPIKey()); !errors.Is(err, caller.ErrUnverified) ||
			time.Since(begun) != 900*time.Millisecond {
			t.Errorf("got %v after %s, want ErrUnverified after 900 ms", err, time.Since(begun))
		}
	})
}

// While the table fails, there is one read a second for all keys together. A malformed record does not
// affect other keys. After one successful read, every key is read again.
func TestRemoteRecords_failingReads(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	bad, good := source.add("s", "bad"), source.add("s", "good")
	source.broken = map[string]bool{caller.HashAPIKey([]byte("s"), bad): true}
	look(t, r, source, noon, bad, "", caller.ErrUnverified, 1)
	look(t, r, source, noon, good, "good", nil, 2)
	source.down = true
	for i := range 100 {
		look(t, r, source, noon.Add(time.Minute), caller.NewAPIKey(), "", caller.ErrUnverified, 3)
		look(t, r, source, noon.Add(time.Minute+time.Duration(i)), good, "good", nil, 3)
	}
	look(t, r, source, noon.Add(61*time.Second), caller.NewAPIKey(), "", caller.ErrUnverified, 4)
	source.down = false
	look(t, r, source, noon.Add(62*time.Second), source.add("s", "new"), "new", nil, 5)
	look(t, r, source, noon.Add(62*time.Second), source.add("s", "newer"), "newer", nil, 6)
}

// Requests use the secret of the last read while another read runs or fails. All requests share one read of the secret.
func TestRemoteRecords_secret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newTable("s")
		r := caller.NewRemoteRecords(source)
		if err := r.Warm(ctx, noon); err != nil || source.secretReads != 1 {
			t.Fatalf("got %d reads, error %v, want 1 read and no error", source.secretReads, err)
		}
		old := source.add("s", "old")
		look(t, r, source, noon, old, "old", nil, 1)
		source.slowSecret = time.Hour
		now := noon.Add(time.Minute)
		lookup := func(key, id string, want time.Duration) {
			t.Helper()
			begun := time.Now()
			if record, err := r.Lookup(ctx, now, key); err != nil || record.ID != id || time.Since(begun) != want {
				t.Errorf("got %+v, %v after %s, want %q after %s", record, err, time.Since(begun), id, want)
			}
		}
		// The table in this test serves one read at a time.
		lookup(source.add("s", "a"), "a", 600*time.Millisecond)
		lookup(source.add("s", "b"), "b", 0) // the secret is still fresh, so only the record is read
		lookup(old, "old", 0)
		if source.secretReads != 2 {
			t.Errorf("secret: got %d reads, want 2", source.secretReads)
		}
	})
}

// A missing secret is a failure if an earlier read returned one.
func TestRemoteRecords_missingSecret(t *testing.T) {
	source := newTable("s")
	r := caller.NewRemoteRecords(source)
	key, other := source.add("s", "k"), source.add("s", "other")
	look(t, r, source, noon, key, "k", nil, 1)
	source.secret = nil
	look(t, r, source, noon.Add(time.Minute), key, "k", nil, 2)
	look(t, r, source, noon.Add(time.Minute), other, "other", nil, 3)
	look(t, r, source, noon.Add(2*time.Hour), key, "", caller.ErrUnverified, 3)
	look(t, r, source, noon.Add(3*time.Hour), other, "", caller.ErrUnverified, 3)
	source.secret = []byte("s")
	look(t, r, source, noon.Add(4*time.Hour), key, "k", nil, 4)
}
