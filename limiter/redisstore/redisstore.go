package redisstore

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

//go:embed take.lua
var takeSource string

//go:embed replace.lua
var replaceSource string

//go:embed refund.lua
var refundSource string

var (
	takeScript    = redis.NewScript(takeSource)
	replaceScript = redis.NewScript(replaceSource)
	refundScript  = redis.NewScript(refundSource)
)

// Options of a Store.
type Options struct {
	// Namespace separates deployments that share a server. Required.
	Namespace string
	// Margin is what a refund adds to the elapsed time: at least the greatest
	// difference between two callers' clocks plus the longest that a refund may be
	// under way. 0 means DefaultMargin.
	Margin time.Duration
}

// DefaultMargin covers clocks 1 s apart and messages 1 s late.
const DefaultMargin = 2 * time.Second

// expiryMargin is how long a key outlives the state in it, so that no clock and no
// delay finds it gone too early.
const expiryMargin = time.Minute

// settleAttempts bounds the rare decisions that the script cannot make at once.
const settleAttempts = 10

// Client is what a Store needs of Redis: a *redis.Client, a *redis.ClusterClient, or any
// UniversalClient. It must not retry: a retried script may charge twice. New sees to that for
// those three, by the hook NoRetry.
type Client interface {
	redis.Scripter
	Get(ctx context.Context, key string) *redis.StringCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
	ExpireGT(ctx context.Context, key string, expiration time.Duration) *redis.BoolCmd
}

// Store is a limiter.Store in Redis. It is safe for concurrent use.
type Store struct {
	client Client
	o      Options
}

var _ limiter.Store = (*Store)(nil)

// Commands returns what Take, Refund and the client under them call, in a cluster too: what an
// access list must allow (redis.io/docs, "ACL"), on keys of all names.
func Commands() []string {
	return []string{"cluster|slots", "eval", "evalsha", "get", "hello", "pttl", "set"}
}

// AdministrationCommands returns what Inspect and Reset call.
func AdministrationCommands() []string { return []string{"del", "get"} }

// New returns a Store over client, to which it adds the hook NoRetry if the client takes
// hooks: all commands of that client are then sent once.
func New(client Client, o Options) *Store {
	if c, ok := client.(interface{ AddHook(hook redis.Hook) }); ok {
		c.AddHook(NoRetry{})
	}
	if o.Margin <= 0 {
		o.Margin = DefaultMargin
	}
	return &Store{client, o}
}

// key returns the key of subject. The braces make all of it a cluster's hash tag.
func (s *Store) key(subject limiter.Subject) string {
	return "{" + subject.Key(s.o.Namespace, format) + "}"
}

// Take implements limiter.Store.
func (s *Store) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result) (bool, error) {
	key := s.key(subject)
	if hopeless(charges) {
		v, err := s.get(ctx, key)
		if err != nil {
			return false, err
		}
		return s.settle(ctx, now, key, v, charges, results)
	}
	v, charged, err := s.charge(ctx, now, key, charges, results)
	if err != nil || charged {
		return charged, err
	}
	return s.settle(ctx, now, key, v, charges, results)
}

// charge runs the script once. If that charges nothing, it returns the value that is
// there.
func (s *Store) charge(ctx context.Context, now algo.Instant, key string, charges []limiter.Charge, results []limiter.Result) (value, bool, error) {
	v, charged, err := run(ctx, s.client, takeScript, key, encodeTake(now, charges, results), ttl(charges))
	if err != nil || !charged {
		return v, false, err
	}
	if err := v.report(charges, results); err != nil {
		return nil, false, err
	}
	if tidied := v.tidied(now); tidied != nil {
		if _, done, _ := run(ctx, s.client, replaceScript, key, []byte(v), []byte(tidied), tidied.ttl(now, charges)); done {
			return v, true, nil
		} // else a later decision does it
	}
	s.outlive(ctx, now, key, v, charges, results)
	return v, true, nil
}

// hopeless reports that the script need not be tried: every charge only looks, or one
// can never be made.
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

// tooMuch reports whether a charge costs more than m ever allows, or than the largest
// debt.
func tooMuch(c limiter.Charge, m algo.Machine) bool {
	most := m.Capacity()
	return c.Cost > most && (!c.Spend || c.Cost > 2*most)
}

