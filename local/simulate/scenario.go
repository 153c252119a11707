package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
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
	// Limit is the only limit. If it has Global, it counts all callers together, otherwise each caller separately. nil
	// means that Charges returns the limits.
	Limit *limiter.Limit
	// Charges appends the charges of a request of a caller to dst. All callers have the same limits, and a caller always
	// has the same charges. It is called by several goroutines.
	Charges func(dst []limiter.Charge, caller uint32) []limiter.Charge
	Parameters
	// Answers describes the answers of admitted requests. It is unused if no limit has a Count.
	Answers Answers
	// Reserve is what a request charges at admission if Limit has a Count.
	Reserve int64
	// rate returns the requests per second at a time since the start. nil: Rate applies.
	rate    func(since time.Duration) float64
	traffic traffic
	// rejoins is how long after the warm-up the cut of the traffic ends; 0: never.
	rejoins time.Duration
}

// Parameters describe the traffic, the functions and the store. Default returns a complete set.
type Parameters struct {
	// Seed determines all random numbers. The same seed gives the same result.
	Seed  uint64 `json:"seed"`
	Store Store  `json:"store"`

	// Rate is the mean number of requests per second, which arrive as a Poisson process.
	Rate float64 `json:"rate"`
	// The k-th of Callers sends requests with a frequency proportional to k^-Exponent (Zipf's law).
	Callers  int     `json:"callers"`
	Exponent float64 `json:"exponent"`
	// One of Sample requests is simulated. 0 means all. Sample callers of neighbouring frequencies become one caller with
	// their mean frequency, and limits that callers share are divided by Sample. A sample does not show whether the store
	// throttles an item.
	Sample int `json:"sample,omitempty"`
	// Warmup is simulated before Measured and does not count. Both are multiples of the limit's
	// window.
	Warmup   time.Duration `json:"warmupNs"`
	Measured time.Duration `json:"measuredNs"`

	// Edge is the time until a new entry in the list of a distribution in front acts. 0 means that there is none. Limits
	// with limiter.Limit.Edge are listed.
	Edge time.Duration `json:"edgeNs,omitempty"`

	// Regions is the number of regions that share the limits; 0 means one region. Each has a table of its own. Distance is
	// what a call of another region takes longer than one of the own.
	Regions  int           `json:"regions,omitempty"`
	Distance time.Duration `json:"distanceNs,omitempty"`

	// Environments is the number of environments in each region, which exist from the start. 0 means three times
	// the mean number of busy ones, if each decision makes one call.
	Environments int `json:"environments"`
	// Invocation is the duration of an invocation without the wait for the store.
	Invocation time.Duration `json:"invocationNs"`
	// Timeout is the longest time that a decision waits for the store.
	Timeout time.Duration `json:"timeoutNs"`
	// Median and P99 are quantiles of the log-normal round trip to the store.
	Median time.Duration `json:"medianNs"`
	P99    time.Duration `json:"p99Ns"`

	// ItemWrites is the number of write units per second that a DynamoDB item accepts.
	ItemWrites float64 `json:"itemWrites"`
	// SlotECPUs is the number of ECPUs per second that a slot of ElastiCache accepts, and so each
	// key in it. CacheECPUs is the number for the whole cache.
	SlotECPUs  float64 `json:"slotECPUs"`
	CacheECPUs float64 `json:"cacheECPUs"`
}

// Answers describes what a request's answer shows. Durations and costs are log-normal, or constant
// if median and P99 are equal.
type Answers struct {
	Duration    time.Duration `json:"durationNs"` // median time from the admission to the end of the answer
	DurationP99 time.Duration `json:"durationP99Ns"`
	Cost        int64         `json:"cost"` // median of the reported cost, or of the body's bytes
	CostP99     int64         `json:"costP99"`
	Failures    float64       `json:"failures"` // part of the requests that fail
}

func (s *Scenario) charges(caller uint32) []limiter.Charge {
	if s.Limit == nil {
		return s.Charges(nil, caller)
	}
	charge := limiter.Charge{Subject: limiter.Global(), Limit: s.Limit, Cost: 1}
	if !s.Limit.Global {
		charge.Subject = limiter.User(strconv.FormatUint(uint64(caller), 10))
	}
	if s.Limit.Count.Settles() {
		charge.Cost = s.Reserve
	}
	return []limiter.Charge{charge}
}

