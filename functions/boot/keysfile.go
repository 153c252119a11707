package boot

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

// keysFile has the API keys in API_KEYS_FILE, for a local run. A change of the file applies to the next request. It is
// safe for concurrent use.
type keysFile struct {
	path, secretPath string

	mu   sync.Mutex
	read os.FileInfo // of the file that keys were read from
	keys *caller.APIKeys
}

func (c Config) keysFile() (*keysFile, error) {
	f := &keysFile{path: c.APIKeysFile, secretPath: c.APIKeySecretFile}
	_, err := f.current()
	return f, err
}

// Lookup implements caller.KeyRecords.
func (f *keysFile) Lookup(ctx context.Context, now time.Time, key string) (caller.Record, error) {
	keys, err := f.current()
	if err != nil {
		return caller.Record{}, fmt.Errorf("%w: %w", caller.ErrUnverified, err)
	}
	return keys.Lookup(ctx, now, key)
}

// find returns the record of an id, for operators.
func (f *keysFile) find(_ context.Context, id string) (r caller.Record, ok bool, err error) {
	keys, err := f.current()
	if err != nil {
		return r, false, err
	}
	r, ok = keys.Find(id)
	return r, ok, nil
}

func (f *keysFile) current() (*caller.APIKeys, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("API_KEYS_FILE: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("API_KEYS_FILE: %w", err)
	}
	if f.read != nil && os.SameFile(info, f.read) && info.ModTime().Equal(f.read.ModTime()) && info.Size() == f.read.Size() {
		return f.keys, nil
	}
	list, err := io.ReadAll(file)
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
	f.keys, f.read = keys, info
	return keys, nil
}
