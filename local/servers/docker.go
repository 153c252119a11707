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
// temporary folder.
func StartDocker(ctx context.Context) (*Server, error) {
	const install = "(Debian: apt-get install docker.io; macOS: Docker Desktop)"
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, fmt.Errorf("dockerd %w on the PATH, and no engine answers at %s %s", errMissing, defaultDocker, install)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("no Docker engine answers at %s, and only root can start one here: start it, and see that this user may use it", defaultDocker)
	}
	dir, err := os.MkdirTemp("", "weir-docker-")
	if err != nil {
		return nil, err
	}
	address := "unix://" + filepath.Join(dir, "docker.sock")
	e, err := newEngine(address)
	if err != nil {
		return nil, err
	}
	// The file of the process is where it always is: two engines on one machine would
	// share the bridge and its addresses, and the second does not start.
	command := exec.Command(path, "--host", address, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), //nolint:noctx // it outlives the start
		"--log-level", "warn", "--shutdown-timeout", "3")
	s, err := start(ctx, "docker", address, command, e.ping)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.scratch = dir
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