// enforced returns the charges of a caller on limits that can refuse its requests.
func (s *Scenario) enforced(caller uint32) []limiter.Charge {
	return slices.DeleteFunc(s.charges(caller), func(c limiter.Charge) bool { return c.Limit.Shadow || c.Limit.Mark })
}

// DefaultAnswers returns answers of 100 ms, of which a fifth fails.
func DefaultAnswers() Answers {
	return Answers{Duration: 100 * time.Millisecond, DurationP99: 400 * time.Millisecond, Cost: 2, CostP99: 6, Failures: 0.2}
}

// counts reports whether a limit settles charges after the answers.
func (s *Scenario) counts() bool {
	return slices.ContainsFunc(s.charges(1), func(c limiter.Charge) bool { return c.Limit.Count.Settles() })
}

// unfilled reports whether the warm-up is shorter than the window of a limit, whose count is then still low.
func (s *Scenario) unfilled() bool {
	return s.Limit == nil && s.Warmup < s.longest()
}

// longest returns the longest window or period of the limits.
func (s *Scenario) longest() (span time.Duration) {
	for _, c := range s.enforced(1) {
		if !c.Limit.Rate.Algorithm.TakesSlots() {
			span = max(span, c.Limit.Rate.Span())
		}
	}
	return span
}

// Default returns parameters for 100,000 requests per second by a million callers. Environment and
// store are in the same region. SlotECPUs is AWS's documented figure, which was not measured;
// CacheECPUs is five times the construct's default.
func Default(store Store) Parameters {
	p := Parameters{
		Seed: 1, Store: store,
		Rate: 100_000, Callers: 1_000_000, Exponent: 1,
		Warmup: 2 * time.Second, Measured: 3 * time.Second,
		Invocation: time.Millisecond,
		Timeout:    100 * time.Millisecond, Median: 4 * time.Millisecond, P99: 12 * time.Millisecond,
		Distance:   80 * time.Millisecond,
		ItemWrites: 1000, SlotECPUs: 30_000, CacheECPUs: 500_000,
	}
	if store == ElastiCache {
		p.Timeout, p.Median, p.P99 = 50*time.Millisecond, 600*time.Microsecond, 2*time.Millisecond
	}
	return p
}

// sample returns the number of requests of which one is simulated.
func (p *Parameters) sample() int { return max(1, p.Sample) }

func (p *Parameters) simulated() float64 { return p.Rate / float64(p.sample()) }

// Requests returns the mean number of requests that a run simulates.
func (p *Parameters) Requests() float64 { return p.simulated() * (p.Warmup + p.Measured).Seconds() }

func (p *Parameters) fleet() int {
	if p.Environments > 0 {
		return p.Environments
	}
	return int(math.Ceil(3 * p.Rate * (p.Invocation + p.Median).Seconds()))
}

// fleet returns the number of simulated environments. A sample of the requests keeps the number, so that each
// environment gets as many requests of a caller as without a sample. If callers share every limit, it divides the number,
// so that each environment gets as many requests of a limit.
func (s *Scenario) fleet() int {
	if s.sample() == 1 || len(s.own()) > 0 {
		return s.environments()
	}
	return max(1, s.environments()/s.sample())
}

// environments returns the number of environments. With a Count, a request occupies its environment until its
// settlement.
func (s *Scenario) environments() int {
	if s.Environments > 0 || !s.counts() {
		return s.Parameters.fleet()
	}
	mean := newLognormal(s.Answers.Duration, s.Answers.DurationP99).mean()
	return int(math.Ceil(3 * s.Rate * (s.Invocation + 2*s.Median + mean).Seconds()))
}

// maxRequests bounds the duration of a run: a billion requests take at least ten minutes.
const maxRequests = 1_000_000_000

// maxEnvironments bounds the memory, about 20 KB per environment.
const maxEnvironments = 100_000

