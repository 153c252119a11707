package redisstore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// freePorts returns ports that nobody listened on a moment ago.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // when all are known, so that they differ
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// cluster starts a Redis cluster of one node, which has all slots, and returns a client.
// REDIS_SERVER is the program where it is not on the PATH.
func cluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path = storetest.Server(t, "redis", "REDIS_SERVER")
	}
	ports, dir := freePorts(t, 2), t.TempDir()
	server := exec.CommandContext(t.Context(), path, "--bind", "127.0.0.1", "--port", ports[0], "--save", "", "--dir", dir,
		"--cluster-enabled", "yes", "--cluster-port", ports[1], "--cluster-config-file", "nodes.conf")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // it is killed when the test's context ends, before

	// It is patient: the server is not up yet, and a node takes no writes for two seconds.
	node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[0], DialerRetries: 1, MaxRetries: 1000, MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 20 * time.Millisecond})
	defer func() { _ = node.Close() }()
	if err := node.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := node.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	if err := node.Set(ctx, "ready", "", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + ports[0]}})
	client.AddHook(redisstore.Once{})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// The store is the same in a cluster: every call has one key.
func TestStore_cluster(t *testing.T) {
	client, namespace := cluster(t), "cluster-"+rand.Text()
	storetest.Run(t, storetest.Suite{
		Open: func(*testing.T) limiter.Store {
			return redisstore.New(client, redisstore.Options{Namespace: namespace, Margin: 50 * time.Millisecond})
		},
		Margin: 50 * time.Millisecond,
	})
}

// node is a node of a cluster that answers each command as it is told to, and hangs up
// where the answer is empty. It notes the commands.
type node struct {
	mu      sync.Mutex
	answers map[string][]string // by the command's name, in turn; the last one stays
	seen    map[string]int
}

func (n *node) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go n.serve(far)
	return near, nil
}

func (n *node) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		args, err := command(r)
		if err != nil {
			return
		}
		answer := n.answer(strings.ToLower(args[0]))
		if _, err := io.WriteString(c, answer); err != nil || answer == "" {
			return
		}
	}
}

func (n *node) answer(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[name]++
	list := n.answers[name]
	if len(list) == 0 {
		return "+OK\r\n"
	}
	if len(list) > 1 {
		n.answers[name] = list[1:]
	}
	return list[0]
}

func (n *node) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

// command reads one command: an array of strings.
func command(r *bufio.Reader) (args []string, err error) {
	number := func() int {
		line, e := r.ReadString('\n')
		if e != nil {
			err = e
			return 0
		}
		n, e := strconv.Atoi(strings.TrimSpace(line[1:]))
		if e != nil {
			err = e
		}
		return n
	}
	for range number() {
		b := make([]byte, number()+2)
		if _, e := io.ReadFull(r, b); e != nil {
			return nil, e
		}
		args = append(args, string(b[:len(b)-2]))
	}
	return args, err
}

// A command whose answer is lost is not sent again; one that another node is to have is.
func TestOnce(t *testing.T) {
	slots := "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$4\r\nhost\r\n:6379\r\n"
	for _, c := range []struct {
		name    string
		answers []string
		want    int
	}{
		{"lost", []string{"", ":1\r\n"}, 1},
		{"moved", []string{"-MOVED 1 other:6379\r\n", ":1\r\n"}, 2},
	} {
		n := &node{seen: map[string]int{}, answers: map[string][]string{"hello": {"%0\r\n"}, "cluster": {slots}, "evalsha": c.answers}}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"host:6379"}, Dialer: n.dial, DisableRoutingPolicies: true})
		client.AddHook(redisstore.Once{})
		err := client.EvalSha(ctx, "script", []string{"key"}).Err()
		if e := client.Close(); e != nil {
			t.Error(e)
		}
		if sent := n.count("evalsha"); sent != c.want || (err == nil) != (c.name == "moved") {
			t.Errorf("%s: sent %d times, want %d: %v", c.name, sent, c.want, err)
		}
	}
}
