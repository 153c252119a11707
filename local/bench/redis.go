package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisContender is one implementation of a decision in Redis.
type redisContender struct {
	name string
	kind redisKind
	// open returns a function that decides by all limits.
	open func(client *redis.Client, limits []redisLimit) (decideRedis, error)
}

type redisLimit struct {
	requests int
	window   time.Duration
}

// decideRedis decides one request by all limits.
type decideRedis func(ctx context.Context, caller string) (allowed bool, err error)

// redisKind is the kind of a row.
type redisKind int

const (
	baseline redisKind = iota // no limiter: the maximum of the server and the client
	peerRow
	weirRow
)

// noop is the reference row: throughput is a share of its throughput.
const noop = "no-op script"

const (
	redisCallers  = 64     // goroutines, each with one pending request
	redisManyKeys = 10_000 // callers by name
)

var redisColumns = []column{
	{"1 limit", 2}, {"one key", 2}, {"3 limits", 2}, {"CPU us, 1", 1}, {"CPU us, 3", 1},
	{"bytes, 1", 0}, {"bytes, 3", 0}, {"errors %, one key", 1}, {"over-admitted", 0}, {"decisions/s", 0},
}

func redisGroup(ctx context.Context, b *bench) (group, error) {
	m, err := b.redis(ctx)
	if err != nil {
		return group{}, err
	}
	defer m.close(context.WithoutCancel(ctx))
	contenders := append(redisPeers(), redisWeir()...)
	var names []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	rows, err := interleave(ctx, b, names, func(i, _ int) ([]figure, error) { return m.line(ctx, contenders[i]) })
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Redis: throughput as a share of a no-op script's, server CPU and bytes a caller", Corner: "64 callers", Columns: redisColumns, Rows: rows,
		Note: "A share is of the no-op script in the same round. Peers ask for three limits one after another. CPU is the server's, a decision; bytes are MEMORY USAGE of all keys of a caller; " +
			"decisions/s are of one limit on many keys.",
	}
	return group{Name: "Redis", Tables: []table{t}, Goals: redisGoals(t, contenders)}, nil
}

func redisGoals(t table, contenders []redisContender) (goals []goal) {
	over := figure(0)
	for _, c := range contenders {
		if c.kind != weirRow {
			continue
		}
		over += t.value(c.name, "over-admitted")
		goals = append(goals,
			atLeast(c.name+", 1 limit", t.value(c.name, "1 limit"), 0.88, 2),
			atLeast(c.name+", 3 limits", t.value(c.name, "3 limits"), 0.70, 2))
		for _, column := range []string{"CPU us, 1", "CPU us, 3", "bytes, 1", "bytes, 3"} {
			least := figure(0)
			for _, peer := range contenders {
				if v := t.value(peer.name, column); peer.kind == peerRow && (least == 0 || v < least) {
					least = v
				}
			}
			goals = append(goals, below(c.name+", "+column, t.value(c.name, column), float64(least), 1))
		}
	}
	return append(goals, atMost("over-admission", over, 0, 0))
}

// redisMeasure measures contenders on one server. The server may hold other data. Therefore every
// key contains the name of the run, and the run removes its keys at the end.
type redisMeasure struct {
	client *redis.Client
	run    string
	time   time.Duration // of one measurement
	noop   [2]figure     // throughput in this round, on many keys and on one
}

// redis connects to the server.
func (b *bench) redis(ctx context.Context) (*redisMeasure, error) {
	options, err := redis.ParseURL(b.address)
	if err != nil {
		return nil, err
	}
	options.PoolSize, options.MaxRetries = redisCallers, -1
	options.ContextTimeoutEnabled = true
	m := &redisMeasure{client: redis.NewClient(options), run: fmt.Sprintf("bench%08x", rand.Uint32()), time: time.Second}
	if b.quick {
		m.time /= 10
	}
	b.versions["Redis"], err = m.info(ctx, "server", "redis_version")
	return m, err
}

// close removes what the run wrote.
func (m *redisMeasure) close(ctx context.Context) {
	_ = m.each(ctx, m.run, func(key string) error { return m.client.Unlink(ctx, key).Err() }) // the keys expire anyway
	_ = m.client.Close()
}

// caller returns a new caller. All names have the same length, because the length affects the
// memory of a caller.
func (m *redisMeasure) caller() string { return fmt.Sprintf("%s-%016x", m.run, rand.Uint64()) }

