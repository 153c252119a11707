package redisstore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
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
	// TestStore_cluster_moved calls asking, and TestStore_denied select: a cluster has only one database.
	want := slices.DeleteFunc(redisstore.Commands(), func(c string) bool { return c == "asking" || c == "select" })
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
	takes   time.Duration // before each answer
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
		time.Sleep(n.takes) // fake clock of synctest
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

// local returns a client of a Redis server with all permissions, which sets up and inspects the data
// of a test. Stores connect as the users of a deployment.
func local(t testing.TB) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(storetest.Server(t, "redis", "REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.PipelinePoolSize, o.ContextTimeoutEnabled = -1, -1, true
	client := redis.NewClient(o)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// users are the users of a deployment: the functions' user and the operator's user.
type users struct{ function, operator redis.UniversalClient }

// deployed returns clients of the users on the server of REDIS_URL. At the end of the test, it checks
// that the access lists denied no command.
func deployed(t testing.TB) users {
	t.Helper()
	server := local(t)
	connect := func(name string) redis.UniversalClient {
		o := *server.Options()
		o.Username, o.Password = name, "secret"
		// The client has the options of functions/boot, because an access list must allow the commands
		// that these options cause.
		o.DisableIdentity, o.MaintNotificationsConfig = true, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return redis.NewClient(&o)
	}
	return newUsers(t, connect, server)
}

// newUsers creates the users on servers. At the end of the test, it checks that the access lists
// denied no command. A server that no longer runs denies none.
func newUsers(t testing.TB, connect func(name string) redis.UniversalClient, servers ...*redis.Client) users {
	t.Helper()
	add := func(role string, commands []string) redis.UniversalClient {
		name := role + "-" + rand.Text()
		for _, server := range servers {
			if err := server.Do(ctx, anyOf("acl setuser "+name+" >secret "+redisstore.AccessString(commands...))...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		client := connect(name)
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			for _, server := range servers {
				removeUser(t, server, role, name)
			}
		})
		return client
	}
	return users{add("function", redisstore.Commands()), add("operator", redisstore.AdministrationCommands())}
}

// removeUser removes a user from a server. It checks that the server denied the user no command.
func removeUser(t testing.TB, server *redis.Client, role, name string) {
	t.Helper()
	denied, err := server.ACLLog(context.WithoutCancel(ctx), 1000).Result()
	if errors.Is(err, redis.ErrClosed) { // the test has killed the server
		return
	}
	if err != nil {
		t.Error(err)
	}
	for _, d := range denied {
		if d.Username == name {
			t.Errorf("access list of the %s: denied %s (%s, %s)", role, d.Object, d.Reason, d.Context)
		}
	}
	if err := server.ACLDelUser(ctx, name).Err(); err != nil {
		t.Error(err)
	}
}

func anyOf(words string) (all []any) {
	for word := range strings.FieldsSeq(words) {
		all = append(all, word)
	}
	return all
}

// store connects as the functions' user. It inspects and resets state as the operator's user.
type store struct {
	limiter.Store
	operator limiter.Store
}

func (s store) Inspect(ctx context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	return s.operator.Inspect(ctx, subject)
}

func (s store) Reset(ctx context.Context, subject limiter.Subject) error {
	return s.operator.Reset(ctx, subject)
}

func (u users) open(t testing.TB, o redisstore.Options) limiter.Store {
	t.Helper()
	return store{newStore(t, u.function, o), newStore(t, u.operator, o)}
}

func newStore(t testing.TB, client redisstore.Client, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.NewBare(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open returns a store that connects as the deployed users. The hooks are added to the functions'
// client.
func open(t testing.TB, o redisstore.Options, hooks ...redis.Hook) limiter.Store {
	t.Helper()
	u := deployed(t)
	for _, h := range hooks {
		u.function.AddHook(h)
	}
	return u.open(t, o)
}
