package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
)

// Options are the options of a Store.
type Options struct {
	// Namespace separates deployments that share a server. Required.
	Namespace string
	// Margin is the time that a refund adds to the elapsed time. It must be at least the greatest
	// difference between the clocks of two processes, plus the longest time that a refund takes
	// to arrive. 0 means DefaultMargin. Negative values are invalid.
	Margin time.Duration
	// Logger receives errors that no decision returns, at most one a minute; nil means
	// slog.Default().
	Logger *slog.Logger
}

// DefaultMargin covers clocks that differ by 1 s and refunds that arrive 1 s late.
const DefaultMargin = 2 * time.Second

// expiryMargin is the time by which a key outlives its state, so that skewed clocks and delays cause
// no early expiry.
const expiryMargin = time.Minute

// mostAttempts is the maximum number of attempts of a decision or a settlement that the script cannot make at once.
// Those that need more than one attempt are rare.
const mostAttempts = 10

// Client is the part of Redis that a Store calls: a *redis.Client, a *redis.ClusterClient, or any
// UniversalClient. It must not retry, because a retried script can charge twice. For these three kinds,
// New and NewBare add the hook NoRetry, which prevents retries.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Store is a limiter.Store in Redis without a breaker. It is safe for concurrent use.
type Store struct {
	client   Client
	cluster  *redis.ClusterClient // nil if the client is of another kind
	o        Options
	lanes    sync.Map // *lane by address of the server
	skew     limiter.Skew
	untidied atomic.Int64 // instant of the last log line about tidying, in ns since 1970
	close    func() error // nil if the client belongs to the caller of New
}

var (
	_ limiter.Store         = (*Store)(nil)
	_ limiter.SkewEstimator = (*Store)(nil)
)

// Commands returns the commands that an access list must allow for Take and Settle, on all keys
// (redis.io/docs, "ACL"). The list includes the commands that the client itself calls, also in a
// cluster whose slots move, and in a database other than 0.
func Commands() []string {
	return []string{"asking", "cluster|slots", "eval", "evalsha", "get", "hello", "pttl", "select", "set", "time"}
}

// AdministrationCommands returns the commands that an access list must allow for Inspect and Reset.
func AdministrationCommands() []string {
	return []string{"asking", "cluster|slots", "del", "get", "hello", "select"}
}

// AccessString returns the rules of an access list, for ACL SETUSER and for ElastiCache. With these
// rules a user may call the given commands on all keys, and no other commands.
func AccessString(commands ...string) string {
	return "on ~* resetchannels -@all +" + strings.Join(commands, " +")
}

// Open returns a resilient store for the server at a URL such as "redis://127.0.0.1:6379". It connects in a
// goroutine, which logs an error to Options.Logger if the server does not answer. Close ends that goroutine and closes
// the connections. For a cluster, use NewClient and New. In an outage, go-redis logs lines of its own for the whole
// process; [github.com/redis/go-redis/v9/logging.Disable] stops them.
func Open(address string, o Options) (*resilient.Store, error) {
	client, err := NewClient(address, ClientOptions{})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s, err := NewBare(client, o)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), resilient.FirstTimeout)
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		s.greet(ctx)
	}()
	s.close = func() error {
		cancel()
		err := client.Close()
		<-greeted
		return err
	}
	return s.resilient()
}

// greet logs an error if the server does not answer. A wrong address would otherwise show only at the first request.
func (s *Store) greet(ctx context.Context) {
	if _, err := s.Inspect(ctx, limiter.Global()); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		s.o.Logger.LogAttrs(ctx, slog.LevelError, "the Redis server gives no answer; until it does, on_error decides, by default in each "+
			"process alone", slog.Any("err", err))
	} else if warning := s.Warning(ctx); warning != "" {
		s.o.Logger.WarnContext(ctx, warning)
	}
}

// Warning returns a warning if the server can evict counts, and "" if it cannot, or does not say so: ElastiCache and access
// lists can forbid INFO.
func (s *Store) Warning(ctx context.Context) string {
	info := redis.NewStringCmd(ctx, "info", "memory")
	_ = s.client.Process(ctx, info)
	_, policy, ok := strings.Cut(info.Val(), "maxmemory_policy:")
	policy, _, _ = strings.Cut(policy, "\r")
	if !ok || policy == "noeviction" {
		return ""
	}
	return "the Redis server can evict counts, and callers would regain their quota: maxmemory-policy is " + policy + "; set noeviction"
}

