package memstore

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// shard is a part of the subjects under one lock: a hash table with chains of slots.
// A map of subjects to slices of limits would take three times the memory, and hash
// each subject a second time.
type shard struct {
	mu       sync.Mutex
	seed     maphash.Seed // the store's
	chains   []*slot      // a power of two
	slots    int
	subjects int
	weight   int // of the slots
	capacity int
	// logs holds the entries of logs, which have no room in a slot.
	logs map[*slot]algo.Entries
	// marks holds the marks of states that were too far ahead of a clock, which are few.
	marks map[*slot]algo.Mark
	// due is when the next subject reaches full quota: before it, a sweep of a full shard
	// would find nothing. swept is when it was last swept.
	due, swept algo.Instant

	_ [40]byte // keeps the locks of two shards out of one cache line
}

// key is a subject and its place in a shard.
type key struct {
	subject limiter.Subject
	hash    uint64
}

func keyOf(seed maphash.Seed, subject limiter.Subject) key {
	return key{subject, maphash.Comparable(seed, subject)}
}

// slot is one limit of a subject. The limits of a subject are in one chain.
type slot struct {
	next    *slot
	subject limiter.Subject
	limit   *limiter.Limit // whose parameters and version the state has
	// instant is a bucket's TAT, a window's index or the newest entry of a log; count
	// a bucket's refunds, or the two counts of a window, which fit 32 bits each.
	instant int64
	count   uint64
}

// chain returns the head of the chain that k is in.
func (sh *shard) chain(k key) **slot {
	return &sh.chains[k.hash/shards&uint64(len(sh.chains)-1)] // below that it says which shard
}

func (sh *shard) find(k key, id limiter.ID) *slot {
	at := *sh.chain(k)
	for at != nil && (at.limit.ID != id || at.subject != k.subject) {
		at = at.next
	}
	return at
}

// knows reports whether the shard holds a limit of the subject.
func (sh *shard) knows(k key) bool {
	at := *sh.chain(k)
	for at != nil && at.subject != k.subject {
		at = at.next
	}
	return at != nil
}

// add returns a new slot for a limit of k.
func (sh *shard) add(k key, limit *limiter.Limit) *slot {
	if !sh.knows(k) {
		sh.subjects++
	}
	sh.weight += weight(limit)
	if sh.slots++; sh.slots > len(sh.chains) {
		sh.grow()
	}
	head := sh.chain(k)
	*head = &slot{next: *head, subject: k.subject, limit: limit}
	return *head
}

// grow doubles the table.
func (sh *shard) grow() {
	old := sh.chains
	sh.chains = make([]*slot, 2*len(old))
	for _, at := range old {
		for at != nil {
			next, head := at.next, sh.chain(keyOf(sh.seed, at.subject))
			at.next, *head = *head, at
			at = next
		}
	}
}

// remove removes every limit of subject from its chain.
func (sh *shard) remove(chain **slot, subject limiter.Subject) {
	for at := chain; *at != nil; {
		if (*at).subject != subject {
			at = &(*at).next
			continue
		}
		delete(sh.logs, *at)
		delete(sh.marks, *at)
		sh.weight -= weight((*at).limit)
		*at = (*at).next
		sh.slots--
	}
	sh.subjects--
}

// charge decides the only charge of a request as Machine.Take does, and makes it, if the
// slot holds the very limit and an honest state, of the present window if it is a
// window's. Otherwise it reports false. That is most charges, and five times as fast:
// states are large, and Settle and Apply pass them on many times.
func (at *slot) charge(c *limiter.Charge, now algo.Instant, r *algo.Result) (ok, known bool) {
	if at == nil || at.limit != c.Limit || c.Force || c.Cost == 0 {
		return false, false
	}
	switch m := at.limit.Machine().(type) {
	case *algo.Bucket:
		tat := algo.Instant(at.instant)
		if tat > m.MaxHonest(now) || c.Cost > m.Burst {
			return false, false
		}
		if ok = tat <= m.Latest(now, c.Cost); ok {
			tat = max(tat, now).Add(m.Increment(c.Cost))
			at.instant = int64(tat)
		}
		*r = algo.Result{Machine: m, State: algo.State{TAT: tat, Refunds: int64(at.count)}}
		return ok, true
	case *algo.Window:
		index := m.Index(now)
		if at.instant != index || c.Cost > m.Requests {
			return false, false
		}
		count, previous := at.counts()
		// Most often there is room even if all of the previous window counts.
		if ok = count <= m.Requests-c.Cost-previous || count <= m.Room(index, now, previous, c.Cost); ok {
			count += c.Cost
			at.setCounts(count, previous)
		}
		*r = algo.Result{Machine: m, State: algo.State{Window: index, Count: count, Previous: previous}}
		return ok, true
	}
	return false, false
}

