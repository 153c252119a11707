package redisstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// slots is the number of slots of a cluster.
const slots = 16384

// process is a server of a cluster.
type process struct {
	id, port, bus string
	command       *exec.Cmd
	client        *redis.Client // has all permissions, and repeats a command until the server can execute it
}

// startNodes starts the servers of a cluster: primaries, which share all slots, and then the replicas of each.
// REDIS_SERVER names the program if it is not on the PATH. The servers read from their configuration that they know
// each other.
func startNodes(t *testing.T, primaries, replicas int) (all []*process) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path = storetest.Server(t, "redis", "REDIS_SERVER")
	}
	ports := freePorts(t, 2*primaries*(1+replicas))
	for i := range len(ports) / 2 {
		all = append(all, &process{id: fmt.Sprintf("%040x", i+1), port: ports[2*i], bus: ports[2*i+1]})
	}
	for i, p := range all {
		p.start(t, path, nodesFile(all, i, primaries))
	}
	for _, p := range all {
		await(t, "the cluster is complete", func() bool {
			cluster, replication := p.do(t, "cluster info"), p.do(t, "info replication")
			return strings.Contains(cluster, "cluster_state:ok") && (strings.Contains(replication, "role:master") || strings.Contains(replication,
				"master_link_status:up"))
		})
	}
	return all
}

// nodesFile returns the cluster configuration of one server.
func nodesFile(all []*process, self, primaries int) string {
	var b strings.Builder
	for i, p := range all {
		role, of, owned := "master", "-", fmt.Sprintf(" %d-%d", slots*i/primaries, slots*(i+1)/primaries-1)
		if i >= primaries {
			role, of, owned = "slave", all[i%primaries].id, ""
		}
		if i == self {
			role = "myself," + role
		}
		fmt.Fprintf(&b, "%s 127.0.0.1:%s@%s %s %s 0 0 %d connected%s\n", p.id, p.port, p.bus, role, of, i%primaries+1, owned)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", primaries)
	return b.String()
}

// start starts the server. On a busy machine, too, no server takes another one for dead by itself.
func (p *process) start(t *testing.T, path, nodes string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodes.conf"), []byte(nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	p.command = exec.CommandContext(context.Background(), path, "--bind", "127.0.0.1", "--port", p.port, "--save", "", "--dir", dir,
		"--repl-diskless-sync-delay", "0",
		"--cluster-enabled", "yes", "--cluster-port", p.bus, "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "600000",
		"--cluster-allow-replica-migration", "no")
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	// The client repeats commands, because the server starts slowly and a new node rejects writes for two seconds.
	p.client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + p.port, DialerRetries: 1, MaxRetries: 1000,
		MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 20 * time.Millisecond})
	t.Cleanup(p.kill)
	p.do(t, "ping")
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	_ = p.client.Close()
}

// do sends a command, whose words are separated by spaces, and returns its answer as text.
func (p *process) do(t *testing.T, command string) string {
	t.Helper()
	answer, err := p.client.Do(ctx, anyOf(command)...).Result()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return fmt.Sprint(answer)
}

func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // the listeners stay open until the function returns, so that the ports differ
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// await waits until a server has the given state.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	guard, pause := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer guard.Stop()
	defer pause.Stop()
	for !holds() {
		select {
		case <-pause.C:
		case <-guard.C:
			t.Fatalf("%s: got false after a minute, want true", what)
		}
	}
}

// group is a cluster of three primaries, each with one replica.
type group struct {
	nodes []*process
	users users
}

const shards = 3

func startGroup(t *testing.T) *group {
	t.Helper()
	nodes := startNodes(t, shards, 1)
	var clients []*redis.Client
	for _, n := range nodes {
		clients = append(clients, n.client)
	}
	return &group{nodes, newUsers(t, connectCluster(clients[0]), clients...)}
}

func (g *group) shard(t *testing.T, shard int) (primary, replica *process) {
	t.Helper()
	primary, replica = g.nodes[shard], g.nodes[shard+shards]
	if !strings.Contains(primary.do(t, "info replication"), "role:master") {
		primary, replica = replica, primary
	}
	return primary, replica
}

