package testservers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weir-limits/weir/local/servers"
)

// Install installs the packages that a server or the tools need, if it runs as root on Debian. On other
// systems, or without root, Install does nothing, and the start of the server returns an error that
// names the missing packages.
func Install(ctx context.Context, name string, progress io.Writer) error {
	if !onPath("apt-get") || os.Geteuid() != 0 {
		return nil
	}
	var packages []string
	switch {
	case name == "browser" && !hasBrowser():
		packages = []string{"chromium"}
	case name == "redis" && !onPath("redis-server"):
		packages = []string{"redis-server"}
	case name == "kafka" && !onPath("mvn"):
		packages = []string{"maven"} // depends on Java
	case name == "clients" && (!onPath("cmake") || !onPath("g++")):
		packages = []string{"cmake", "g++", "make", "python3"}
	case name == "njs" && !onPath("njs"):
		packages = []string{"njs"}
	case name == "docker" && !onPath("dockerd"):
		packages = []string{"docker.io"}
	case name == "tools" && !hasPython(ctx):
		packages = []string{"python3", "python3-venv"}
	default:
		return nil
	}
	unlock, err := lockFile(ctx, filepath.Join(os.TempDir(), "weir-install.lock")) // apt-get does not wait for another apt-get
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(progress, "installing %s ...\n", packages[0])
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// NJS returns the path of njs, whose engine CloudFront's functions have.
func NJS() (string, error) {
	path, err := exec.LookPath("njs")
	if err != nil {
		return "", fmt.Errorf("njs %w on the PATH (Debian: apt-get install njs)", servers.ErrMissing)
	}
	return path, nil
}

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
