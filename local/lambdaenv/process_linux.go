package lambdaenv

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the process when its parent dies, even if the process is
// frozen. It also gives the process a separate process group, so that Ctrl-C does not reach it.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze stops the process and thaw continues it. Neither has an effect after the process ended.
func freeze(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGSTOP) }

func thaw(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGCONT) }
