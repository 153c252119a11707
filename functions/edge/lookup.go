package edge

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Refusal is an entry that acts.
type Refusal struct {
	Until   time.Time
	Limit   string // name
	Version int64  // of the rules
	// Credentials lets requests with a credential pass (Config.Credentials).
	Credentials bool
}

// LookupAddress returns the entry that refuses an address at the time now. ok is false if there is none.
func LookupAddress(ctx context.Context, s Store, now time.Time, addr netip.Addr) (r Refusal, ok bool, err error) {
	return lookup(ctx, s, now, func(c Config) (values []string, err error) {
		value, err := s.Get(ctx, c.Key(c.Address(addr)))
		return []string{value}, err
	})
}

// LookupOwner returns the entry that refuses an API key of an id for the longest time. Like RemoveOwner, it reads the whole
// list.
func LookupOwner(ctx context.Context, s Store, now time.Time, id string) (r Refusal, ok bool, err error) {
	return lookup(ctx, s, now, func(c Config) (values []string, err error) {
		for token := ""; ; {
			page, next, err := s.Page(ctx, token)
			for _, value := range page {
				if strings.HasSuffix(value, " "+c.Owner(id)) {
					values = append(values, value)
				}
			}
			if token = next; err != nil || next == "" {
				return values, err
			}
		}
	})
}

// lookup returns the entry with the longest wait among the values that find returns.
func lookup(ctx context.Context, s Store, now time.Time, find func(Config) ([]string, error)) (longest Refusal, ok bool, err error) {
	c, listed, err := inForce(ctx, s)
	var values []string
	if listed && err == nil {
		values, err = find(c)
	}
	if err != nil {
		return longest, false, fmt.Errorf("edge: %w", err)
	}
	for _, value := range values {
		if r, acts := parseRefusal(value, c); acts && r.Until.After(now) && (!ok || r.Until.After(longest.Until)) {
			longest, ok = r, true
		}
	}
	return longest, ok, nil
}

// parseRefusal reads the value of an entry. ok is false for values that do not act under c.
func parseRefusal(value string, c Config) (r Refusal, ok bool) {
	fields := strings.Fields(value)
	const name = 5 // see Entry.Value
	if len(fields) <= name {
		return r, false
	}
	until, ok := UntilOf(value)
	version, err := strconv.ParseInt(fields[1], base, 64)
	return Refusal{until, fields[name], version, c.Credentials}, ok && err == nil && version == c.Version
}
