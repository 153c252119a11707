package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisContender is one implementation of a decision in Redis.
type redisContender struct {
	name     string
	baseline bool // no limiter; shows the maximum throughput of server and client
	// open returns a function that decides by all limits. It may add hooks to client, which no other
	// contender uses.
	open func(client *redis.Client, limits []redisLimit) (decideRedis, error)
}

type redisLimit struct {
	requests int
	window   time.Duration
}

// decideRedis decides one request by all limits.
type decideRedis func(ctx context.Context, caller string) (allowed bool, err error)

const (
	redisCallers  = 64     // goroutines, each with one pending request
	redisManyKeys = 10_000 // number of callers in a measurement with many keys
	redisSlices   = 3      // number of parts of a measurement; the no-op script is measured before each part
	memoryCallers = 50_000 // number of callers in the measurement of memory
	memoryDB      = 15     // Redis database for the measurement of memory; it must be empty
	memoryKey     = 21     // length of the first key of each caller in the measurement of memory
)

var redisColumns = []column{
	{"1 limit", 2}, {"3 limits", 2}, {"one caller", 2}, {"one key", 2}, {"refused", 2}, {"CPU us, 1", 1}, {"bytes, 3", 0}, {"errors %, one key", 1}, {"over-admitted", 0}, {"decisions/s", 0},
}

func redisGroup(ctx context.Context, b *bench) (group, error) {
	m, err := b.redis(ctx)
	if err != nil {
		return group{}, err
	}
	defer m.close(context.WithoutCancel(ctx))
	var contenders []contender
	for _, c := range redisContenders() {
		// The memory does not vary, so one measurement is enough. It runs while the server has no other load.
		bytes, err := m.memory(ctx, c)
		if err != nil {
			return group{}, fmt.Errorf("%s: %w", c.name, err)
		}
		contenders = append(contenders, contender{c.name, func() ([]figure, error) { return m.line(ctx, c, bytes) }})
	}
	rows, err := b.interleave(ctx, contenders)
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Redis: throughput as a share of a no-op script's, server CPU and bytes a caller", Corner: "64 callers", Columns: redisColumns, Rows: rows,
		Omitted: []string{"errors %, one key", "over-admitted"},
		Note: "The first five columns compare the throughput with that of a no-op script, which as many callers run without a pipeline. Both alternate several times a second. " +
			"Peers decide by three limits one after another. CPU is the server's time for a decision. " +
			fmt.Sprintf("Bytes are the used_memory of a caller, for %d callers with keys of %d characters. ", memoryCallers, memoryKey) +
			"Decisions/s are for one limit on many keys.",
	}
	t.Note += " Wrong decisions: " + t.aboveZero("errors %, one key", "over-admitted") + "."
	return group{Name: "Redis", Tables: []table{t}}, nil
}

// redisMeasure measures contenders on one server. The server may hold other data. Therefore every
// key contains the name of the run, and the run removes its keys at the end.
type redisMeasure struct {
	options *redis.Options
	client  *redis.Client // of the no-op script and of the measurement itself
	noop    decideRedis
	run     string
	time    time.Duration // duration of one slice of a measurement
}

// redis connects to the server.
func (b *bench) redis(ctx context.Context) (*redisMeasure, error) {
	options, err := redis.ParseURL(b.address)
	if err != nil {
		return nil, err
	}
	options.PoolSize, options.MaxRetries = redisCallers, -1
	options.ContextTimeoutEnabled = true
	m := &redisMeasure{options: options, client: redis.NewClient(options), run: fmt.Sprintf("bench%08x", rand.Uint32()), time: 200 * time.Millisecond}
	if b.quick {
		m.time /= 10
	}
	if m.noop, err = openNoop(m.client, nil); err != nil {
		return nil, err
	}
	b.versions["Redis"], err = m.info(ctx, "server", "redis_version")
	return m, err
}

// close removes what the run wrote.
func (m *redisMeasure) close(ctx context.Context) {
	_ = m.remove(ctx) // the keys expire anyway
	_ = m.client.Close()
}

func (m *redisMeasure) caller() string { return fmt.Sprintf("%s-%016x", m.run, rand.Uint64()) }

