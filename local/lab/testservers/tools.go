package testservers

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/weir-limits/weir/local/servers"
)

// toolsLock pins the Python tools. toolsDir is the virtual environment that contains them.
// Both paths are relative to the root of the checkout.
const (
	toolsLock = "infra/tools/requirements.txt"
	toolsDir  = ".bin/venv"
)

// FetchTools returns the folder with the programs sam and cfn-lint, in the versions that the
// checkout at root pins. It fetches them once.
func FetchTools(ctx context.Context, root string, progress io.Writer) (string, error) {
	lock, venv := filepath.Join(root, toolsLock), filepath.Join(root, toolsDir)
	programs := filepath.Join(venv, "bin")
	err := fetchOnce(ctx, lock, filepath.Join(venv, "requirements.txt"), venv+".lock", func() error {
		if !hasPython(ctx) {
			return fmt.Errorf("python3 (3.10 or newer, with venv) %w on the PATH; the SAM CLI and cfn-lint need it (Debian: apt-get install "+
				"python3-venv; macOS: brew install python)", servers.ErrMissing)
		}
		fmt.Fprintln(progress, "fetching the SAM CLI, cfn-lint and the CDK for Python, once ...")
		for _, args := range [][]string{
			{"python3", "-m", "venv", "--clear", venv},
			// --no-deps, because the lock file already lists all packages. --only-binary, because the
			// installation of a wheel runs no code of the package. --no-compile, because Python compiles a module when a
			// program imports it.
			{filepath.Join(programs, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
				"--only-binary=:all:", "--no-compile", "-r", lock},
		} {
			if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", args[2], err, out)
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	return programs, nil
}

// hasPython reports whether this machine has a Python that can create the virtual environment.
func hasPython(ctx context.Context) bool {
	return exec.CommandContext(ctx, "python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))").Run() == nil
}
