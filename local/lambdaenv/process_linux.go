package lambdaenv

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the process, frozen or not, when its parent dies. Its
// own process group shields it from Ctrl-C.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze stops the process and thaw continues it. Neither has an effect after its end.
func freeze(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGSTOP) }

func thaw(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGCONT) }