var (
	// generous limits are too large for any measurement to reach.
	generous = []redisLimit{{endless, time.Hour}, {endless, time.Minute}, {endless, 24 * time.Hour}}
	// lasting limits are for the measurement of memory. Their windows are longer than the measurement.
	lasting = []redisLimit{{100, 24 * time.Hour}, {1000, 24 * time.Hour}, {2000, 48 * time.Hour}}
	tight   = []redisLimit{{100, time.Hour}}
)

// line measures the throughput of a contender whose callers need the given number of bytes.
func (m *redisMeasure) line(ctx context.Context, c redisContender, bytes figure) (line []figure, err error) {
	var clients []*redis.Client
	defer func() {
		for _, client := range clients {
			_ = client.Close()
		}
	}()
	open := func(limits []redisLimit) decideRedis {
		client := redis.NewClient(m.options)
		clients = append(clients, client)
		decide, e := c.open(client, limits)
		if e != nil {
			err = e
		}
		return decide
	}
	one, three, refused, exact := open(generous[:1]), open(generous), open(tight), open(tight)
	if err != nil {
		return nil, err
	}
	flooded := m.caller()
	for range tight[0].requests {
		if _, err := refused(ctx, flooded); err != nil {
			return nil, err
		}
	}
	var loads [5]redisLoad
	for i, l := range []struct {
		decide  decideRedis
		callers int
		names   []string
	}{{one, redisCallers, m.names(redisManyKeys)}, {three, redisCallers, m.names(redisManyKeys)}, {one, 1, m.names(redisManyKeys)}, {one, redisCallers, m.names(1)}, {refused, redisCallers, []string{flooded}}} {
		if loads[i], err = m.load(ctx, l.decide, l.callers, l.names); err != nil {
			return nil, err
		}
	}
	if c.baseline {
		return []figure{loads[0].share, none, loads[2].share, loads[3].share, none, loads[0].cpu, none, none, none, loads[0].throughput}, nil
	}
	return []figure{loads[0].share, loads[1].share, loads[2].share, loads[3].share, loads[4].share, loads[0].cpu, bytes, loads[3].errors, m.over(ctx, exact), loads[0].throughput}, nil
}

// names returns the IDs of n callers.
func (m *redisMeasure) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%016d", m.run, i)
	}
	return names
}

// redisLoad contains the results of the server under load.
type redisLoad struct{ share, throughput, cpu, errors figure }

// load runs decisions for a while. Slices of decisions alternate with slices of the no-op script, so that
// other load on the machine affects both.
func (m *redisMeasure) load(ctx context.Context, decide decideRedis, callers int, names []string) (l redisLoad, err error) {
	for _, warm := range []decideRedis{decide, m.noop} { // loads the script, and opens connections
		if _, _, _, err := m.slice(ctx, warm, callers, names, m.time/10); err != nil {
			return l, err
		}
	}
	parts, duration := redisSlices, m.time
	// With one caller, client and server wait for each other. Other load on the machine then has more effect.
	// More and shorter slices reduce this effect.
	if callers == 1 {
		parts, duration = parts*10, duration/10
	}
	var rate, cpu, done, failed figure
	var shares []figure
	for range parts {
		n, _, elapsed, err := m.slice(ctx, m.noop, callers, names, duration/2)
		if err != nil {
			return l, err
		}
		noop := n / elapsed
		before, err := m.cpu(ctx)
		if err != nil {
			return l, err
		}
		n, bad, elapsed, err := m.slice(ctx, decide, callers, names, duration)
		if err != nil {
			return l, err
		}
		after, err := m.cpu(ctx)
		if err != nil {
			return l, err
		}
		shares = append(shares, n/elapsed/noop)
		rate, cpu, done, failed = rate+n/elapsed/figure(parts), cpu+after-before, done+n, failed+bad
	}
	return redisLoad{median(shares), rate, cpu * 1e6 / done, 100 * failed / done}, nil
}

