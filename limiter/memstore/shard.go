package memstore

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// shard is a part of the subjects under one lock: a hash table with chains of nodes. A map of subjects to
// slices of limits would take three times the memory. Nodes contain no pointers, so the garbage collector
// does not read them.
type shard struct {
	mu     sync.Mutex
	chains []uint32       // first node of each chain; the length is a power of two
	blocks []*[block]node // node 0 is not used
	limits []limitOfNodes // node.limit is an index into limits

	seed     maphash.Seed              // hash seed of the whole store
	numbers  map[*limiter.Limit]uint32 // index of each limit in limits
	unused   []uint32                  // free indexes of limits
	free     uint32                    // first of a chain of removed nodes
	made     uint32                    // number of nodes, including removed ones and node 0
	nodes    int
	subjects int
	weight   int // sum of the weights of the nodes
	capacity int
	// logs holds the entries of logs, which have no room in a node.
	logs map[*node]algo.Entries
	// skews holds the Skews of the few states that were too far ahead of a clock.
	skews map[*node]algo.Skew
	// moved holds the share that moved of the limits that regions share, where it is not 0.
	moved map[*node]movedShare
	// due is the instant at which the next subject reaches full quota; an earlier sweep would find
	// nothing. swept is the instant of the last sweep.
	due, swept algo.Instant
}

// block is the number of nodes that are allocated together: 4 KB.
const block = 64

// node is one limit of a subject, in one cache line. The limits of a subject are in one chain.
type node struct {
	next    uint32       // next node of the chain; 0 if none
	limit   uint32       // index in shard.limits; this limit has the parameters and the version of the state
	state   algo.Compact // for a log, only its newest entry
	subject limiter.SubjectID
}

// limitOfNodes is a limit and the number of nodes that have it.
type limitOfNodes struct {
	*limiter.Limit
	nodes int
}

// movedShare is algo.State.Moved and MovedBefore.
type movedShare struct{ present, before int64 }

// key is a subject and its hash, by which the store finds it.
type key struct {
	hash    uint64
	subject limiter.Subject
}

func (sh *shard) init(seed maphash.Seed, capacity int) {
	*sh = shard{seed: seed, capacity: capacity, chains: make([]uint32, 1), made: 1, due: math.MaxInt64,
		numbers: map[*limiter.Limit]uint32{}, logs: map[*node]algo.Entries{}, skews: map[*node]algo.Skew{}, moved: map[*node]movedShare{}}
}

// chain returns the head of the chain that a subject is in.
func (sh *shard) chain(hash uint64) *uint32 {
	return &sh.chains[hash/shards&uint64(len(sh.chains)-1)] // the lower bits choose the shard
}

func (sh *shard) node(i uint32) *node { return &sh.blocks[i/block][i%block] }

func (sh *shard) limit(at *node) *limiter.Limit { return sh.limits[at.limit].Limit }

func (sh *shard) find(k key, id limiter.ID) *node {
	for i := *sh.chain(k.hash); i != 0; {
		at := sh.node(i)
		if at.subject.Is(k.subject) && sh.limit(at).ID == id {
			return at
		}
		i = at.next
	}
	return nil
}

// knows reports whether the shard holds a limit of the subject.
func (sh *shard) knows(k key) bool {
	for i := *sh.chain(k.hash); i != 0; i = sh.node(i).next {
		if sh.node(i).subject.Is(k.subject) {
			return true
		}
	}
	return false
}

func (sh *shard) add(k key, limit *limiter.Limit) *node {
	if !sh.knows(k) {
		sh.subjects++
	}
	if sh.nodes++; sh.nodes > len(sh.chains) {
		sh.grow()
	}
	i := sh.free
	if i != 0 {
		sh.free = sh.node(i).next
	} else {
		if i = sh.made; i/block == uint32(len(sh.blocks)) {
			sh.blocks = append(sh.blocks, new([block]node))
		}
		sh.made++
	}
	at, head := sh.node(i), sh.chain(k.hash)
	*at = node{next: *head, subject: k.subject.ID()}
	*head = i
	sh.use(at, limit)
	return at
}

// charge stores the state of a charged limit. at is the node of the limit; it is nil if the limit was never
// charged.
func (sh *shard) charge(k key, at *node, limit *limiter.Limit, s algo.State, now algo.Instant) {
	if at == nil {
		at = sh.add(k, limit)
		sh.due = min(sh.due, now.Add(limit.Machine().ResetAfter(s, now)))
	}
	sh.put(at, s)
}

