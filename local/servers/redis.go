package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
)

// StartRedis starts the redis-server that is on the PATH.
func StartRedis(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server %w on the PATH (Debian: apt-get install redis-server; macOS: brew install redis)", ErrMissing)
	}
	port, err := FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	// The policy noeviction keeps all keys. An evicted key would reset a limit.
	command := exec.Command(path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), //nolint:noctx // it outlives the start
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	command.Dir = os.TempDir()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return Start(ctx, "redis", "redis://"+address, command, func(ctx context.Context) error { return ping(ctx, address) })
}

// ping returns nil if a Redis server answers at address.
func ping(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = errors.New(line)
	}
	return err
}
