package simulate

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// Store names the kind of store that is simulated.
type Store string

// The stores.
const (
	DynamoDB    Store = "dynamodb"
	ElastiCache Store = "elasticache"
)

// Scenario is one limit under traffic. A limit with Global counts all callers together. Any other limit
// counts each caller separately.
type Scenario struct {
	Name  string
	Limit *limiter.Limit
	Parameters
	// rate returns the rate at a time since the start. It replaces Rate, unless it is nil.
	rate func(since time.Duration) float64
}

// Parameters describe the traffic, the functions and the store. Default sets all of them.
type Parameters struct {
	// Seed determines all random numbers. The same seed gives the same result.
	Seed  uint64 `json:"seed"`
	Store Store  `json:"store"`

	// Rate is the mean number of requests a second. Requests arrive as a Poisson process.
	Rate float64 `json:"rate"`
	// Callers send requests by Zipf's law: the frequency of the k-th caller is proportional to k to the
	// power of minus Exponent.
	Callers  int     `json:"callers"`
	Exponent float64 `json:"exponent"`
	// Warmup comes before Measured and does not count. Both are whole numbers of the limit's
	// windows.
	Warmup   time.Duration `json:"warmupNs"`
	Measured time.Duration `json:"measuredNs"`

	// Environments is the number of environments, which all exist from the start. 0 means three times
	// the mean number of busy environments. That mean assumes that each decision takes one call.
	Environments int `json:"environments"`
	// Invocation is the time of one invocation without the wait for the store.
	Invocation time.Duration `json:"invocationNs"`
	// Timeout is the longest wait of a decision for the store.
	Timeout time.Duration `json:"timeoutNs"`
	// Median and P99 are quantiles of a round trip to the store, which is log-normal.
	Median time.Duration `json:"medianNs"`
	P99    time.Duration `json:"p99Ns"`

	// ItemWrites is the number of write units that an item of DynamoDB accepts in a second.
	ItemWrites float64 `json:"itemWrites"`
	// SlotECPUs is the number of ECPUs a second that a slot of ElastiCache accepts. It also bounds each
	// key, because a key is in one slot. CacheECPUs is the number for the whole cache.
	SlotECPUs  float64 `json:"slotECPUs"`
	CacheECPUs float64 `json:"cacheECPUs"`
}

// Default returns the parameters of 100,000 requests a second by a million callers. The round trips are
// as short as between an environment and a store in the same region. SlotECPUs is the figure that AWS
// documents; it was not measured. CacheECPUs is five times the default of the construct.
func Default(store Store) Parameters {
	p := Parameters{
		Seed: 1, Store: store,
		Rate: 100_000, Callers: 1_000_000, Exponent: 1,
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

// fleet returns the number of environments.
func (p *Parameters) fleet() int {
	if p.Environments > 0 {
		return p.Environments
	}
	return int(math.Ceil(3 * p.Rate * (p.Invocation + p.Median).Seconds()))
}

// maxRequests bounds the time of a scenario: a billion requests take at least ten minutes.
const maxRequests = 1_000_000_000

// maxEnvironments bounds the memory, which is about 20 KB for each environment.
const maxEnvironments = 100_000

// validate returns an error for the first invalid field.
func (s *Scenario) validate() error {
	wrong := func(what string, got any, want string) error {
		return fmt.Errorf("%s: got %v, want %s", what, got, want)
	}
	switch window := s.Limit.Rate.Span(); {
	case s.Store != DynamoDB && s.Store != ElastiCache:
		return wrong("store", fmt.Sprintf("%q", s.Store), "dynamodb or elasticache")
	case !(s.Rate >= 1 && s.Rate <= 1e8):
		return wrong("rate", s.Rate, "1 to 1e8 requests a second")
	case s.Callers < 1 || s.Callers > math.MaxUint32:
		return wrong("callers", s.Callers, "1 to 4294967295")
	case !(s.Exponent >= 0 && s.Exponent <= 10):
		return wrong("exponent", s.Exponent, "0 to 10")
	case s.Measured <= 0 || s.Measured%window != 0:
		return wrong("measured time", s.Measured, fmt.Sprintf("a multiple of the window, %s", window))
	case s.Warmup < 0 || s.Warmup%window != 0:
		return wrong("warm-up", s.Warmup, fmt.Sprintf("0, or a multiple of the window, %s", window))
	case s.Rate*(s.Warmup+s.Measured).Seconds() > maxRequests:
		return wrong("rate times time", s.Rate*(s.Warmup+s.Measured).Seconds(), fmt.Sprintf("at most %d requests", maxRequests))
	case s.Environments < 0 || s.fleet() > maxEnvironments:
		return wrong("environments", cmp.Or(s.Environments, s.fleet()), fmt.Sprintf("1 to %d", maxEnvironments))
	case s.Invocation < 0 || s.Invocation > time.Minute:
		return wrong("invocation", s.Invocation, "0 to 1m")
	case s.Timeout <= 0 || s.Timeout >= limiter.MinWindow:
		return wrong("timeout", s.Timeout, "above 0 and below "+limiter.MinWindow.String())
	case s.Median <= 0 || s.P99 < s.Median || s.P99 > time.Minute:
		return wrong("median and p99", fmt.Sprintf("%s and %s", s.Median, s.P99), "a median above 0, and a p99 from that to 1m")
	case !(s.ItemWrites >= 1):
		return wrong("item writes", s.ItemWrites, "at least 1")
	case !(s.SlotECPUs >= ecpuPerScript && s.CacheECPUs >= ecpuPerScript):
		return wrong("ECPUs", fmt.Sprintf("%g and %g", s.SlotECPUs, s.CacheECPUs), fmt.Sprintf("at least %d, of a slot and of the cache", ecpuPerScript))
	}
	return nil
}