// home returns the slot of a subject's key, and its shard.
func (g *group) home(t *testing.T, namespace string, who limiter.Subject) (slot int64, shard int) {
	t.Helper()
	slot, err := g.nodes[0].client.ClusterKeySlot(ctx, namespace+"/"+limiter.StateFormat+"/"+who.String()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for slots*(shard+1)/shards <= int(slot) {
		shard++
	}
	return slot, shard
}

// agree waits until all nodes know the primary and the replica of a shard, and a primary of each slot.
func (g *group) agree(t *testing.T, primary, replica *process) {
	t.Helper()
	await(t, "all nodes know the last failover", func() bool {
		epochs, known := map[string]bool{}, 0
		for _, n := range g.nodes {
			info := n.do(t, "cluster info")
			_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
			epoch, _, _ = strings.Cut(epoch, "\r\n")
			epochs[epoch] = true
			for line := range strings.Lines(n.do(t, "cluster nodes")) {
				if strings.HasPrefix(line, replica.id) && strings.Contains(line, " "+primary.id+" ") &&
					strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r\n", slots)) {
					known++
				}
			}
		}
		return len(epochs) == 1 && known == len(g.nodes)
	})
}

// failOver exchanges the primary and the replica of a shard, without a loss. It calls begin immediately before.
func (g *group) failOver(t *testing.T, shard int, begin func()) {
	t.Helper()
	old, next := g.shard(t, shard)
	g.agree(t, old, next) // otherwise nodes take no part in the next failover
	begin()
	next.do(t, "cluster failover")
	await(t, "the replica is the primary", func() bool { return strings.Contains(next.do(t, "info replication"), "role:master") })
	await(t, "the old primary is a replica", func() bool { return strings.Contains(old.do(t, "info replication"), "master_link_status:up") })
	g.agree(t, next, old)
}

// unserved reports that a node knew no primary of the slot, and charged nothing: the old primary has told it that it is a replica,
// and the new one has not told it yet that it has the slot.
func unserved(err error) bool { return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") }

const (
	workers = 16
	plenty  = 3000
	few     = 600
)

// load sends requests of one subject at one instant, by several workers, until the limit refuses each worker.
type load struct {
	limit    *limiter.Limit
	who      limiter.Subject
	refund   int64        // every n-th admitted request of a worker is refunded; 0: none
	admitted atomic.Int64 // answers that admit a request
	refunded atomic.Int64
	failed   atomic.Int64  // calls without an answer
	resume   chan struct{} // closed when calls that failed may succeed again
}

func newLoad(t *testing.T, requests, refund int64) *load {
	t.Helper()
	return &load{limit: storetest.Limit(t, "load", algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Window: time.Hour}),
		who: caller(), refund: refund, resume: make(chan struct{})}
}

// newLoad returns a load of a subject of the shard.
func (g *group) newLoad(t *testing.T, namespace string, shard int, requests, refund int64) *load {
	t.Helper()
	l := newLoad(t, requests, refund)
	for _, home := g.home(t, namespace, l.who); home != shard; _, home = g.home(t, namespace, l.who) {
		l.who = caller()
	}
	return l
}

func (l *load) charge(cost int64) []limiter.Charge {
	return []limiter.Charge{{Subject: l.who, Limit: l.limit, Cost: cost}}
}

// run runs the workers. Each worker has one call in flight.
func (l *load) run(t *testing.T, s limiter.Store) {
	t.Helper()
	guard, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			results := make([]algo.Result, 1)
			for n := int64(1); guard.Err() == nil; {
				allowed, err := s.Take(guard, noon, l.who, l.charge(1), results)
				switch {
				case unserved(err):
				case err != nil:
					l.failed.Add(1)
					<-l.resume
				case !allowed:
					return
				default:
					l.admitted.Add(1)
					if l.refund > 0 && n%l.refund == 0 {
						l.settle(guard, t, s, results)
					}
					n++
				}
			}
			t.Errorf("load: got no answer after 40 s, %d failed calls", l.failed.Load())
		})
	}
	all.Wait()
}

// settle refunds a request.
func (l *load) settle(ctx context.Context, t *testing.T, s limiter.Store, results []algo.Result) {
	t.Helper()
	settled, err := s.Settle(ctx, noon, l.who, l.charge(1), results, 0)
	for unserved(err) {
		settled, err = s.Settle(ctx, noon, l.who, l.charge(1), results, 0)
	}
	if err != nil || settled.Given != 1 {
		t.Errorf("refund: got %+v, %v, want one", settled, err)
	}
	l.refunded.Add(1)
}

func (l *load) count(t *testing.T, s limiter.Store) int64 {
	t.Helper()
	_, results := take(t, s, noon, l.charge(0)...)
	return results[0].State.Count
}