// New returns a resilient store over client for a server, with a deadline of resilient.RedisTimeout. NewClient returns
// a client with suitable settings. The error is that of NewBare.
func New(client Client, o Options) (*resilient.Store, error) {
	s, err := NewBare(client, o)
	if err != nil {
		return nil, err
	}
	return s.resilient()
}

func (s *Store) resilient() (*resilient.Store, error) {
	return resilient.New(s, resilient.Options{Timeout: resilient.RedisTimeout, Background: true})
}

// NewBare returns a Store over client without a breaker and a deadline of its own. If the client accepts hooks,
// NewBare adds the hook NoRetry. The client then sends each of its commands once. NewBare returns an error for
// options out of range, and for a client that ignores the deadline of a call (ContextTimeoutEnabled).
func NewBare(client Client, o Options) (*Store, error) {
	switch {
	case client == nil:
		return nil, errors.New("redisstore: client: required, got nil")
	case !obeysDeadlines(client):
		return nil, errors.New("redisstore: client: ContextTimeoutEnabled is false, so a call outlasts its deadline; set it to true")
	case o.Namespace == "":
		return nil, errors.New("redisstore: Namespace: required, got an empty string")
	case o.Margin < 0:
		return nil, fmt.Errorf("redisstore: Margin: out of range (got %s, want 0 for the default, or more)", o.Margin)
	}
	o.Margin = cmp.Or(o.Margin, DefaultMargin)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if c, ok := client.(interface{ AddHook(hook redis.Hook) }); ok {
		c.AddHook(NoRetry{})
	}
	if c, ok := client.(interface{ OnNewNode(f func(*redis.Client)) }); ok { // the nodes of a cluster dial by themselves
		c.OnNewNode(func(node *redis.Client) { node.AddHook(NoRetry{}) })
	}
	cluster, _ := client.(*redis.ClusterClient)
	return &Store{client: client, cluster: cluster, o: o}, nil
}

// obeysDeadlines reports whether a call of client ends with its context. Failover clients are also *redis.Client or
// *redis.ClusterClient. Other implementations are assumed to obey deadlines.
func obeysDeadlines(client Client) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return c.Options().ContextTimeoutEnabled
	}
	return true
}

// Close closes the client of Open. It does nothing to a client that the caller created.
func (s *Store) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// key returns the key of subject. It has no braces, so a cluster hashes all of it: a subject escapes braces.
func (s *Store) key(subject limiter.Subject) string { return subject.Key(s.o.Namespace) }

// Take implements limiter.Store.
func (s *Store) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	key := s.key(subject)
	if hopeless(charges) {
		v, err := s.get(ctx, key)
		if err != nil {
			return false, err
		}
		return s.decide(ctx, now, key, v, charges, results)
	}
	v, charged, err := s.charge(ctx, now, key, charges, results)
	if err != nil || charged {
		return charged, err
	}
	return s.decide(ctx, now, key, v, charges, results)
}

// charge runs the script once. If the script makes no charge, charge returns the current value.
func (s *Store) charge(ctx context.Context, now algo.Instant, key string, charges []limiter.Charge, results []algo.Result) (value, bool,
	error) {
	v, _, done, err := s.run(newCall(ctx, takeScript, key, encodeTake(now, charges, results)), s.sendTimed)
	if err != nil || !done {
		return v, false, err
	}
	err = v.report(charges, results)
	if err != nil {
		return "", false, err
	}
	s.tidy(ctx, now, key, v, charges)
	return v, true, nil
}

// replace replaces the value old by next, unless another process has changed it. It then returns the present value.
func (s *Store) replace(ctx context.Context, key string, old, next value, ttl int64) (present value, done bool, err error) {
	present, _, done, err = s.run(newCall(ctx, replaceScript, key, []byte(old), string(next), ttl), s.send)
	return present, done, err
}

