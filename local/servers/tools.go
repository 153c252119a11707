package servers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// toolsLock pins the Python tools, below the root of the checkout, and toolsDir is the
// virtual environment that is made of it.
const (
	toolsLock = "infra/tools/requirements.txt"
	toolsDir  = ".bin/venv"
)

// FetchTools returns the folder with the programs sam and cfn-lint, in the versions that
// the checkout at root pins. It fetches them where that was not done yet.
func FetchTools(ctx context.Context, root string, progress io.Writer) (string, error) {
	lock, err := os.ReadFile(filepath.Join(root, toolsLock))
	if err != nil {
		return "", fmt.Errorf("tools: run this inside a checkout of Weir: %w", err)
	}
	venv := filepath.Join(root, toolsDir)
	programs, made := filepath.Join(venv, "bin"), filepath.Join(venv, "requirements.txt")
	if of, err := os.ReadFile(made); err == nil && bytes.Equal(of, lock) {
		return programs, nil
	}
	unlock, err := lockFile(ctx, venv+".lock") // two who make it would clear each other's
	if err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	defer unlock()
	if of, err := os.ReadFile(made); err == nil && bytes.Equal(of, lock) { // by who had the lock before
		return programs, nil
	}
	if !hasPython(ctx) {
		return "", fmt.Errorf("python3, 3.10 or newer and with venv, %w on the PATH: the SAM CLI and cfn-lint need it (Debian: apt-get install python3-venv; macOS: brew install python)", errMissing)
	}
	fmt.Fprintln(progress, "fetching the SAM CLI and cfn-lint, once ...")
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		// The lock file lists everything, and wheels run nothing when they are installed.
		{filepath.Join(programs, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary=:all:", "-r", filepath.Join(root, toolsLock)},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("tools: %s: %w: %s", args[2], err, out)
		}
	}
	return programs, os.WriteFile(made, lock, 0o600)
}

// hasPython reports whether there is a Python that can make the environment of the tools.
func hasPython(ctx context.Context) bool {
	return exec.CommandContext(ctx, "python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))").Run() == nil
}