// The primary and the replica of each shard change places, twice, while workers charge and refund a subject of the shard: no
// call that a node serves fails, and the counts are exact, because an orderly failover loses nothing.
func TestStore_cluster(t *testing.T) {
	g, namespace := startGroup(t), "cluster-"+rand.Text()
	s := g.users.open(t, redisstore.Options{Namespace: namespace})
	for i := range 2 * shards {
		l := g.newLoad(t, namespace, i%shards, few, 16)
		close(l.resume)
		var running sync.WaitGroup
		g.failOver(t, i%shards, func() {
			running.Go(func() { l.run(t, s) })
			await(t, "some requests are admitted", func() bool { return l.admitted.Load() >= workers })
		})
		during := l.admitted.Load()
		running.Wait()
		admitted, refunded, count := l.admitted.Load(), l.refunded.Load(), l.count(t, s)
		t.Logf("failover %d: %d admitted at its end, of %d", i, during, admitted)
		if count != admitted-refunded || admitted < few || l.failed.Load() > 0 {
			t.Errorf("failover %d: got a count of %d after %d admitted and %d refunded requests, want the difference; %d calls failed, want 0", i,
				count, admitted, refunded, l.failed.Load())
		}
		if err := s.Reset(ctx, l.who); err != nil {
			t.Error(err)
		}
		if entries, err := s.Inspect(ctx, l.who); err != nil || len(entries) > 0 {
			t.Errorf("after a reset: got %+v and error %v, want no limits", entries, err)
		}
	}
}

// A slot moves to another primary and back while workers charge and refund a subject of the slot: no call fails, and
// the count is exact.
func TestStore_cluster_moved(t *testing.T) {
	g, namespace := startGroup(t), "moved-"+rand.Text()
	s, l := g.users.open(t, redisstore.Options{Namespace: namespace}), newLoad(t, plenty, 16)
	close(l.resume)
	var running sync.WaitGroup
	running.Go(func() { l.run(t, s) })
	slot, home := g.home(t, namespace, l.who)
	for i := range int64(4) {
		await(t, "some requests are admitted", func() bool { return l.admitted.Load() >= plenty*(i+1)/6 })
		from, to := g.nodes[home], g.nodes[(home+1)%shards]
		if i%2 == 1 {
			from, to = to, from
		}
		to.do(t, fmt.Sprintf("cluster setslot %d importing %s", slot, from.id))
		from.do(t, fmt.Sprintf("cluster setslot %d migrating %s", slot, to.id))
		for {
			keys, err := from.client.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
			if err != nil {
				t.Fatal(err)
			}
			if len(keys) == 0 {
				break
			}
			for _, key := range keys {
				from.do(t, "migrate 127.0.0.1 "+to.port+" "+key+" 0 5000")
			}
		}
		to.do(t, fmt.Sprintf("cluster setslot %d node %s", slot, to.id)) // the node that gets the slot must know first
		from.do(t, fmt.Sprintf("cluster setslot %d node %s", slot, to.id))
	}
	running.Wait()
	admitted, refunded, count := l.admitted.Load(), l.refunded.Load(), l.count(t, s)
	t.Logf("%d admitted, %d refunded", admitted, refunded)
	if count != admitted-refunded || count > plenty || admitted < plenty || l.failed.Load() > 0 {
		t.Errorf("4 moves: got a count of %d after %d admitted and %d refunded requests, want the difference; %d calls failed, want 0", count,
			admitted, refunded, l.failed.Load())
	}
}

// A primary dies under load, and its replica takes over. Charges that the primary answered but did not send to the
// replica are lost. If only the process dies, they are at most as many as the calls in flight. As many requests may
// be counted without an answer. Subjects of other shards are not affected.
func TestStore_cluster_died(t *testing.T) {
	g, namespace := startGroup(t), "died-"+rand.Text()
	s := g.users.open(t, redisstore.Options{Namespace: namespace})
	const home = 0
	l, other := g.newLoad(t, namespace, home, plenty, 0), g.newLoad(t, namespace, home+1, plenty, 0)
	close(other.resume)
	var running sync.WaitGroup
	running.Go(func() { l.run(t, s) })
	running.Go(func() { other.run(t, s) })
	await(t, "some requests are admitted", func() bool { return l.admitted.Load() >= plenty/3 })
	primary, replica := g.nodes[home], g.nodes[home+shards]
	primary.kill()
	await(t, "calls fail", func() bool { return l.failed.Load() > 0 })
	replica.do(t, "cluster failover force") // the other primaries vote for the replica
	await(t, "the replica is the primary", func() bool { return strings.Contains(replica.do(t, "info replication"), "role:master") })
	close(l.resume)
	running.Wait()
	admitted := l.admitted.Load()
	t.Logf("%d admitted of %d, %d calls without an answer", admitted, plenty, l.failed.Load())
	if admitted < plenty-workers || admitted > plenty+workers {
		t.Errorf("admitted requests: got %d, want %d, more or less than that by at most %d", admitted, plenty, workers)
	}
	if got := other.admitted.Load(); got != plenty || other.failed.Load() > 0 {
		t.Errorf("another shard: got %d admitted requests and %d failed calls, want %d and 0", got, other.failed.Load(), plenty)
	}
}
