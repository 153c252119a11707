package testservers

import "syscall"

// detach unmounts path if it is a mount point.
func detach(path string) { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
