package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// RemoveAddress removes the entry of an address, and returns the number of removed entries. Use it after a reset of the
// address. The removal acts at all locations after some seconds.
func RemoveAddress(ctx context.Context, s Store, now time.Time, addr netip.Addr) (removed int, err error) {
	return remove(ctx, s, now, func(c Config) (mark string, keys []string, err error) {
		key := c.Key(c.Address(addr))
		value, err := s.Get(ctx, key)
		if value == "" || err != nil {
			return markOf(key), nil, err
		}
		return markOf(key), []string{key}, nil
	})
}

// RemoveOwner removes the entries of all API keys of an id, and returns the number of removed entries. It reads the whole
// list, because only the keys themselves lead to their entries.
func RemoveOwner(ctx context.Context, s Store, now time.Time, id string) (removed int, err error) {
	return remove(ctx, s, now, func(c Config) (mark string, keys []string, err error) {
		owner := c.Owner(id)
		all, err := s.All(ctx)
		for key, value := range all {
			if strings.HasSuffix(value, " "+owner) {
				keys = append(keys, key)
			}
		}
		return owner, keys, err
	})
}

// remove removes the entries that find returns, and records the removal under their mark.
func remove(ctx context.Context, s Store, now time.Time, find func(Config) (mark string, keys []string, err error)) (removed int, err error) {
	err = repeat(func() error {
		removed = 0
		tag, _, err := s.State(ctx)
		if err != nil {
			return err
		}
		text, err := s.Get(ctx, ConfigKey)
		if text == "" || err != nil { // no entry was ever written
			return err
		}
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("%s: %w", ConfigKey, err)
		}
		mark, keys, err := find(c)
		if err != nil {
			return err
		}
		before, err := s.Get(ctx, removalsKey)
		if err != nil {
			return err
		}
		values := map[string]string{removalsKey: parseRemovals(before).with(mark, now).value()}
		for _, key := range keys {
			values[key] = ""
		}
		removed = len(keys)
		return update(ctx, s, tag, values)
	})
	return removed, err
}

// removalsKey is the key of the last removals. A line of the log can arrive after the removal of its caller's entries, and
// must not add the entry again.
const removalsKey = "removals"

const (
	// maxRemovals is the number of removals that fit a value.
	maxRemovals = 50
	// keptRemovals is the largest age of a line that can still arrive, as receipts.MaxLife.
	keptRemovals = 30 * time.Minute
	// afterwards is the time for which a function may still refuse from memory after a reset.
	afterwards = 2 * time.Second
)

type removal struct {
	mark string // of an address, the beginning of its key; else the owner
	at   time.Time
}

type removals []removal

func markOf(key string) string { return key[:ownerLength] }

func parseRemovals(text string) (list removals) {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		if seconds, err := strconv.ParseInt(fields[i+1], base, 64); err == nil {
			list = append(list, removal{fields[i], time.Unix(seconds, 0)})
		}
	}
	return list
}

// with adds a removal. It drops earlier removals of the same mark, old removals, and the oldest if there are too many.
func (l removals) with(mark string, now time.Time) (list removals) {
	for _, r := range l {
		if r.mark != mark && now.Sub(r.at) < keptRemovals {
			list = append(list, r)
		}
	}
	list = append(list, removal{mark, now.Add(time.Second)}) // the value has whole seconds
	return list[max(0, len(list)-maxRemovals):]
}

func (l removals) value() string {
	var fields []string
	for _, r := range l {
		fields = append(fields, r.mark, strconv.FormatInt(r.at.Unix(), base))
	}
	return strings.Join(fields, " ")
}

// cover reports whether an entry's caller was refused before the last removal of its entries.
func (l removals) cover(key string, e Entry) bool {
	mark := e.Owner
	if mark == "" {
		mark = markOf(key)
	}
	for _, r := range l {
		if r.mark == mark && e.Refused.Before(r.at.Add(afterwards)) {
			return true
		}
	}
	return false
}