// settle decides from a value that the script did not charge. Most often the value
// refuses, and that is the answer. Where other parameters decide, the script is told. Where
// a limit is to be converted or its state is spoiled, what becomes of it is computed here,
// and replaces the value if it is still as it was read.
func (s *Store) settle(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge, results []limiter.Result) (bool, error) {
	var tried value // to no avail, by the script under other rules: it caps no debts
	for range settleAttempts {
		outcome, err := v.charge(now, charges, results)
		if err != nil || outcome.next == nil {
			return outcome.allowed, err
		}
		var done bool
		if outcome.others && !bytes.Equal(v, tried) {
			tried = v
			v, done, err = s.charge(ctx, now, key, charges, results)
		} else {
			v, done, err = run(ctx, s.client, replaceScript, key, []byte(v), []byte(outcome.next), outcome.next.ttl(now, charges))
		}
		if err != nil || done {
			return done && outcome.allowed, err
		}
	}
	return false, fmt.Errorf("%w: %d attempts", limiter.ErrContended, settleAttempts)
}

// Refund implements limiter.Store.
func (s *Store) Refund(ctx context.Context, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result, elapsed time.Duration) (given int, err error) {
	reply, err := refundScript.Run(ctx, s.client, []string{s.key(subject)}, encodeRefund(charges, results, elapsed+s.o.Margin)).Result()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	n, ok := reply.(int64)
	if !ok || n < 0 || n > int64(len(charges)) {
		return 0, fmt.Errorf("%w: reply to a refund is %T %.20v", limiter.ErrFormat, reply, reply)
	}
	return int(n), nil
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
	if err := s.client.Del(ctx, s.key(subject)).Err(); err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, key string) (value, error) {
	b, err := s.client.Get(ctx, key).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	return b, value(b).check()
}

// run runs a script. It returns the value in the reply, and whether the script did
// what it was asked to.
func run(ctx context.Context, client redis.Scripter, script *redis.Script, key string, args ...any) (v value, done bool, err error) {
	reply, err := script.Run(ctx, client, []string{key}, args...).Result()
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	switch reply := reply.(type) {
	case string:
		v, done = value(reply), true
	case int64:
		return nil, reply == 1, nil
	case []any:
		if len(reply) > 0 && reply[0] != nil {
			text, ok := reply[0].(string)
			if !ok {
				return nil, false, fmt.Errorf("%w: reply holds a %T", limiter.ErrFormat, reply[0])
			}
			v = value(text)
		}
	default:
		return nil, false, fmt.Errorf("%w: reply is a %T", limiter.ErrFormat, reply)
	}
	return v, done, v.check()
}

// outlive lengthens the life of a key in which a limit was charged that newer rules give a
// longer horizon than these know. (Of limits that are not charged, the script keeps the
// life that they have.) It fails in silence: any later decision does it.
func (s *Store) outlive(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge, results []limiter.Result) {
	for i, c := range charges {
		if results[i].Machine != c.Limit.Machine() {
			if needed := v.ttl(now, charges); needed > ttl(charges) {
				_ = s.client.ExpireGT(ctx, key, time.Duration(needed)*time.Millisecond).Err()
			}
			return
		}
	}
}

// ttl returns the time to live in ms of a key that holds v. It may hold limits which these
// charges' rules know nothing of, or know with a shorter horizon: older rules must not let
// the counts of newer ones expire.
func (v value) ttl(now algo.Instant, charges []limiter.Charge) int64 {
	given := horizon(charges)
	needed := given
	for r := range v.records {
		needed = max(needed, r.idle().Sub(now))
	}
	if needed = min(needed, 2*algo.MaxWindow); needed > given+expiryMargin/2 { // half of it is for clocks
		return (needed + expiryMargin).Milliseconds()
	}
	return ttl(charges)
}

func horizon(charges []limiter.Charge) (longest time.Duration) {
	for _, c := range charges {
		longest = max(longest, c.Limit.Horizon)
	}
	return longest
}

// ttl returns the time to live in ms that the limits charged need.
func ttl(charges []limiter.Charge) int64 { return (horizon(charges) + expiryMargin).Milliseconds() }
