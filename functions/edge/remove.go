package edge

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// RemoveAddress removes the entry of an address, and returns the number of removed entries. Use it after a reset of the
// address. The removal acts at all locations after some seconds.
func RemoveAddress(ctx context.Context, s Store, now time.Time, addr netip.Addr) (removed int, err error) {
	c, err := recordRemoval(ctx, s, now, func(c Config) string { return markOf(c.Key(c.Address(addr))) })
	if c == nil || err != nil {
		return 0, err
	}
	key := c.Key(c.Address(addr))
	return remove(ctx, s, func() (keys []string, err error) {
		value, err := s.Get(ctx, key)
		if value != "" {
			keys = []string{key}
		}
		return keys, err
	})
}

// RemoveOwner removes the entries of all API keys of an id, and returns the number of removed entries. It reads the whole
// list, because only the keys themselves lead to their entries. After a failure, use it again.
func RemoveOwner(ctx context.Context, s Store, now time.Time, id string) (removed int, err error) {
	c, err := recordRemoval(ctx, s, now, func(c Config) string { return c.Owner(id) })
	if c == nil || err != nil {
		return 0, err
	}
	for token, next := "", ""; ; token = next {
		n, err := remove(ctx, s, func() (keys []string, err error) {
			var page map[string]string
			page, next, err = s.Page(ctx, token)
			for key, value := range page {
				if strings.HasSuffix(value, " "+c.Owner(id)) {
					keys = append(keys, key)
				}
			}
			return keys, err
		})
		if removed += n; err != nil || next == "" {
			return removed, err
		}
	}
}

// recordRemoval records the removal of the entries with a mark. From then on, no line of an earlier refusal adds one. The
// result is nil if no entry was ever written.
func recordRemoval(ctx context.Context, s Store, now time.Time, markOf func(Config) string) (c *Config, err error) {
	err = repeat(ctx, func() error {
		tag, _, err := s.State(ctx)
		if err != nil {
			return err
		}
		config, ok, err := inForce(ctx, s)
		if err != nil || !ok {
			return err
		}
		c = &config
		before, err := s.Get(ctx, removalsKey)
		if err != nil {
			return err
		}
		return s.Update(ctx, tag, map[string]string{removalsKey: parseRemovals(before).with(markOf(*c), now).value()})
	})
	return c, err
}

// remove removes the entries that find returns, at most MaxChanges.
func remove(ctx context.Context, s Store, find func() (keys []string, err error)) (removed int, err error) {
	err = repeat(ctx, func() error {
		tag, _, err := s.State(ctx)
		if err != nil {
			return err
		}
		keys, err := find()
		if removed = len(keys); removed == 0 || err != nil {
			return err
		}
		values := map[string]string{}
		for _, key := range keys {
			values[key] = ""
		}
		return s.Update(ctx, tag, values)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// removalsKey is the key of the last removals. A line of the log can arrive after the removal of its caller's entries, and
// must not add the entry again.
const removalsKey = "removals"

const (
	// maxRemovals is the number of removals that fit a value.
	maxRemovals = 50
	// everybody is the mark of all callers. No hash has this mark.
	everybody = "*"
	// keptRemovals is the largest age of a line that can still arrive, as receipts.MaxLife.
	keptRemovals = 30 * time.Minute
	// afterReset is the time for which a function may still refuse from memory after a reset.
	afterReset = 2 * time.Second
	// afterKeys is the same after a change of an API key: functions read its record again after a minute
	// (caller.RemoteRecords). While they cannot read it, they use the old one for up to an hour.
	afterKeys = 75 * time.Second
)

type removal struct {
	mark string // of an address, the beginning of its key; of an API key, its owner; or everybody
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

// with adds a removal. It drops earlier removals of the same mark, and old ones. If there are too many, the two oldest
// become one removal of everybody: no caller is refused although its count was reset, and some lines add no entry.
func (l removals) with(mark string, now time.Time) (list removals) {
	for _, r := range l {
		if r.mark != mark && now.Sub(r.at) < keptRemovals {
			list = append(list, r)
		}
	}
	list = append(list, removal{mark, now.Add(time.Second)}) // the value has whole seconds
	if len(list) > maxRemovals {
		if first := list[0].at; first.After(list[1].at) { // the clock of another process is ahead
			list[1].at = first
		}
		list[1].mark, list = everybody, list[1:]
	}
	return list
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
	mark, afterwards := e.Owner, afterKeys
	if mark == "" {
		mark, afterwards = markOf(key), afterReset
	}
	for _, r := range l {
		if (r.mark == mark || r.mark == everybody) && e.Refused.Before(r.at.Add(afterwards)) {
			return true
		}
	}
	return false
}
