//go:build unix

package testservers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pollInterval is the time between two attempts to lock a file.
const pollInterval = 20 * time.Millisecond

// lockFile creates the file at path and locks it. The lock ends with unlock, or with the
// process. lockFile waits while another process has the lock.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(pollInterval):
		}
	}
}