// slice runs decisions for some time. It returns the number of decisions, the number of failures, and
// the seconds.
func (m *redisMeasure) slice(ctx context.Context, decide decideRedis, callers int, names []string, duration time.Duration) (done, failed, seconds figure, err error) {
	if _, err := decide(ctx, names[0]); err != nil {
		return 0, 0, 0, err
	}
	var all, bad atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for caller := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(caller)))
			decisions, failed := int64(0), int64(0)
			for ; time.Since(begun) < duration && ctx.Err() == nil; decisions++ {
				if _, err := decide(ctx, names[r.IntN(len(names))]); err != nil {
					failed++
				}
			}
			all.Add(decisions)
			bad.Add(failed)
		})
	}
	wg.Wait()
	return figure(all.Load()), figure(bad.Load()), figure(time.Since(begun).Seconds()), ctx.Err()
}

// cpu returns the seconds of CPU that the server has used.
func (m *redisMeasure) cpu(ctx context.Context) (figure, error) {
	return m.sum(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
}

// sum returns the sum of the given fields in a section of the server's INFO.
func (m *redisMeasure) sum(ctx context.Context, section string, fields ...string) (total figure, err error) {
	for _, field := range fields {
		text, err := m.info(ctx, section, field)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		total += figure(n)
	}
	return total, nil
}

func (m *redisMeasure) info(ctx context.Context, section, field string) (string, error) {
	text, err := m.client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("redis: INFO: got no field %s", field)
}

// memory measures the memory of a caller with three limits.
func (m *redisMeasure) memory(ctx context.Context, c redisContender) (figure, error) {
	if c.baseline {
		return none, nil
	}
	options := *m.options
	options.DB = memoryDB
	client := redis.NewClient(&options)
	n := none
	decide, err := c.open(client, lasting)
	if err == nil {
		n, err = m.bytes(ctx, client, decide)
	}
	return n, errors.Join(err, client.Close())
}

// bytes returns the memory of a caller whose first key has memoryKey characters. The callers need an
// empty database, because the result includes the hash tables of the database.
func (m *redisMeasure) bytes(ctx context.Context, db *redis.Client, decide decideRedis) (figure, error) {
	const workers = 2
	n, err := db.DBSize(ctx).Result()
	if err != nil {
		return 0, err
	}
	if n > 0 {
		return 0, fmt.Errorf("database %d: got %d keys, want none; use an empty database", memoryDB, n)
	}
	defer db.FlushDB(context.WithoutCancel(ctx))
	if _, err := decide(ctx, "probe"); err != nil {
		return 0, err
	}
	keys, err := db.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	first := slices.MinFunc(keys, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	digits := memoryKey - len(first) + len("probe")
	all := func(prefix string, callers int) error {
		return together(workers, func(worker int) error {
			for i := worker; i < callers; i += workers {
				if _, err := decide(ctx, fmt.Sprintf("%s%0*d", prefix, digits-len(prefix), i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	// Connections and their buffers also need memory. Therefore, the number of workers is small. These
	// decisions open all connections before the first reading.
	if err := errors.Join(all("w", memoryCallers/10), db.FlushDB(ctx).Err()); err != nil {
		return 0, err
	}
	before, err := m.used(ctx)
	if err != nil {
		return 0, err
	}
	if err := all("", memoryCallers); err != nil {
		return 0, err
	}
	after, err := m.used(ctx)
	return (after - before) / memoryCallers, err
}

// used returns the number of bytes that the server has allocated.
func (m *redisMeasure) used(ctx context.Context) (figure, error) {
	return m.sum(ctx, "memory", "used_memory")
}

// remove deletes all keys that contain the name of the run.
func (m *redisMeasure) remove(ctx context.Context) error {
	for cursor := uint64(0); ; {
		keys, next, err := m.client.Scan(ctx, cursor, "*"+m.run+"*", 1000).Result()
		if err == nil && len(keys) > 0 {
			err = m.client.Unlink(ctx, keys...).Err()
		}
		if cursor = next; cursor == 0 || err != nil {
			return err
		}
	}
}

// over returns by how many requests a contender exceeds the limit while 64 goroutines use it.
func (m *redisMeasure) over(ctx context.Context, decide decideRedis) figure {
	const attempts = 10
	caller := m.caller()
	var admitted atomic.Int64
	_ = together(redisCallers, func(int) error {
		for range attempts {
			if ok, err := decide(ctx, caller); ok && err == nil {
				admitted.Add(1)
			}
		}
		return nil
	})
	return figure(max(0, admitted.Load()-int64(tight[0].requests)))
}
