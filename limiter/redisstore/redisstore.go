package redisstore

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
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
	// under way. 0 means DefaultMargin; it is not negative.
	Margin time.Duration
	// Logger gets the errors that no decision returns, at most one a minute; nil means
	// slog.Default().
	Logger *slog.Logger
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
}

// Store is a limiter.Store in Redis. It is safe for concurrent use.
type Store struct {
	client   Client
	o        Options
	skew     limiter.Skew
	untidied atomic.Int64 // when an error of tidying was logged last, in ns since 1970
}

var (
	_ limiter.Store         = (*Store)(nil)
	_ limiter.SkewEstimator = (*Store)(nil)
)

// Commands returns what Take, Refund and the client under them call, in a cluster too: what an
// access list must allow (redis.io/docs, "ACL"), on keys of all names.
func Commands() []string {
	return []string{"cluster|slots", "eval", "evalsha", "get", "hello", "pttl", "set", "time"}
}

// AdministrationCommands returns what Inspect, Reset and the client under them call.
func AdministrationCommands() []string { return []string{"cluster|slots", "del", "get", "hello"} }

// AccessString returns the rules of an access list for a user who may call commands, and
// nothing else, on keys of all names: ACL SETUSER takes them, and so does ElastiCache.
func AccessString(commands ...string) string {
	return "on ~* resetchannels -@all +" + strings.Join(commands, " +")
}

// New returns a Store over client, to which it adds the hook NoRetry if the client takes
// hooks: all commands of that client are then sent once. Options that are out of range are an
// error, and so is a client that ignores the deadline of a call (ContextTimeoutEnabled).
func New(client Client, o Options) (*Store, error) {
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
	return &Store{client: client, o: o}, nil
}

// obeysDeadlines reports whether a call of client ends when its context does. Failover clients
// are of the same types; of other implementations it is not known.
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

// key returns the key of subject. The braces make all of it a cluster's hash tag.
func (s *Store) key(subject limiter.Subject) string {
	return "{" + subject.Key(s.o.Namespace, format) + "}"
}

// Take implements limiter.Store.
func (s *Store) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
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
func (s *Store) charge(ctx context.Context, now algo.Instant, key string, charges []limiter.Charge, results []algo.Result) (value, bool, error) {
	client := redis.Scripter(s.client)
	if sent, due := s.skew.Begin(); due {
		client = timed{s.client, key, sent, &s.skew}
	}
	v, charged, err := run(ctx, client, takeScript, key, encodeTake(now, charges, results), lifetime(charges, results))
	if err != nil || !charged {
		return v, false, err
	}
	if err := v.report(charges, results); err != nil {
		return nil, false, err
	}
	s.tidy(ctx, now, key, v, charges)
	return v, true, nil
}

// tidy removes the idle records of a value that has many. The charge is made, so an error is
// only logged: a later decision tidies again.
func (s *Store) tidy(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge) {
	tidied := v.tidied(now)
	if tidied == nil {
		return
	}
	_, _, err := run(ctx, s.client, replaceScript, key, []byte(v), []byte(tidied), tidied.ttl(now, charges))
	if err == nil {
		return
	}
	last := s.untidied.Load()
	if age := now.Sub(algo.Instant(last)).Abs(); age >= time.Minute && s.untidied.CompareAndSwap(last, int64(now)) {
		s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "idle limits not removed; a later decision retries", slog.Any("err", err))
	}
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
	return c.Cost > most && (!c.Force || c.Cost > 2*most)
}

// settle decides from a value that the script did not charge. Most often the value
// refuses, and that is the answer. Where other parameters decide, the script is told. Where
// a limit is to be converted or its state is spoiled, what becomes of it is computed here,
// and replaces the value if it is still as it was read.
func (s *Store) settle(ctx context.Context, now algo.Instant, key string, v value, charges []limiter.Charge, results []algo.Result) (bool, error) {
	var tried value // to no avail, by the script under other rules: it caps no debts
	for range settleAttempts {
		outcome, err := v.charge(now, charges, results)
		if err != nil {
			return false, err
		}
		if outcome.next == nil {
			return outcome.allowed, nil
		}
		var done bool
		if outcome.others && !bytes.Equal(v, tried) {
			tried = v
			v, done, err = s.charge(ctx, now, key, charges, results)
		} else {
			v, done, err = run(ctx, s.client, replaceScript, key, []byte(v), []byte(outcome.next), outcome.next.ttl(now, charges))
		}
		if err != nil {
			return false, err
		}
		if done {
			return outcome.allowed, nil
		}
	}
	return false, fmt.Errorf("%w: %d attempts", limiter.ErrContended, settleAttempts)
}

// Refund implements limiter.Store.
func (s *Store) Refund(ctx context.Context, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration) (given int, err error) {
	reply, err := refundScript.Run(ctx, s.client, []string{s.key(subject)}, encodeRefund(charges, results, elapsed+s.o.Margin)).Result()
	if err != nil {
		return 0, failure(err)
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
		return failure(err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, key string) (value, error) {
	b, err := s.client.Get(ctx, key).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure(err)
	}
	return b, value(b).check()
}

// run runs a script. It returns the value in the reply, and whether the script did
// what it was asked to.
func run(ctx context.Context, client redis.Scripter, script *redis.Script, key string, args ...any) (v value, done bool, err error) {
	reply, err := script.Run(ctx, client, []string{key}, args...).Result()
	if err != nil {
		return nil, false, failure(err)
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
	return (given + expiryMargin).Milliseconds()
}

func horizon(charges []limiter.Charge) (longest time.Duration) {
	for _, c := range charges {
		longest = max(longest, c.Limit.Horizon)
	}
	return longest
}

// lifetime returns the time to live in ms that a charge gives its key. Where newer rules have
// set the parameters that decide, seen has them, and their count may have to live longer than
// these rules know. (Of limits that are not charged, the script keeps the life that they have.)
func lifetime(charges []limiter.Charge, seen []algo.Result) int64 {
	longest := horizon(charges)
	for _, r := range seen {
		if r.Machine != nil {
			longest = max(longest, r.Machine.Horizon())
		}
	}
	return (longest + expiryMargin).Milliseconds()
}
