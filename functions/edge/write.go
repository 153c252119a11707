package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Store is the KeyValueStore of a list.
type Store interface {
	// State returns the tag that an Update needs, and the size of all keys and values in bytes.
	State(ctx context.Context) (tag string, size int, err error)
	// Get returns "" for a key without a value.
	Get(ctx context.Context, key string) (string, error)
	// Page returns at most MaxPage values by their keys, and the token of the next page. The first page has the token "",
	// and so has the page after the last one.
	Page(ctx context.Context, token string) (values map[string]string, next string, err error)
	// Update changes at most MaxChanges keys, all or none. An empty value deletes its key. If the store has changed since
	// the State with this tag, the error wraps ErrConflict.
	Update(ctx context.Context, tag string, values map[string]string) error
}

// ErrConflict means that another process has changed the list.
var ErrConflict = errors.New("the list has changed")

const (
	// fullAt is the size at which a list is full.
	fullAt = MaxList * 9 / 10
	// maxPages is the number of pages that a write to a full list reads.
	maxPages = 20
)

// The waits before the attempts after a conflict are random, so that writers do not meet again: at most firstWait, and
// twice as long each time, up to maxWait.
const (
	attempts  = 10
	firstWait = 100 * time.Millisecond
	maxWait   = 800 * time.Millisecond
)

// Writer adds entries to a list. It is safe for concurrent use.
type Writer struct {
	store Store

	mu   sync.Mutex
	next string // token of the page that it sweeps next
}

// NewWriter returns a Writer for a list.
func NewWriter(s Store) *Writer { return &Writer{store: s} }