// generous returns limits that are too large for any measurement to reach.
var generous = []redisLimit{{endless, time.Hour}, {endless, time.Minute}, {endless, 24 * time.Hour}}

// line measures all columns of a contender. Contenders come in the same order in each
// round, the no-op script first.
func (m *redisMeasure) line(ctx context.Context, c redisContender) ([]figure, error) {
	line := []figure{none, none, none, none, none, none, none, none, none, none}
	one, err := c.open(m.client, generous[:1])
	if err != nil {
		return nil, err
	}
	many, err := m.load(ctx, one, redisManyKeys)
	if err != nil {
		return nil, err
	}
	hot, err := m.load(ctx, one, 1)
	if err != nil {
		return nil, err
	}
	if c.name == noop {
		m.noop = [2]figure{many.throughput, hot.throughput}
	}
	line[0], line[1], line[3], line[9] = many.throughput/m.noop[0], hot.throughput/m.noop[1], many.cpu, many.throughput
	if c.kind == baseline {
		return line, nil
	}
	line[7] = hot.errors
	three, err := c.open(m.client, generous)
	if err != nil {
		return nil, err
	}
	loaded, err := m.load(ctx, three, redisManyKeys)
	if err != nil {
		return nil, err
	}
	line[2], line[4] = loaded.throughput/m.noop[0], loaded.cpu
	for i, decide := range []decideRedis{one, three} {
		if line[5+i], err = m.bytes(ctx, decide); err != nil {
			return nil, err
		}
	}
	line[8], err = m.over(ctx, c)
	return line, err
}

// redisLoad contains the results of the server under load.
type redisLoad struct{ throughput, cpu, errors figure }

// load runs decisions of all callers on the keys for a while.
func (m *redisMeasure) load(ctx context.Context, decide decideRedis, keys int) (l redisLoad, err error) {
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%016d", m.run, i)
	}
	if _, err := decide(ctx, names[0]); err != nil { // loads the script
		return l, err
	}
	before, err := m.cpu(ctx)
	if err != nil {
		return l, err
	}
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for caller := range redisCallers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(caller)))
			decisions, errors := int64(0), int64(0)
			for ; time.Since(begun) < m.time && ctx.Err() == nil; decisions++ {
				if _, err := decide(ctx, names[r.IntN(keys)]); err != nil {
					errors++
				}
			}
			done.Add(decisions)
			failed.Add(errors)
		})
	}
	wg.Wait()
	elapsed := time.Since(begun)
	after, err := m.cpu(ctx)
	n := figure(done.Load())
	return redisLoad{n / figure(elapsed.Seconds()), (after - before) * 1e6 / n, 100 * figure(failed.Load()) / n}, err
}

// cpu returns the seconds of CPU that the server has used.
func (m *redisMeasure) cpu(ctx context.Context) (figure, error) {
	total := figure(0)
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		text, err := m.info(ctx, "cpu", field)
		if err != nil {
			return 0, err
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		total += figure(seconds)
	}
	return total, nil
}

func (m *redisMeasure) info(ctx context.Context, section, field string) (string, error) {
	text, err := m.client.Info(ctx, section).Result()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), err
		}
	}
	return "", fmt.Errorf("redis: INFO has no %s: %w", field, err)
}

// bytes returns the memory of all keys of a caller.
func (m *redisMeasure) bytes(ctx context.Context, decide decideRedis) (figure, error) {
	caller := m.caller()
	if _, err := decide(ctx, caller); err != nil {
		return 0, err
	}
	total := int64(0)
	err := m.each(ctx, caller, func(key string) error {
		n, err := m.client.MemoryUsage(ctx, key).Result()
		total += n
		return err
	})
	return figure(total), err
}

// each calls f with every key whose name contains text.
func (m *redisMeasure) each(ctx context.Context, text string, f func(key string) error) error {
	keys := m.client.Scan(ctx, 0, "*"+text+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := f(keys.Val()); err != nil {
			return err
		}
	}
	return keys.Err()
}

// over returns the number of requests above the limit that are admitted from 64 goroutines.
func (m *redisMeasure) over(ctx context.Context, c redisContender) (figure, error) {
	const limit, attempts = 100, 10
	decide, err := c.open(m.client, []redisLimit{{limit, time.Hour}})
	if err != nil {
		return 0, err
	}
	caller := m.caller()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range redisCallers {
		wg.Go(func() {
			for range attempts {
				if ok, err := decide(ctx, caller); ok && err == nil {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return figure(max(0, admitted.Load()-limit)), nil
}
