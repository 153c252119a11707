package boot

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

// keysFile has the API keys in API_KEYS_FILE, for a local run. It reads the file for each key, so a change applies to the
// next request.
type keysFile struct{ path, secretPath string }

// Lookup implements caller.KeyRecords.
func (f keysFile) Lookup(ctx context.Context, now time.Time, key string) (caller.Record, error) {
	keys, err := f.read()
	if err != nil {
		return caller.Record{}, fmt.Errorf("%w: %w", caller.ErrUnverified, err)
	}
	return keys.Lookup(ctx, now, key)
}

// find returns the record of an id, for operators.
func (f keysFile) find(_ context.Context, id string) (r caller.Record, ok bool, err error) {
	keys, err := f.read()
	if err != nil {
		return r, false, err
	}
	r, ok = keys.Find(id)
	return r, ok, nil
}

func (f keysFile) read() (*caller.APIKeys, error) {
	list, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("API_KEYS_FILE: %w", err)
	}
	secret, err := os.ReadFile(f.secretPath)
	if err != nil {
		return nil, fmt.Errorf("API_KEY_SECRET_FILE: %w", err)
	}
	keys, err := caller.ParseAPIKeys(list, secret)
	if err != nil {
		return nil, fmt.Errorf("API_KEYS_FILE %s, API_KEY_SECRET_FILE %s: %w", f.path, f.secretPath, err)
	}
	return keys, nil
}
