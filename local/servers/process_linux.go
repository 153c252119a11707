package servers

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server if this process dies before it stops the
// server. Its own process group shields it from Ctrl-C, because it is stopped last.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGTERM) }

// detach unmounts path, if it is a mount.
func detach(path string) { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