// Write adds entries, by their keys, to a list, and sets its configuration c. Entries of older rules then no longer act. Write
// does nothing if the list is under newer rules. If c does not fit, it adds no entry. It adds no entry of a caller who was
// refused before the last removal of its entries.
//
// It also reads the page after that of the last Write, and removes the entries whose wait is over. In a full list, it reads
// up to 20 pages, and also removes entries with shorter waits than the new ones. It drops the entries for which there is
// still no room.
//
// It works in rounds: one for up to 49 entries, and up to 21 more for the pages. A round makes at most five calls, and
// changes at most MaxChanges keys. A conflict repeats only this round, without entries that others have added meanwhile:
// each environment of a flooded function can list the same caller. A failure does not undo earlier rounds.
func (w *Writer) Write(ctx context.Context, now time.Time, c Config, entries map[string]Entry) error {
	config, ok := c.Value()
	if !ok {
		c.Pass, c.Origins, entries = nil, nil, nil
		if config, ok = c.Value(); !ok {
			return nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := func(a, b string) int {
		return cmp.Or(entries[b].Until.Compare(entries[a].Until), cmp.Compare(a, b))
	}
	to := &writing{Writer: w, now: now, version: c.Version, config: config, entries: entries, left: slices.SortedFunc(maps.Keys(entries), longest)}
	for len(to.left) > 0 || !to.swept {
		if err := repeat(ctx, func() error { return to.round(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

type writing struct {
	*Writer
	now     time.Time
	version int64
	config  string
	entries map[string]Entry
	left    []string // keys of the entries to add, in the order of Write
	pages   int      // that it has read
	swept   bool     // it has removed what is over from a page
	met     bool     // the last round met another writer
}

// round changes keys under one tag, after which it has read the configuration and the removals.
func (w *writing) round(ctx context.Context) error {
	if w.met && len(w.left) > 0 {
		if err := w.omitListed(ctx); err != nil || len(w.left) == 0 {
			return err
		}
	}
	tag, size, err := w.store.State(ctx)
	if err != nil {
		return err
	}
	c := change{values: map[string]string{}, room: fullAt - size}
	if newer, err := w.configure(ctx, &c); newer || err != nil {
		w.left, w.swept = nil, true
		return err
	}
	left, err := w.allowed(ctx)
	if err != nil {
		return err
	}
	next, swept := w.next, w.swept
	if w.needsPage(&c, left) {
		w.pages++
		if next, err = c.read(ctx, w); err != nil {
			w.next = "" // the token may no longer be valid
			return err
		}
	}
	for len(left) > 0 && c.add(left[0], w.entries[left[0]]) {
		left = left[1:]
	}
	if c.evict(w.now.Add(1), math.MaxInt); c.page != nil {
		if swept = !c.over(w.now.Add(1)); !swept {
			next = w.next
		}
	}
	if full := len(c.values) < MaxChanges; full && w.pages >= maxPages {
		left = nil
	}
	if len(c.values) > 0 {
		if err := w.store.Update(ctx, tag, c.values); err != nil {
			w.met = errors.Is(err, ErrConflict)
			return err
		}
	}
	w.next, w.left, w.swept, w.met = next, left, swept, false
	return nil
}

// omitListed omits the entries that another writer has added. If none is left, that writer has also swept.
func (w *writing) omitListed(ctx context.Context) error {
	var left []string
	for _, key := range w.left {
		value, err := w.store.Get(ctx, key)
		if err != nil {
			return err
		}
		if !w.entries[key].in(value) {
			left = append(left, key)
		}
	}
	w.left, w.swept = left, w.swept || len(left) == 0
	return nil
}

// configure adds the configuration to a change, if it differs from that of the list. newer reports that the list is under
// newer rules.
func (w *writing) configure(ctx context.Context, c *change) (newer bool, err error) {
	before, err := w.store.Get(ctx, ConfigKey)
	if before == w.config || err != nil {
		return false, err
	}
	var inForce Config
	if json.Unmarshal([]byte(before), &inForce) == nil && inForce.Version > w.version {
		return true, nil
	}
	c.set(ConfigKey, w.config)
	return false, nil
}

// needsPage reports whether a round reads a page: to sweep it, once not all changes are for new entries, or to make room.
func (w *writing) needsPage(c *change, left []string) bool {
	if !w.swept && len(left)+len(c.values) < MaxChanges {
		return true
	}
	size := 0
	for _, key := range left[:min(len(left), MaxChanges)] {
		size += len(key) + len(w.entries[key].Value())
	}
	return w.pages < maxPages && c.room < size
}

// allowed returns the keys of the entries to add that can still act.
func (w *writing) allowed(ctx context.Context) (keys []string, err error) {
	text, err := w.store.Get(ctx, removalsKey)
	if err != nil {
		return nil, err
	}
	removed := parseRemovals(text)
	for _, key := range w.left {
		if e := w.entries[key]; e.Until.After(w.now) && !removed.cover(key, e) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// change is what a round changes.
type change struct {
	values  map[string]string // an empty value deletes its key
	room    int               // bytes until the list is full
	page    map[string]string
	victims []string // keys of the page, those of the shortest waits first
}

// read reads the next page.
func (c *change) read(ctx context.Context, w *writing) (next string, err error) {
	if c.page, next, err = w.store.Page(ctx, w.next); err != nil {
		return "", err
	}
	for key := range c.page {
		if _, added := w.entries[key]; !added && key != ConfigKey && key != removalsKey {
			c.victims = append(c.victims, key)
		}
	}
	slices.SortFunc(c.victims, func(a, b string) int { return cmp.Or(c.until(a).Compare(c.until(b)), cmp.Compare(a, b)) })
	return next, nil
}

// until returns the end of a wait in the page; a time long ago for a malformed value.
func (c *change) until(key string) time.Time {
	until, _ := UntilOf(c.page[key])
	return until
}

func (c *change) set(key, value string) {
	c.values[key] = value
	c.room -= len(key) + len(value)
}

// over reports whether the page has an entry, not deleted yet, whose wait ends before an instant.
func (c *change) over(before time.Time) bool {
	return len(c.victims) > 0 && c.until(c.victims[0]).Before(before)
}

// evict deletes entries of the page whose wait ends before an instant, until the list has room.
func (c *change) evict(before time.Time, room int) {
	for c.room < room && len(c.values) < MaxChanges && c.over(before) {
		key := c.victims[0]
		c.values[key], c.victims = "", c.victims[1:]
		c.room += len(key) + len(c.page[key])
	}
}

// add reports whether there is room for an entry. It deletes entries with shorter waits for it.
func (c *change) add(key string, e Entry) bool {
	value := e.Value()
	size := len(key) + len(value)
	c.evict(e.Until, size)
	if c.room < size || len(c.values) == MaxChanges {
		return false
	}
	c.set(key, value)
	return true
}

// repeat repeats a change of the list after conflicts.
func repeat(ctx context.Context, change func() error) error {
	err := change()
	for wait, i := firstWait, 1; i < attempts && errors.Is(err, ErrConflict); wait, i = min(2*wait, maxWait), i+1 {
		select {
		case <-time.After(rand.N(wait)):
			err = change()
		case <-ctx.Done():
			return fmt.Errorf("edge: %w: %w", err, ctx.Err())
		}
	}
	if err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	return nil
}