// decide sets result to the state after charge c on its limit, and reports whether c is allowed. It
// stores no charge. *at is the node of the limit; see current. Most states are compact ones that need no copies of the
// large algo.State.
func (sh *shard) decide(k key, at **node, c *limiter.Charge, now algo.Instant, result *algo.Result) (allowed bool) {
	if m := c.Limit.Compacter(); *at != nil && m != nil && !c.Force && same(sh.limit(*at), c.Limit) {
		if next, allowed, known := m.TakeCompact((*at).state, now, c.Cost); known {
			*result = algo.Result{Machine: c.Limit.Machine(), State: m.State(next)}
			return allowed
		}
	}
	held := sh.current(k, at, c, now)
	next, allowed := c.Apply(held.Machine, held.State, now)
	*result = algo.Result{Machine: held.Machine, State: next, Clamped: held.Clamped}
	return allowed
}

func (sh *shard) use(at *node, limit *limiter.Limit) {
	n, ok := sh.numbers[limit]
	if !ok {
		if last := len(sh.unused) - 1; last >= 0 {
			n, sh.unused = sh.unused[last], sh.unused[:last]
		} else {
			n = uint32(len(sh.limits))
			sh.limits = append(sh.limits, limitOfNodes{})
		}
		sh.numbers[limit] = n
		sh.limits[n].Limit = limit
	}
	sh.limits[n].nodes++
	sh.weight += weight(limit)
	at.limit = n
}

// drop removes the limit, the entries, the Skew and the moved share of a node.
func (sh *shard) drop(at *node) {
	delete(sh.moved, at)
	delete(sh.logs, at)
	delete(sh.skews, at)
	used := &sh.limits[at.limit]
	sh.weight -= weight(used.Limit)
	if used.nodes--; used.nodes == 0 {
		delete(sh.numbers, used.Limit)
		used.Limit = nil
		sh.unused = append(sh.unused, at.limit)
	}
}

func (sh *shard) grow() {
	old := sh.chains
	sh.chains = make([]uint32, 2*len(old))
	for _, i := range old {
		for i != 0 {
			at := sh.node(i)
			next, head := at.next, sh.chain(at.subject.Hash(sh.seed))
			at.next, *head = *head, i
			i = next
		}
	}
}

// remove removes every limit of subject from its chain.
func (sh *shard) remove(chain *uint32, subject limiter.SubjectID) {
	sh.removeNodes(chain, func(at *node) bool { return at.subject == subject })
	sh.subjects--
}

// removeNodes removes the nodes that the function ends selects from a chain.
func (sh *shard) removeNodes(chain *uint32, ends func(*node) bool) {
	for link := chain; *link != 0; {
		i := *link
		at := sh.node(i)
		if !ends(at) {
			link = &at.next
			continue
		}
		sh.drop(at)
		*link = at.next
		at.next, sh.free = sh.free, i
		sh.nodes--
	}
}

func (sh *shard) tiers(k key, limit *limiter.Limit) (nodes []*node) {
	for _, id := range limit.Tiers {
		if at := sh.find(k, id); at != nil {
			nodes = append(nodes, at)
		}
	}
	return nodes
}

func (sh *shard) held(at *node) limiter.Held {
	limit := sh.limit(at)
	return limiter.Held{Result: algo.Result{Machine: limit.Machine(), State: sh.state(at)}, Version: limit.Version, Skew: sh.skews[at]}
}

func (sh *shard) state(at *node) algo.State {
	if m, ok := sh.limit(at).Machine().(algo.Compacter); ok {
		return m.State(at.state)
	}
	if w, ok := sh.limit(at).Machine().(*algo.Shared); ok {
		moved := sh.moved[at]
		return w.Whole.State(at.state).WithMoved(moved.present, moved.before)
	}
	return algo.State{Newest: algo.Instant(at.state.Instant), Entries: sh.logs[at]}
}

func (sh *shard) put(at *node, s algo.State) {
	if m, ok := sh.limit(at).Machine().(algo.Compacter); ok {
		at.state = m.Compact(s)
		return
	}
	if w, ok := sh.limit(at).Machine().(*algo.Shared); ok {
		at.state = w.Whole.Compact(s)
		if moved := (movedShare{s.Moved(), s.MovedBefore()}); moved != (movedShare{}) {
			sh.moved[at] = moved
		} else {
			delete(sh.moved, at)
		}
		return
	}
	at.state.Instant = int64(s.Newest)
	sh.logs[at] = s.Entries
}

