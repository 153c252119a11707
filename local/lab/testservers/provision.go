package testservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/servers"
)

// Provision is a server or a tool that tests need.
type Provision struct {
	// Variable is the environment variable with its address or path.
	Variable string

	packages string                      // of Debian
	missing  func(context.Context) error // nil if the packages are installed
	provide  func(ctx context.Context, root string, progress io.Writer) (value string, server *servers.Server, err error)
}

// Provisions has all servers and tools by name.
var Provisions = map[string]Provision{
	"browser":  {"WEIR_BROWSER", "chromium", missingBrowser, path(browsers...)},
	"clients":  {"WEIR_CLIENTS", "cmake g++ make npm python3", missing("cmake", "g++", "make", "npm", "python3"), fetchClients},
	"docker":   {"DOCKER_HOST", "docker.io", missingDocker, provideDocker},
	"dynamodb": {servers.Variables["dynamodb"], "openjdk-17-jre-headless npm", missing("java", "npm"), started(servers.StartDynamoDB)},
	"kafka":    {"KAFKA_BROKERS", "maven", missing("mvn", "java"), started(startKafka)},
	"njs":      {"WEIR_NJS", "njs", missing("njs"), path("njs")},
	"redis": {servers.Variables["redis"], "redis-server", missing("redis-server"), started(func(ctx context.Context, _ string,
		_ io.Writer) (*servers.Server, error) {
		return servers.StartRedis(ctx)
	})},
	"tools": {"WEIR_TOOLS", "python3 python3-venv", missingPython, fetchTools},
}

// Provide returns the value of the variable. server is nil unless Provide started one. root is the root of the checkout, which
// pins the versions. If install is true, Provide installs missing packages, as root on Debian. It reports slow steps to
// progress.
func (p Provision) Provide(ctx context.Context, root string, install bool, progress io.Writer) (value string, server *servers.Server,
	err error) {
	err = p.missing(ctx)
	if err != nil && install && os.Geteuid() == 0 && missing("apt-get")(ctx) == nil {
		err = cmp.Or(aptInstall(ctx, strings.Fields(p.packages), progress), p.missing(ctx))
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w (Debian: apt-get install %s)", err, p.packages)
	}
	return p.provide(ctx, root, progress)
}

func aptInstall(ctx context.Context, packages []string, progress io.Writer) error {
	unlock, err := lockFile(ctx, filepath.Join(os.TempDir(), "weir-install.lock")) // apt-get does not wait for another apt-get
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(progress, "installing %s ...\n", packages[0])
	return run(ctx, [][]string{{"apt-get", "update", "-qq"}, slices.Concat([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get",
		"install", "-y", "-qq", "--no-install-recommends"}, packages)})
}

// missing returns a function that returns an error for the first program that is not on the PATH.
func missing(programs ...string) func(context.Context) error {
	return func(context.Context) error {
		for _, name := range programs {
			if _, err := exec.LookPath(name); err != nil {
				return fmt.Errorf("%s %w on the PATH", name, servers.ErrMissing)
			}
		}
		return nil
	}
}

// browsers are the programs that tests of the web page can drive. Chrome comes first, because on Ubuntu the
// sandbox works for Chrome, but not for all builds of Chromium.
var browsers = []string{"google-chrome", "google-chrome-stable", "chromium", "chromium-browser"}

func missingBrowser(ctx context.Context) error {
	_, _, err := path(browsers...)(ctx, "", nil)
	return err
}

// missingPython returns an error if this machine has no Python that can create the virtual environment.
func missingPython(ctx context.Context) error {
	if exec.CommandContext(ctx, "python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		return fmt.Errorf("python3 (3.10 or newer, with venv) %w on the PATH", servers.ErrMissing)
	}
	return nil
}

// path provides the first of some programs on the PATH.
func path(programs ...string) func(context.Context, string, io.Writer) (string, *servers.Server, error) {
	return func(context.Context, string, io.Writer) (string, *servers.Server, error) {
		for _, name := range programs {
			if found, err := exec.LookPath(name); err == nil {
				return found, nil, nil
			}
		}
		return "", nil, fmt.Errorf("%s %w on the PATH", strings.Join(programs, " and "), servers.ErrMissing)
	}
}

// started provides a server.
func started(start func(context.Context, string, io.Writer) (*servers.Server, error)) func(context.Context, string, io.Writer) (string,
	*servers.Server, error) {
	return func(ctx context.Context, root string, progress io.Writer) (string, *servers.Server, error) {
		s, err := start(ctx, root, progress)
		if err != nil {
			return "", nil, err
		}
		return s.URL, s, nil
	}
}

// run runs commands one after another. An error has the output of the command.
func run(ctx context.Context, commands [][]string) error {
	for _, args := range commands {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out), ctx.Err())
		}
	}
	return nil
}
