package redisstore_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// cluster starts a Redis cluster of one node that has all slots. It returns a client of the node and
// clients of the deployment's users.
func cluster(t *testing.T) (*redis.Client, users) {
	t.Helper()
	node := startNodes(t, 1, 0)[0].client
	return node, newUsers(t, connectCluster(node), node)
}

// connectCluster returns a function that connects to the cluster of a node as a user. The client has the options of
// functions/boot.
func connectCluster(node *redis.Client) func(name string) redis.UniversalClient {
	return func(name string) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Options().Addr}, Username: name, Password: "secret",
			ContextTimeoutEnabled: true, PipelinePoolSize: -1,
			DisableIdentity: true, DisableRoutingPolicies: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
}

// A store calls exactly the listed commands, as the server reports them.
func TestCommands(t *testing.T) {
	node, users := cluster(t)
	s := users.open(t, redisstore.Options{Namespace: "commands"})
	if err := node.ConfigResetStat(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var charges []limiter.Charge
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.TokenBucket, algo.SlidingLog} {
		l := storetest.Limit(t, string(a), algo.Rate{Algorithm: a, Requests: 2, Window: time.Minute})
		charges = append(charges, limiter.Charge{Subject: limiter.User("u"), Limit: l, Cost: 1})
	}
	now, results := noon, make([]algo.Result, len(charges))
	for i := range 4 { // the test covers a script that is new to the server, a refusal, and a request with fewer limits
		allowed, err := s.Take(ctx, now, limiter.User("u"), charges[:3-i%2], results)
		if err != nil || allowed != (i < 3) {
			t.Fatalf("take %d: got allowed %t, %v, want %t", i, allowed, err, i < 3)
		}
		if i == 0 {
			if _, err := s.Settle(ctx, 0, limiter.User("u"), charges, results, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := redisstore.Commands()[1:] // without asking, which TestStore_cluster_moved calls
	if called := called(t, node); !slices.Equal(called, want) {
		t.Errorf("calls:\n got %v\nwant %v", called, want)
	}
}

// called returns the commands that a server received, without those of its setup. The commands of
// scripts are included.
func called(t *testing.T, node *redis.Client) (names []string) {
	t.Helper()
	stats, err := node.Info(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stats) {
		if name, ok := strings.CutPrefix(line, "cmdstat_"); ok {
			name, _, _ = strings.Cut(name, ":")
			if name != "config|resetstat" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// node is a node of a cluster with a fixed answer for each command. If the answer is empty, it closes
// the connection. It records the commands.
type node struct {
	mu      sync.Mutex
	answers map[string][]string // answers by the name of the command, in order; the node repeats the last answer
	seen    map[string]int
}

func (n *node) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go n.serve(far)
	return near, nil
}

func (n *node) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReaderSize(c, 1<<16) // room for a whole pipeline, because the client reads no answers while it writes
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

// The client does not repeat a command whose answer is lost. It repeats a command that the cluster
// redirects to another node.
func TestNew_noRetry(t *testing.T) {
	slots := "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$4\r\nhost\r\n:6379\r\n"
	for _, c := range []struct {
		name    string
		answers []string
		want    int
	}{
		{"lost", []string{"", ":1\r\n"}, 1},
		{"moved", []string{"-MOVED 1 other:6379\r\n", ":1\r\n"}, 2},
	} {
		dial := func(n *node) map[string]redis.UniversalClient {
			return map[string]redis.UniversalClient{
				"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"host:6379"}, Dialer: n.dial, DisableRoutingPolicies: true,
					ContextTimeoutEnabled: true}),
				"server": redis.NewClient(&redis.Options{Addr: "host:6379", Dialer: n.dial, ContextTimeoutEnabled: true}),
			}
		}
		for _, kind := range []string{"cluster", "server"} {
			if kind == "server" && c.name == "moved" {
				continue
			}
			n := &node{seen: map[string]int{}, answers: map[string][]string{"hello": {"%0\r\n"}, "cluster": {slots}, "evalsha": c.answers}}
			client := dial(n)[kind]
			newStore(t, client, redisstore.Options{Namespace: "n"})
			err := client.EvalSha(ctx, "script", []string{"key"}).Err()
			if e := client.Close(); e != nil {
				t.Error(e)
			}
			if sent := n.count("evalsha"); sent != c.want || (err == nil) != (c.name == "moved") {
				t.Errorf("%s, %s: got %d requests, want %d: %v", kind, c.name, sent, c.want, err)
			}
		}
	}
}