// current returns the state that decides the charge c at the instant now (limiter.Held.Current). If Held.Current
// changed the state and the cost is not 0, current stores the state, and removes the nodes of c.Limit.Tiers. *at is the
// node of the limit; it is nil if the limit was never charged. If only a limit of c.Limit.Tiers was charged, the node of
// that limit becomes *at.
func (sh *shard) current(k key, at **node, c *limiter.Charge, now algo.Instant) limiter.Held {
	var held limiter.Held
	own := c.Limit
	if *at != nil {
		if held, own = sh.held(*at), sh.limit(*at); own != c.Limit && own.Fingerprint() == c.Limit.Fingerprint() {
			held.Machine = c.Limit.Machine() // so that Current need not format the fingerprint
		}
	}
	var of []limiter.Held
	tiers := sh.tiers(k, c.Limit)
	for _, other := range tiers {
		of = append(of, sh.held(other))
	}
	held, changed := held.Current(c.Limit, now, of...)
	if !changed || c.Cost == 0 {
		return held
	}
	if held.Machine == c.Limit.Machine() && held.Version == c.Limit.Version {
		own = c.Limit
	}
	if *at == nil {
		*at, tiers = tiers[0], tiers[1:]
	}
	sh.drop(*at) // remove the entries, because the new state may not be a log
	sh.use(*at, own)
	sh.put(*at, held.State)
	if held.Skew != (algo.Skew{}) {
		sh.skews[*at] = held.Skew
	}
	if len(tiers) > 0 {
		sh.removeNodes(sh.chain(k.hash), func(s *node) bool { return slices.Contains(tiers, s) })
	}
	sh.sooner(*at)
	return held
}

// sooner lowers sh.due to the instant at which the limit in a node reaches full quota. A new state can reach
// full quota earlier than the previous one.
func (sh *shard) sooner(at *node) {
	const past = algo.Instant(0)
	sh.due = min(sh.due, past.Add(sh.limit(at).Machine().ResetAfter(sh.state(at), past)))
}

// sweepPause is the least time between two sweeps of a shard. Otherwise each request in a flood of new
// subjects would cause a sweep.
const sweepPause = time.Second

// slotEntries is how many entries of logs take the memory of a node.
const slotEntries = 8

// weight returns the weight of a limit's node, measured in nodes: one for the node itself, plus the memory of
// all log entries that the node may hold.
func weight(limit *limiter.Limit) int {
	return 1 + int(limit.Machine().MaxEntries()+slotEntries-1)/slotEntries
}

// fits reports whether the shard has room for more limits of k's subject with this weight. If the shard
// holds no other subject, it has room for MaxCharges limits of any weight.
func (sh *shard) fits(k key, weight int) bool {
	return sh.weight+weight <= sh.capacity || sh.subjects == 0 || sh.subjects == 1 && sh.knows(k) && sh.nodes < limiter.MaxCharges
}

// room makes room for new limits of k's subject, and reports whether they fit. weight is the sum of
// their weights. If the shard has no space left, room first removes other subjects that have their full
// quota.
func (sh *shard) room(now algo.Instant, k key, weight int) bool {
	if sh.fits(k, weight) {
		return true
	}
	if pause := now.Sub(sh.swept); now < sh.due || pause >= 0 && pause < sweepPause {
		return false
	}
	sh.swept, sh.due = now, math.MaxInt64
	for i := range sh.chains {
		sh.sweep(&sh.chains[i], now, k)
	}
	return sh.fits(k, weight)
}

// sweep removes the subjects at full quota from a chain, but not the subject of k, whose nodes are being
// charged.
func (sh *shard) sweep(chain *uint32, now algo.Instant, k key) {
	for link := chain; *link != 0; {
		at := sh.node(*link)
		switch full := sh.fullAt(*chain, at.subject, now); {
		case at.subject.Is(k.subject):
			link = &at.next
		case full > now:
			sh.due = min(sh.due, full)
			link = &at.next
		default:
			sh.remove(chain, at.subject) // the nodes before it in the chain remain
		}
	}
}

// fullAt returns the instant from which all limits of the subject have full quota; at the earliest, it is the
// instant now.
func (sh *shard) fullAt(first uint32, subject limiter.SubjectID, now algo.Instant) algo.Instant {
	full := now
	for i := first; i != 0; i = sh.node(i).next {
		if at := sh.node(i); at.subject == subject {
			full = max(full, now.Add(sh.limit(at).Machine().ResetAfter(sh.state(at), now)))
		}
	}
	return full
}
