package faults

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter/storetest"
)

// server is a redis-server process of one test. run starts the process.
type server struct {
	address string
	dir     string
	options []string
	command *exec.Cmd
	client  *redis.Client // with a long timeout
}

func newServer(t *testing.T, options ...string) *server {
	t.Helper()
	s := &server{address: "127.0.0.1:" + freePort(t), dir: t.TempDir(), options: options}
	s.client = redis.NewClient(&redis.Options{Addr: s.address, DialerRetries: 1, MaxRetries: 500, MinRetryBackoff: 10 * time.Millisecond,
		MaxRetryBackoff: 10 * time.Millisecond})
	s.run(t)
	t.Cleanup(func() {
		_ = s.client.Close()
		s.signal(t, syscall.SIGKILL)
		_ = s.command.Wait()
	})
	return s
}

// run starts the empty server and waits until it answers.
func (s *server) run(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path = storetest.Server(t, "redis", "REDIS_SERVER")
	}
	_, port := s.hostPort()
	s.command = exec.CommandContext(context.Background(), path, append([]string{"--bind", "127.0.0.1", "--port", port,
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--repl-diskless-sync-delay", "0"}, s.options...)...)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	s.do(t, "ping")
}

func (s *server) kill(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	_ = s.command.Wait()
}

func (s *server) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil && s.command.ProcessState == nil {
		t.Error(err)
	}
}

func (s *server) hostPort() (host, port string) {
	host, port, _ = strings.Cut(s.address, ":")
	return host, port
}

func (s *server) do(t *testing.T, args ...any) any {
	t.Helper()
	answer, err := s.client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("command %v: got error %v, want none", args, err)
	}
	return answer
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