// counts returns what a window counts and what the one before it counted.
func (at *slot) counts() (count, previous int64) {
	return int64(at.count >> 32), int64(uint32(at.count))
}

func (at *slot) setCounts(count, previous int64) { at.count = uint64(count)<<32 | uint64(previous) }

// held returns what a slot holds.
func (sh *shard) held(at *slot) limiter.Held {
	return limiter.Held{Result: algo.Result{Machine: at.limit.Machine(), State: sh.state(at)}, Version: at.limit.Version, Mark: sh.marks[at]}
}

func (sh *shard) state(at *slot) algo.State {
	switch at.limit.Machine().(type) {
	case *algo.Bucket:
		return algo.State{TAT: algo.Instant(at.instant), Refunds: int64(at.count)}
	case *algo.Window:
		count, previous := at.counts()
		return algo.State{Window: at.instant, Count: count, Previous: previous}
	}
	return algo.State{Newest: algo.Instant(at.instant), Entries: sh.logs[at]}
}

// put replaces the state in a slot.
func (sh *shard) put(at *slot, s algo.State) {
	switch at.limit.Machine().(type) {
	case *algo.Bucket:
		at.instant, at.count = int64(s.TAT), uint64(s.Refunds)
	case *algo.Window:
		at.instant = s.Window
		at.setCounts(s.Count, s.Previous)
	case *algo.Log:
		at.instant = int64(s.Newest)
		sh.logs[at] = s.Entries
	}
}

// mark replaces the mark of a slot.
func (sh *shard) mark(at *slot, k algo.Mark) {
	switch {
	case k == algo.Mark{}:
		delete(sh.marks, at)
	case sh.marks == nil:
		sh.marks = map[*slot]algo.Mark{at: k}
	default:
		sh.marks[at] = k
	}
}

// sooner makes the next sweep no later than the limit in a slot is at full quota: what it
// held before may have put the sweep off for longer.
func (sh *shard) sooner(at *slot) {
	const past = algo.Instant(0)
	sh.due = min(sh.due, past.Add(at.limit.Machine().ResetAfter(sh.state(at), past)))
}

// sweepPause is the least time between two sweeps of a shard: a flood of new subjects
// must not buy one each.
const sweepPause = time.Second

// slotEntries is how many entries of logs take the memory of a slot.
const slotEntries = 8

// weight returns what a slot of limit counts: one, and the room of all entries that it may hold.
func weight(limit *limiter.Limit) int {
	if l, ok := limit.Machine().(*algo.Log); ok {
		return 1 + int(l.MaxDebt()+slotEntries-1)/slotEntries
	}
	return 1
}

// fits reports whether there is room for limits of a weight in k's subject. There is for the only
// subject, whatever it weighs, until it has as many limits as a request charges.
func (sh *shard) fits(k key, weight int) bool {
	return sh.weight+weight <= sh.capacity || sh.subjects == 0 || sh.subjects == 1 && sh.knows(k) && sh.slots < limiter.MaxCharges
}

// room reports whether the shard can take limits of a weight in k's subject, after removing other
// subjects at full quota if it is full.
func (sh *shard) room(now algo.Instant, k key, weight int) bool {
	if sh.fits(k, weight) {
		return true
	}
	if pause := now.Sub(sh.swept); now < sh.due || pause >= 0 && pause < sweepPause {
		return false
	}
	sh.swept, sh.due = now, math.MaxInt64
	for i := range sh.chains {
		chain := &sh.chains[i]
		for at := chain; *at != nil; {
			subject := (*at).subject
			switch full := sh.fullAt(*chain, subject, now); {
			case subject == k.subject: // whose slots are being charged
				at = &(*at).next
			case full > now:
				sh.due = min(sh.due, full)
				at = &(*at).next
			default:
				sh.remove(chain, subject) // what stands before it in the chain stays
			}
		}
	}
	return sh.fits(k, weight)
}

// fullAt returns when all limits of subject are at full quota, now at the earliest.
func (sh *shard) fullAt(chain *slot, subject limiter.Subject, now algo.Instant) algo.Instant {
	full := now
	for at := chain; at != nil; at = at.next {
		if at.subject == subject {
			full = max(full, now.Add(at.limit.Machine().ResetAfter(sh.state(at), now)))
		}
	}
	return full
}
