package servers

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server if this process dies without having
// stopped it. A group of its own keeps Ctrl-C from it: it is stopped last.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGTERM) }

// detach ends a mount at path, if there is one.
func detach(path string) { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
