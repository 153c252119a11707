package simulate

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// Store is the kind of store to simulate.
type Store string

// The stores.
const (
	DynamoDB    Store = "dynamodb"
	ElastiCache Store = "elasticache"
)

// Scenario is traffic whose requests all charge the same limits.
type Scenario struct {
	Name string
	// Limit is the limit of every request. If it has Global, it counts all callers together, otherwise each caller.
	Limit *limiter.Limit
	Parameters
	// rate returns the requests per second at a time since the start. nil: Rate applies.
	rate func(since time.Duration) float64
}

// Parameters describe the traffic, the functions and the store. Default returns a complete set.
type Parameters struct {
	// Seed determines all random numbers. The same seed gives the same result.
	Seed  uint64
	Store Store

	// Rate is the mean number of requests per second, which arrive as a Poisson process.
	Rate float64
	// The k-th of Callers sends requests with a frequency proportional to 1/k (Zipf's law).
	Callers int
	// Warmup is simulated before Measured and does not count. Both are multiples of the limit's
	// window.
	Warmup   time.Duration
	Measured time.Duration

	// Environments is the number of environments, which exist from the start. 0 means three times
	// the mean number of busy ones, if each decision makes one call.
	Environments int
	// Invocation is the duration of an invocation without the wait for the store.
	Invocation time.Duration
	// Timeout is the longest time that a decision waits for the store.
	Timeout time.Duration
	// Median and P99 are quantiles of the log-normal round trip to the store.
	Median time.Duration
	P99    time.Duration

	// ItemWrites is the number of write units per second that a DynamoDB item accepts.
	ItemWrites float64
	// SlotECPUs is the number of ECPUs per second that a slot of ElastiCache accepts, and so each
	// key in it. CacheECPUs is the number for the whole cache.
	SlotECPUs  float64
	CacheECPUs float64
}

func (s *Scenario) charges(caller uint32) []limiter.Charge {
	charge := limiter.Charge{Subject: limiter.Global(), Limit: s.Limit, Cost: 1}
	if !s.Limit.Global {
		charge.Subject = limiter.User(strconv.FormatUint(uint64(caller), 10))
	}
	return []limiter.Charge{charge}
}

// Default returns parameters for 100,000 requests per second by a million callers. Environment and
// store are in the same region. SlotECPUs is AWS's documented figure, which was not measured;
// CacheECPUs is five times the construct's default.
func Default(store Store) Parameters {
	p := Parameters{
		Seed: 1, Store: store,
		Rate: 100_000, Callers: 1_000_000,
		Warmup: 2 * time.Second, Measured: 3 * time.Second,
		Invocation: time.Millisecond,
		Timeout:    100 * time.Millisecond, Median: 4 * time.Millisecond, P99: 12 * time.Millisecond,
		ItemWrites: 1000, SlotECPUs: 30_000, CacheECPUs: 500_000,
	}
	if store == ElastiCache {
		p.Timeout, p.Median, p.P99 = 50*time.Millisecond, 600*time.Microsecond, 2*time.Millisecond
	}
	return p
}

func (p *Parameters) fleet() int {
	if p.Environments > 0 {
		return p.Environments
	}
	return int(math.Ceil(3 * p.Rate * (p.Invocation + p.Median).Seconds()))
}
