package testservers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weir-limits/weir/local/servers"
)

const defaultDocker = "unix:///var/run/docker.sock"

const (
	pingTimeout   = 5 * time.Second
	engineTimeout = 5 * time.Minute // longest wait for the end of another engine
)

// missingDocker returns an error if no Docker engine answers and none is installed.
func missingDocker(ctx context.Context) error {
	if engine(defaultDocker).ping(ctx) == nil {
		return nil
	}
	return missing("docker", "dockerd")(ctx)
}

// provideDocker provides the Docker engine of this machine. If none answers, it starts one with its socket and data in a
// temporary folder. Two engines on one machine would use the same network bridge and addresses, so provideDocker first waits
// until another engine that it started has ended.
func provideDocker(ctx context.Context, _ string, progress io.Writer) (string, *servers.Server, error) {
	if engine(defaultDocker).ping(ctx) == nil { // with systemd, the installation of Docker also starts it
		return defaultDocker, nil, nil
	}
	if os.Geteuid() != 0 {
		return "", nil, fmt.Errorf("no Docker engine answers at %s, and only root can start one; start it and give this user access",
			defaultDocker)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, engineTimeout, fmt.Errorf("another Docker engine has not ended within %s", engineTimeout))
	defer cancel()
	note := time.AfterFunc(time.Second, func() { fmt.Fprintln(progress, "waiting for another Docker engine to end ...") })
	unlock, err := lockFile(waiting, filepath.Join(os.TempDir(), "weir-docker.lock"))
	note.Stop()
	if err != nil {
		return "", nil, fmt.Errorf("start docker: %w", err)
	}
	s, err := startEngine(ctx)
	if err != nil {
		unlock()
		return "", nil, err
	}
	s.OnStop(unlock)
	return s.URL, s, nil
}

func startEngine(ctx context.Context) (*servers.Server, error) {
	dir, err := os.MkdirTemp("", "weir-docker-")
	if err != nil {
		return nil, err
	}
	data, address := filepath.Join(dir, "data"), "unix://"+filepath.Join(dir, "docker.sock")
	remove := func() {
		detach(data) // dockerd mounts the folder on itself; after a failure of dockerd, the mount remains
		_ = os.RemoveAll(dir)
	}
	args := []string{"--host", address, "--data-root", data, "--exec-root", filepath.Join(dir, "exec"), "--log-level", "warn",
		"--shutdown-timeout", "3"}
	command := exec.Command("dockerd", args...) //nolint:noctx // it outlives the start
	s, err := servers.Start(ctx, "docker", address, command, engine(address).ping)
	if err != nil {
		remove()
		return nil, err
	}
	s.OnStop(remove)
	return s, nil
}

// engine is the address of a Docker engine, which the docker command calls.
type engine string

func (e engine) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return e.call(ctx, nil, "version")
}

func (e engine) has(ctx context.Context, image string) bool {
	return e.call(ctx, nil, "image", "inspect", image) == nil
}

func (e engine) call(ctx context.Context, stdin io.Reader, arguments ...string) error {
	command := exec.CommandContext(ctx, "docker", append([]string{"--host", string(e)}, arguments...)...)
	command.Stdin = stdin
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", arguments[0], err, bytes.TrimSpace(out))
	}
	return nil
}
