//go:build unix

package checkout

import (
	"io"
	"os"
	"syscall"
)

// owner returns the user who owns a file, and whether others can write to it. The group of this process does not count
// as others, because it is often the user's own.
func owner(path string) (user int, writable bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, true, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, true, nil
	}
	mode := info.Mode().Perm()
	return int(s.Uid), mode&0o002 != 0 || mode&0o020 != 0 && int(s.Gid) != os.Getgid(), nil
}

// lock waits until no other process has locked a folder, and locks it until the Closer is closed.
func lock(folder string) (io.Closer, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	return f, syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}
