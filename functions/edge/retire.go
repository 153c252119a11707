package edge

import (
	"context"
	"encoding/json"
	"fmt"
)

// everything is an element of Config.Pass that every path matches.
const everything = "/*"

// Retire ends the entries of rules before version, also if no request reaches a function. Every request then passes until
// a function writes an entry of these rules, and the rest of their Config with it. Retire does nothing if no entry was ever
// written, or if the list is under rules with this version or a higher one. It acts at all locations after some seconds.
func Retire(ctx context.Context, s Store, version int64) error {
	return repeat(ctx, func() error {
		tag, _, err := s.State(ctx)
		if err != nil {
			return err
		}
		c, ok, err := inForce(ctx, s)
		if err != nil || !ok || c.Version >= version {
			return err
		}
		c.Version, c.Pass, c.Origins = version, []string{everything}, nil
		value, _ := c.Value() // without the endpoints and the origins of the rules, it fits
		return s.Update(ctx, tag, map[string]string{ConfigKey: value})
	})
}

// inForce returns the Config in a list. ok is false if there is none.
func inForce(ctx context.Context, s Store) (c Config, ok bool, err error) {
	text, err := s.Get(ctx, ConfigKey)
	if text == "" || err != nil {
		return c, false, err
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, false, fmt.Errorf("%s: %w", ConfigKey, err)
	}
	return c, true, nil
}
