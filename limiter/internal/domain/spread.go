package domain

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// Spread reduces the calls on the one item or key that counts a busy limit. At most one field is set. The zero value
// charges the store for every request. A Local store ignores all fields.
//
// A limit that changes from or to Shards starts at full quota, because its earlier counts are elsewhere. The
// same is true for Sync with a window below four seconds. A limit that no longer has Sync loses the
// charges since the last sync of each process.
type Spread struct {
	// Lease is the largest number of requests that a process takes from the store at once. The process then decides
	// these requests without further calls. It starts with one request, and takes more if it uses up its leases. With
	// 1, it never takes requests in advance.
	//
	// A lease never admits too many requests. It can admit too few: a lease lasts for a second, and its process may
	// not use all of it. A bucket's lease leaks at the rate of the limit, so leases save more calls for windows. Near
	// the limit, requests are charged one by one.
	Lease int64
	// Shards is the number of parts that count separately, each with its share of the limit. A request
	// charges a random shard. If that shard refuses, the request charges a second shard. A refusal reports
	// the shortest wait of the known shards.
	//
	// Shards never admit too many requests. If new rules have fewer requests, they apply to each shard: a shard with room
	// admits although another has used more than its new part. Shards can refuse while others have room. A cost is
	// at most the capacity of one shard. Remaining is an estimate from the charged shard.
	Shards int
	// Sync divides the limit between processes in proportion to their demand. Each process decides by its share, sends
	// its demand, and reads the total. Sync is the shortest interval between two syncs of a process. With many
	// processes, the interval grows, so that all of them together send about 360 a second: it is 17 s for 6,000
	// processes. Sync is for limits of all callers that are too large for one item. It is the default for limits of all
	// callers on DynamoDB, with DefaultSync.
	//
	// After the first syncs, the processes admit at most 5 % more than the limit, and on average
	// 3 % less. If demand rises fivefold, shares grow before all processes have sent a sync. Then the
	// total excess is at most the sum of these:
	//
	//   - two seconds of the limit;
	//   - a fifth of a second of the limit, for each second of the interval;
	//   - for each process, one request and twice the square root of its share of a second.
	//
	// These bounds are measured with 600 and with 6,000 processes, and with DefaultSync. If all processes start together,
	// each admits up to the limit for two seconds, until it has read the syncs of the others.
	//
	// Sync can refuse too many requests if demand shifts to few processes at once. It enforces a
	// window shorter than four intervals as a rate. Decision.Overshoot reports the excess.
	//
	// A process whose Options.Subjects leave no room for its count asks the store instead. The store counts these requests
	// together with those of the other processes only if the window is at least four seconds long.
	//
	// While the store is down, each process enforces the whole limit by its own count. If OnError
	// denies or divides the limit, the process instead calls the store for each request until the
	// store answers. A sync without an answer is not sent again. The store counts it at most once,
	// and the process that sent it always counts it.
	Sync time.Duration
}

// Bounds of a Spread.
const (
	MaxShards = 64
	MinSync   = 10 * time.Millisecond
	MaxSync   = quota.SyncWindow / 2 // at twice this interval, processes exceed the limit by 8 %
)

// DefaultSync is the Sync of large limits of all callers on DynamoDB.
const DefaultSync = 500 * time.Millisecond

// Counts returns the Rate.Counts of a limit: whether its state must be counts. A lease belongs to the window that
// counted it, and the share of a process is computed from a count.
func (s Spread) Counts() bool { return s.Lease > 0 || s.Sync > 0 }

func (s Spread) validate(rate algo.Rate, capacity int64) error {
	set, noLease := "", rate.Algorithm.NoLease()
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64
		unit        time.Duration
	}{
		{"lease", s.Lease, 1, capacity, 1},
		{"shards", int64(s.Shards), 2, min(MaxShards, maxParts(rate)), 1},
		{"sync_ms", int64(s.Sync), int64(MinSync), int64(min(MaxSync, rate.Span())), time.Millisecond},
	} {
		if f.value == 0 {
			continue
		}
		got := f.value / int64(f.unit)
		switch {
		case set != "":
			return &algo.FieldError{Field: f.name, Got: got, Want: "none beside " + set}
		case f.value < f.least || f.value > f.most:
			return &algo.FieldError{Field: f.name, Got: got, Want: fmt.Sprintf("%d to %d here", f.least/int64(f.unit), f.most/int64(f.unit))}
		case noLease != "" && (f.name != "shards" || rate.Algorithm.Queues()):
			return &algo.FieldError{Field: f.name, Got: got, Want: "none: " + noLease}
		}
		set = f.name
	}
	return nil
}

// maxParts returns the largest number of parts into which a rate can be divided.
func maxParts(r algo.Rate) int64 {
	if r.Burst > 0 {
		return min(r.Requests, r.Burst)
	}
	return r.Requests
}

// divideRate divides a rate into n parts and returns part i. The parts are equal, and their sum can be less
// than the rate. If all is true, the first parts get one more request where necessary, so that the sum is the
// rate.
func divideRate(r algo.Rate, i, n int64, all bool) algo.Rate {
	one := func(whole int64) int64 {
		if all && i < whole%n {
			return whole/n + 1
		}
		return whole / n
	}
	r.Counts = r.Counts || r.Requests > algo.MaxExact // the parts count like the whole
	r.Requests, r.Burst, r.Of = one(r.Requests), one(r.Burst), one(r.Of)
	r.Least = min(r.Least, max(1, one(r.Least)))
	return r
}
