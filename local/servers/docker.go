package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// defaultDocker is where an engine listens that was told nothing else.
const defaultDocker = "unix:///var/run/docker.sock"

// pingTimeout is how long an engine has to say that it is there.
const pingTimeout = 5 * time.Second

// RunningDocker returns the address of the Docker engine of this machine, "" if none
// answers.
func RunningDocker(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	e, err := newEngine(defaultDocker)
	if err != nil || e.ping(ctx) != nil {
		return ""
	}
	return defaultDocker
}

// StartDocker starts a Docker engine of our own, with its socket and its data in a
// temporary folder. Two on one machine would share the bridge and its addresses: where
// another runs that is not for us, it waits for that to end, and progress is told.
func StartDocker(ctx context.Context, progress io.Writer) (*Server, error) {
	const install = "(Debian: apt-get install docker.io; macOS: Docker Desktop)"
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, fmt.Errorf("dockerd %w on the PATH, and no engine answers at %s %s", errMissing, defaultDocker, install)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("no Docker engine answers at %s, and only root can start one here: start it, and see that this user may use it", defaultDocker)
	}
	patience, told := time.Now().Add(engineTimeout), false
	for {
		another := runs(enginePID) // it may end meanwhile
		s, err := startEngine(ctx, path)
		if err == nil || !another && !runs(enginePID) || time.Now().After(patience) {
			return s, err
		}
		if !told {
			fmt.Fprintln(progress, "waiting for another Docker engine to end ...")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(engineInterval):
		}
	}
}

// Bounds of waiting for another engine to end, such as that of another test.
const (
	engineTimeout  = 5 * time.Minute
	engineInterval = 2 * time.Second
)

// enginePID is the file in which dockerd keeps its process id, and by which it finds another.
const enginePID = "/var/run/docker.pid"

// runs reports whether the process runs whose id is in a file.
func runs(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		return false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}

// startEngine starts dockerd. It finds by the file of its process, which is where it
// always is, that another one runs.
func startEngine(ctx context.Context, path string) (*Server, error) {
	dir, err := os.MkdirTemp("", "weir-docker-")
	if err != nil {
		return nil, err
	}
	data, address := filepath.Join(dir, "data"), "unix://"+filepath.Join(dir, "docker.sock")
	remove := func() {
		detach(data) // it mounts the folder on itself, and leaves that behind when it fails
		_ = os.RemoveAll(dir)
	}
	e, err := newEngine(address)
	if err != nil {
		return nil, err
	}
	command := exec.Command(path, "--host", address, "--data-root", data, "--exec-root", filepath.Join(dir, "exec"), //nolint:noctx // it outlives the start
		"--log-level", "warn", "--shutdown-timeout", "3")
	s, err := start(ctx, "docker", address, command, e.ping)
	if err != nil {
		remove()
		return nil, err
	}
	s.remove = remove
	return s, nil
}

// engine is the API of a Docker engine.
type engine struct {
	client http.Client
	base   string
}

func newEngine(host string) (*engine, error) {
	scheme, where, _ := strings.Cut(host, "://")
	switch scheme {
	case "unix":
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", where)
		}
		return &engine{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, "http://docker"}, nil
	case "tcp":
		return &engine{base: "http://" + where}, nil
	}
	return nil, fmt.Errorf("DOCKER_HOST: got %q, want unix:///path or tcp://host:port", host)
}

func (e *engine) ping(ctx context.Context) error { return e.call(ctx, http.MethodGet, "/_ping", nil) }

// has reports whether the engine has an image.
func (e *engine) has(ctx context.Context, image string) bool {
	return e.call(ctx, http.MethodGet, "/images/"+image+"/json", nil) == nil
}

// pull brings an image from its registry.
func (e *engine) pull(ctx context.Context, repository, tag string) error {
	return e.call(ctx, http.MethodPost, "/images/create?"+url.Values{"fromImage": {repository}, "tag": {tag}}.Encode(), nil)
}

// load makes an image of the files in an archive.
func (e *engine) load(ctx context.Context, repository, tag string, archive io.Reader) error {
	return e.call(ctx, http.MethodPost, "/images/create?"+url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}.Encode(), archive)
}

// call sends a request. The answer is a list of messages, of which one may be that it
// went wrong after all.
func (e *engine) call(ctx context.Context, method, path string, body io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, method, e.base+path, body)
	if err != nil {
		return err
	}
	response, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var message struct{ Message, Error string }
	for messages := json.NewDecoder(response.Body); messages.Decode(&message) == nil; {
		if message.Error != "" {
			return errors.New(message.Error)
		}
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s", response.Status, message.Message)
	}
	return ctx.Err()
}
