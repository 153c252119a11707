package faults

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

// cluster is a Redis Cluster with three nodes.
type cluster struct {
	nodes []*server
	ids   []string
}

const slots = 16384

var clusterFaults = []fault{
	{name: "a hash slot has moved (MOVED)", begin: func(t *testing.T, w *world) {
		t.Helper()
		w.cluster.move(t, w.slot(t, client))
	}, count: countsAll},
	{name: "a hash slot is moving (ASK)", begin: func(t *testing.T, w *world) {
		t.Helper()
		slot := w.slot(t, client)
		w.arrive = w.cluster.depart(t, slot)
		w.cluster.carry(t, slot)
	}, end: func(_ *testing.T, w *world) { w.arrive() }, count: countsAll},
	{name: "hash slots move under load", company: reshardUnderLoad, count: countsAll},
	{name: "the node of a hash slot restarts", begin: func(t *testing.T, w *world) {
		t.Helper()
		w.server = w.cluster.nodes[w.cluster.owner(t, w.slot(t, client))]
		w.server.kill(t)
	}, end: func(t *testing.T, w *world) {
		t.Helper()
		w.server.run(t)
		w.cluster.await(t)
	}, sees: limiter.ReasonUnavailable, count: countsLost},
}

// overCluster builds an environment over a new cluster.
func overCluster(t *testing.T, w *world) {
	t.Helper()
	c := &cluster{}
	for range 3 {
		c.nodes = append(c.nodes, newServer(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", "15000", "--cluster-require-full-coverage", "no"))
	}
	for i, n := range c.nodes {
		c.ids = append(c.ids, n.do(t, "cluster", "myid").(string))
		n.do(t, "cluster", "addslotsrange", slots*i/3, slots*(i+1)/3-1)
		for _, other := range c.nodes[:i] {
			host, port := other.hostPort()
			n.do(t, "cluster", "meet", host, port, other.option("--cluster-port"))
		}
	}
	c.await(t)
	w.cluster = c
	w.setDeadline(deadlineRedis)
	w.at = func(address string) string { return "STORE=redis://" + address + "?cluster=true" }
	w.build(t, c.nodes[0].address, c.nodes[0].address)
}

// await waits until every node knows all other nodes and accepts writes.
func (c *cluster) await(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		eventually(t, "the cluster is complete", func() bool {
			info := n.do(t, "cluster", "info").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") &&
				strings.Contains(info, "cluster_size:3")
		})
	}
}

// option returns the value of a start option of the server.
func (s *server) option(name string) string { return s.options[slices.Index(s.options, name)+1] }

// slot returns the slot that holds the counts of a caller.
func (w *world) slot(t *testing.T, caller string) int64 {
	t.Helper()
	// One key has all counts of the caller. The key contains the subject, and its hash tag is the whole key
	// (package redisstore).
	for _, n := range w.cluster.nodes {
		for _, key := range n.do(t, "keys", "*").([]any) {
			if strings.Contains(key.(string), w.charge(caller, policies[0]).Subject.String()) {
				return n.do(t, "cluster", "keyslot", key).(int64)
			}
		}
	}
	t.Fatalf("%s: got no key, want one", caller)
	return 0
}

// owner returns the node that serves a slot.
func (c *cluster) owner(t *testing.T, slot int64) int {
	t.Helper()
	shards, err := c.nodes[0].client.ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		for _, r := range shard.Slots {
			if r.Start <= slot && slot <= r.End {
				return slices.Index(c.ids, shard.Nodes[0].ID)
			}
		}
	}
	t.Fatalf("slot %d: got no node, want one", slot)
	return 0
}

// depart starts to move a slot to the next node. The returned function completes the move.
func (c *cluster) depart(t *testing.T, slot int64) (arrive func()) {
	t.Helper()
	from := c.owner(t, slot)
	to := (from + 1) % len(c.nodes)
	c.nodes[to].do(t, "cluster", "setslot", slot, "importing", c.ids[from])
	c.nodes[from].do(t, "cluster", "setslot", slot, "migrating", c.ids[to])
	return func() {
		t.Helper()
		for i := range c.nodes { // the node that gets the slot must know first
			c.nodes[(to+i)%len(c.nodes)].do(t, "cluster", "setslot", slot, "node", c.ids[to])
		}
	}
}

// carry moves the keys of a slot that depart has started to move.
func (c *cluster) carry(t *testing.T, slot int64) {
	t.Helper()
	from := c.owner(t, slot)
	host, port := c.nodes[(from+1)%len(c.nodes)].hostPort()
	for {
		keys, err := c.nodes[from].client.ClusterGetKeysInSlot(t.Context(), int(slot), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			return
		}
		for _, key := range keys {
			c.nodes[from].do(t, "migrate", host, port, key, 0, 1000)
		}
	}
}

// move moves a slot to the next node.
func (c *cluster) move(t *testing.T, slot int64) {
	t.Helper()
	arrive := c.depart(t, slot)
	c.carry(t, slot)
	arrive()
}

// reshardUnderLoad moves the slot of a caller from node to node while four environments send requests
// of the caller. The store must decide each request, and admit exactly the limit. If a busy machine makes a
// decision miss the longest deadline, the environment decides, so the count is unknown.
func reshardUnderLoad(t *testing.T, found *problems, w *world) {
	t.Helper()
	const busy, policy = "192.0.2.3", "plenty"
	if a := w.ask(busy, policy); a.status != 204 || a.degraded != "" {
		found.add("%s: got %+v, want a decision by the store", policy, a)
		return
	}
	slot := w.slot(t, busy)
	var admitted, degraded atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		// if a variable has two values, the first applies
		e := newEnvironment(t, document, append([]string{"STORE_TIMEOUT=999ms"}, w.variables...)...)
		wg.Go(func() {
			for a := e.ask(busy, policy); a.status == 204 && admitted.Load() < 2*plenty; a = e.ask(busy, policy) {
				admitted.Add(1)
				if a.degraded != "" {
					degraded.Add(1)
				}
			}
			if err := e.close(); err != nil {
				t.Error(err)
			}
		})
	}
	const moves = 10
	for i := range moves { // one move at a time, because a request follows at most three redirects
		eventually(t, "some requests are admitted", func() bool { return admitted.Load() >= int64(plenty*i/moves) })
		w.cluster.move(t, slot)
	}
	wg.Wait()
	if n := degraded.Load(); n > 0 {
		found.add("decisions without the store during %d moves of the slot: got %d, want 0", moves, n)
	} else if got := admitted.Load() + 1; got != plenty {
		t.Errorf("admitted requests during %d moves of the slot: got %d, want %d", moves, got, plenty)
	}
}
