//go:build unix

package testservers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A lock has one owner at a time. A second caller stops waiting when its context ends.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "venv.lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, err := lockFile(gone, path); !errors.Is(err, context.Canceled) {
		t.Errorf("second owner: got error %v, want context.Canceled", err)
	}
	owned := make(chan error)
	go func() {
		unlock, err := lockFile(t.Context(), path)
		if err == nil {
			unlock()
		}
		owned <- err
	}()
	unlock()
	if err := <-owned; err != nil {
		t.Error(err)
	}
}

// fetchTools returns installed tools of the right version without a download and without a lock.
// Outside a checkout it returns an error.
func TestFetchOnce(t *testing.T) {
	root := t.TempDir()
	if _, _, err := fetchTools(t.Context(), root, os.Stderr); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no checkout: got error %v, want os.ErrNotExist", err)
	}
	for path, content := range map[string]string{toolsPins: "tool==1", filepath.Join(toolsDir, "requirements.txt"): "tool==1"} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if programs, _, err := fetchTools(t.Context(), root, os.Stderr); err != nil || programs != filepath.Join(root, toolsDir, "bin") {
		t.Errorf("tools: got %s, error %v, want %s below the root", programs, err, filepath.Join(toolsDir, "bin"))
	}
}
