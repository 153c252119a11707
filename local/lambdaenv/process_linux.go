package lambdaenv

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the process, frozen or not, if this one dies without
// having ended it. A group of its own keeps Ctrl-C from it.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze stops the process, and thaw lets it go on. One that has ended is not there to
// get the signal.
func freeze(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGSTOP) }

func thaw(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGCONT) }
