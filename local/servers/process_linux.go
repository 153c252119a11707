package servers

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server if this process dies without stopping it. It also gives
// the server a separate process group, so that Ctrl-C does not reach the server. The server must end last,
// because the other processes use it until they end.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGTERM) }
