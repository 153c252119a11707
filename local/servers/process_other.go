//go:build !linux

package servers

import (
	"os"
	"os/exec"
)

func endWithParent(*exec.Cmd) {}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(os.Interrupt) }
