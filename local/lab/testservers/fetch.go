package testservers

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// fetchOnce calls fetch unless the files at stamp and pinned are equal. The file at pinned pins
// the versions to fetch. After the fetch, fetchOnce copies pinned to stamp. The file at lock
// ensures that only one process fetches at a time.
func fetchOnce(ctx context.Context, pinned, stamp, lock string, fetch func() error) error {
	want, err := os.ReadFile(pinned)
	if err != nil {
		return fmt.Errorf("run this inside a checkout of Weir: %w", err)
	}
	fetched := func() bool {
		got, err := os.ReadFile(stamp)
		return err == nil && bytes.Equal(got, want)
	}
	if fetched() {
		return nil
	}
	unlock, err := lockFile(ctx, lock)
	if err != nil {
		return err
	}
	defer unlock()
	if fetched() { // another process has fetched the files during the wait for the lock
		return nil
	}
	if err := fetch(); err != nil {
		return err
	}
	return os.WriteFile(stamp, want, 0o600)
}
