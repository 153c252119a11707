package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Store is the KeyValueStore of a list.
type Store interface {
	// State returns the tag that an Update needs, and the size of all keys and values in bytes.
	State(ctx context.Context) (tag string, size int, err error)
	// Get returns "" for a key without a value.
	Get(ctx context.Context, key string) (string, error)
	// All returns all values by their keys.
	All(ctx context.Context) (map[string]string, error)
	// Update changes at most MaxChanges keys, all or none. An empty value deletes its key. If the store has changed since
	// the State with this tag, the error wraps ErrConflict.
	Update(ctx context.Context, tag string, values map[string]string) error
}

// ErrConflict means that another process has changed the list.
var ErrConflict = errors.New("the list has changed")

const (
	// fullAt is the size at which a writer removes entries.
	fullAt = MaxList * 9 / 10
	// afterSweep is the size that it keeps then.
	afterSweep = MaxList * 8 / 10
	attempts   = 5
)

// Write adds entries, by their keys, to a list under c. Entries of older rules no longer act then. It does nothing if the
// list is under newer rules. If c does not fit, it adds no entry. In a full list, it keeps the entries with the longest
// waits. It adds no entry of a caller who was refused before the last removal of its entries.
func Write(ctx context.Context, s Store, now time.Time, c Config, entries map[string]Entry) error {
	config, ok := c.Value()
	if !ok {
		c.Pass, c.Origins, entries = nil, nil, nil
		if config, ok = c.Value(); !ok {
			return nil
		}
	}
	return repeat(func() error {
		tag, size, err := s.State(ctx)
		if err != nil {
			return err
		}
		values, err := additions(ctx, s, now, entries)
		if err != nil {
			return err
		}
		before, err := s.Get(ctx, ConfigKey)
		if err != nil {
			return err
		}
		if before != config {
			var inForce Config
			if json.Unmarshal([]byte(before), &inForce) == nil && inForce.Version > c.Version {
				return nil
			}
			values[ConfigKey] = config
		}
		if size+sizeOf(values) > fullAt {
			if values, err = swept(ctx, s, now, values); err != nil {
				return err
			}
		}
		return update(ctx, s, tag, values)
	})
}

// additions returns the values of the entries that can still act.
func additions(ctx context.Context, s Store, now time.Time, entries map[string]Entry) (map[string]string, error) {
	text, err := s.Get(ctx, removalsKey)
	if err != nil {
		return nil, err
	}
	removed := parseRemovals(text)
	values := map[string]string{}
	for key, e := range entries {
		if e.Until.After(now) && !removed.cover(key, e) {
			values[key] = e.Value()
		}
	}
	return values, nil
}

// repeat repeats a change of the list after conflicts.
func repeat(change func() error) (err error) {
	for range attempts {
		if err = change(); !errors.Is(err, ErrConflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	return nil
}

// update changes values under the tag of a State.
func update(ctx context.Context, s Store, tag string, values map[string]string) error {
	for changes := range slices.Chunk(slices.Sorted(maps.Keys(values)), MaxChanges) {
		some := map[string]string{}
		for _, key := range changes {
			some[key] = values[key]
		}
		if err := s.Update(ctx, tag, some); err != nil {
			return err
		}
		if len(some) == len(values) {
			return nil
		}
		var err error
		if tag, _, err = s.State(ctx); err != nil {
			return err
		}
	}
	return nil
}

// swept adds to values the deletions that make room for them: entries whose wait is over, then those with the shortest
// waits. It drops values with shorter waits than those of the list.
func swept(ctx context.Context, s Store, now time.Time, values map[string]string) (map[string]string, error) {
	all, err := s.All(ctx)
	if err != nil {
		return nil, err
	}
	after := maps.Clone(all)
	maps.Copy(after, values)
	size := sizeOf(after)
	until := func(key string) time.Time {
		if key == ConfigKey || key == removalsKey {
			return now.AddDate(100, 0, 0)
		}
		at, _ := UntilOf(after[key])
		return at
	}
	keys := slices.SortedFunc(maps.Keys(after), func(a, b string) int { return cmp.Or(until(a).Compare(until(b)), cmp.Compare(a, b)) })
	result := maps.Clone(values)
	for _, key := range keys {
		if size <= afterSweep && until(key).After(now) {
			break
		}
		size -= len(key) + len(after[key])
		delete(result, key)
		if _, listed := all[key]; listed {
			result[key] = ""
		}
	}
	return result, nil
}

func sizeOf(values map[string]string) (size int) {
	for key, value := range values {
		size += len(key) + len(value)
	}
	return size
}