func (s *Scenario) validate() error {
	wrong := func(what string, got any, want string) error {
		return fmt.Errorf("%s: got %v, want %s", what, got, want)
	}
	window := time.Duration(1) // only a single limit with a window bounds the duration: periods may end within the simulation, and slots have no window
	if s.Limit != nil && s.Limit.Rate.Calendar.Period == "" && !s.Limit.Rate.Algorithm.TakesSlots() {
		window = s.Limit.Rate.Span()
	}
	switch {
	case s.Store != DynamoDB && s.Store != ElastiCache:
		return wrong("store", fmt.Sprintf("%q", s.Store), "dynamodb or elasticache")
	case !(s.Rate > 0 && s.Rate <= 1e8):
		return wrong("rate", s.Rate, "above 0, at most 1e8 requests a second")
	case s.Callers < s.sample() || s.Callers > math.MaxUint32:
		return wrong("callers", s.Callers, fmt.Sprintf("%d to 4294967295", s.sample()))
	case !(s.Exponent >= 0 && s.Exponent <= 10):
		return wrong("exponent", s.Exponent, "0 to 10")
	case s.Measured <= 0 || s.Measured%window != 0:
		return wrong("measured time", s.Measured, fmt.Sprintf("a multiple of the window, %s", window))
	case s.Warmup < 0 || s.Warmup%window != 0:
		return wrong("warm-up", s.Warmup, fmt.Sprintf("0, or a multiple of the window, %s", window))
	case s.Requests() > maxRequests:
		return wrong("rate times time", s.Requests(), fmt.Sprintf("at most %d requests", maxRequests))
	case s.Edge != 0 && (s.Edge < minEdge || s.Edge > time.Hour):
		return wrong("edge", s.Edge, fmt.Sprintf("0, or %s to 1h", minEdge))
	case s.Environments < 0 || s.fleet() > maxEnvironments:
		return wrong("environments", cmp.Or(s.Environments, s.fleet()), fmt.Sprintf("1 to %d", maxEnvironments))
	case s.Invocation < 0 || s.Invocation > time.Minute:
		return wrong("invocation", s.Invocation, "0 to 1m")
	case s.Timeout <= 0 || s.Timeout >= limiter.MinWindow:
		return wrong("timeout", s.Timeout, "above 0 and below "+limiter.MinWindow.String())
	case s.Median <= 0 || s.P99 < s.Median || s.P99 > time.Minute:
		return wrong("median and p99", fmt.Sprintf("%s and %s", s.Median, s.P99), "a median above 0, and a p99 from that to 1m")
	case s.counts() && (s.Answers.Duration < time.Millisecond || s.Answers.DurationP99 < s.Answers.Duration || s.Answers.DurationP99 > time.Hour):
		return wrong("duration", fmt.Sprintf("%s and %s", s.Answers.Duration, s.Answers.DurationP99), "a median of at least 1ms, and a p99 from that to 1h")
	case s.counts() && (s.Answers.Cost < 1 || s.Answers.CostP99 < s.Answers.Cost || s.Answers.CostP99 > algo.MaxRequests):
		return wrong("cost", fmt.Sprintf("%d and %d", s.Answers.Cost, s.Answers.CostP99), fmt.Sprintf("a median of at least 1, and a p99 from that to %d", int64(algo.MaxRequests)))
	case s.counts() && !(s.Answers.Failures >= 0 && s.Answers.Failures <= 1):
		return wrong("failures", s.Answers.Failures, "0 to 1")
	case s.Limit != nil && s.counts() && (s.Reserve < 1 || s.Reserve > s.Limit.Machine().Capacity()):
		return wrong("reserve", s.Reserve, fmt.Sprintf("1 to the capacity, %d", s.Limit.Machine().Capacity()))
	case !(s.ItemWrites >= 1):
		return wrong("item writes", s.ItemWrites, "at least 1")
	case !(s.SlotECPUs >= ecpuPerScript && s.CacheECPUs >= ecpuPerScript):
		return wrong("ECPUs", fmt.Sprintf("%g and %g", s.SlotECPUs, s.CacheECPUs), fmt.Sprintf("at least %d, of a slot and of the cache", ecpuPerScript))
	}
	return nil
}