// tidy removes idle limits from a value that has many limits. The charge is already made, so tidy only logs an
// error. A later decision tidies again.
func (s *Store) tidy(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge) {
	tidied := v.tidied(now)
	if tidied == v {
		return
	}
	_, _, err := s.replace(ctx, key, v, tidied, tidied.ttl(now, charges))
	if err == nil {
		return
	}
	last := s.untidied.Load()
	if age := now.Sub(algo.Instant(last)).Abs(); age >= time.Minute && s.untidied.CompareAndSwap(last, int64(now)) {
		s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "idle limits not removed; a later decision retries", slog.Any("err", err))
	}
}

// hopeless reports whether the decision needs no script: every charge has cost 0, or one charge can
// never be allowed.
func hopeless(charges []limiter.Charge) bool {
	looks := true
	for _, c := range charges {
		if tooMuch(c, c.Limit.Machine()) {
			return true
		}
		looks = looks && c.Cost == 0
	}
	return looks
}

// tooMuch reports whether m can never allow a charge. The cost of such a charge exceeds the capacity or,
// for a forced charge, twice the capacity.
func tooMuch(c limiter.Charge, m algo.Machine) bool {
	most := m.Capacity()
	return c.Cost > most && (!c.Force || c.Cost > 2*most)
}

// decide decides from a value that the script did not charge. Usually the value refuses, and decide returns the
// refusal. If the value has newer parameters, decide runs the script with them. If a limit must be converted or its
// state clamped, decide computes the new value. It writes the new value only if no other process has changed the old
// one.
func (s *Store) decide(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	var tried value // the value on which the script failed; the script cannot bound a debt by the parameters of newer rules
	for range mostAttempts {
		outcome, err := v.charge(now, charges, results)
		if err != nil {
			return false, err
		}
		if outcome.next == "" {
			return outcome.allowed, nil
		}
		var done bool
		if outcome.superseded && v != tried {
			tried = v
			v, done, err = s.charge(ctx, now, key, charges, results)
		} else {
			v, done, err = s.replace(ctx, key, v, outcome.next, outcome.next.ttl(now, charges))
		}
		if err != nil {
			return false, err
		}
		if done {
			return outcome.allowed, nil
		}
	}
	return false, fmt.Errorf("%w: %d attempts", limiter.ErrContended, mostAttempts)
}

// Settle implements limiter.Store. The script makes the usual corrections. Settle computes the new value
// itself in two cases: a debt reaches its maximum, or a forced charge finds no stored limit, a log, or other
// parameters.
func (s *Store) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (settled limiter.Settled, err error) {
	key, late := s.key(subject), elapsed+s.o.Margin
	var v value
	if settleable(charges) {
		var done bool
		v, settled.Given, done, err = s.run(newCall(ctx, settleScript, key, encodeSettle(now, charges, results, late)), s.send)
		if err != nil || done {
			return settled, err
		}
	} else {
		v, err = s.get(ctx, key)
		if err != nil {
			return settled, err
		}
	}
	for range mostAttempts {
		next, settled, err := v.settle(now, charges, results, late)
		if err != nil || next == v {
			return settled, err
		}
		var done bool
		v, done, err = s.replace(ctx, key, v, next, next.ttl(now, charges))
		if err != nil {
			return limiter.Settled{}, err
		}
		if done {
			return settled, nil
		}
	}
	return settled, fmt.Errorf("%w: settlement, %d attempts", limiter.ErrContended, mostAttempts)
}

// settleable reports whether the script can make the corrections. It cannot if the cost of one forced
// charge alone exceeds the max debt.
func settleable(charges []limiter.Charge) bool {
	return !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.Force && tooMuch(c, c.Limit.Machine()) })
}

// Inspect implements limiter.Store.
func (s *Store) Inspect(ctx context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	v, err := s.get(ctx, s.key(subject))
	if err != nil {
		return nil, err
	}
	return v.entries()
}

// Reset implements limiter.Store.
func (s *Store) Reset(ctx context.Context, subject limiter.Subject) error {
	err := s.client.Process(ctx, redis.NewIntCmd(ctx, "del", s.key(subject)))
	if err != nil {
		return s.failed(err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, key string) (value, error) {
	cmd := redis.NewStringCmd(ctx, "get", key)
	err := s.client.Process(ctx, cmd)
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.failed(err)
	}
	v := value(cmd.Val())
	return v, v.check()
}
