package redisstore

import (
	"context"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-limits/weir/limiter/resilient"
)

// ClientOptions are the options of NewClient. The zero value is for one server.
type ClientOptions struct {
	// Cluster connects to the cluster of which the URL names a node.
	Cluster bool
	// Login returns the user and the password for a new connection. nil means those of the URL.
	Login func(context.Context) (user, password string, err error)
}

// maxLife is the age at which a connection is replaced. ElastiCache closes a connection 12 hours after a login with
// a token.
const maxLife = time.Hour

// poolSize exceeds the number of failed dials in any outage. After as many failed dials as the pool size, go-redis
// dials only once a second, in a goroutine that Lambda can freeze, and so recovers late. The breaker already limits
// dials to two a second. The pool stays small, because concurrent calls share pipelines.
const poolSize = 10_000

// NewClient returns a client for New, which the caller closes. It does not connect. Do not let it retry: a repeated
// script may charge twice, and a server that refuses a connection is down. A cluster client follows redirects. The
// error is ErrURL.
func NewClient(address string, o ClientOptions) (redis.UniversalClient, error) {
	if !plain(address) {
		return nil, ErrURL
	}
	// Without these options a new connection would need two more round trips.
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if !o.Cluster {
		c, err := redis.ParseURL(address)
		if err != nil {
			return nil, ErrURL
		}
		c.MaxRetries, c.PoolSize, c.PipelinePoolSize = -1, poolSize, -1
		c.DialerRetries, c.DialTimeout = 1, resilient.FirstTimeout // DialerRetries is the number of attempts, so 1 means no retry
		c.ContextTimeoutEnabled = true
		c.ConnMaxIdleTime, c.ConnMaxLifetime = resilient.ConnectionLife, maxLife
		c.DisableIdentity, c.MaintNotificationsConfig = true, quiet
		c.CredentialsProviderContext = o.Login
		return redis.NewClient(c), nil
	}
	c, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, ErrURL
	}
	c.DialerRetries, c.DialTimeout, c.PoolSize, c.PipelinePoolSize = 1, resilient.FirstTimeout, poolSize, -1
	c.ContextTimeoutEnabled = true
	c.ConnMaxIdleTime, c.ConnMaxLifetime = resilient.ConnectionLife, maxLife
	c.DisableIdentity, c.MaintNotificationsConfig = true, quiet
	c.CredentialsProviderContext = o.Login
	c.DisableRoutingPolicies = true // each command of the store has one key, so the client needs no table of commands
	return redis.NewClusterClient(c), nil
}

// ErrURL contains no part of the URL, because a parser can mistake a part of the password for the
// host, the path, an option or the fragment.
var ErrURL = errors.New("invalid URL (want redis://host:6379 or rediss://user:password@host:6379/0); percent-encode the password")

// plain reports whether the URL has no fragment and no path except the number of a database. A
// fragment or another path could be a part of an unescaped password.
func plain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Fragment == "" && !strings.Contains(address, "#") && validDatabase.MatchString(u.Path)
}

var validDatabase = regexp.MustCompile(`^(/[0-9]{0,5})?$`)

// NoRetry is a hook that makes a client send each command once. If a client repeats a script whose answer
// was lost, the script can charge twice. New and NewBare add NoRetry to clients that accept hooks. A cluster client
// needs the hook, because its MaxRedirects option also allows retries. The client still follows
// redirects, because a node that redirects a command has not executed it. NoRetry is safe for concurrent
// use.
type NoRetry struct{}

var _ redis.Hook = NoRetry{}

// DialHook implements redis.Hook. A store repeats a charge itself if its connection was idle and is dead.
func (NoRetry) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return resilient.Watch(c), nil
	}
}

// ProcessHook implements redis.Hook.
func (NoRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.NoRetry() {
			return next(ctx, cmd)
		}
		return next(ctx, final{cmd})
	}
}

// ProcessPipelineHook implements redis.Hook. It changes nothing, because the calls in a Store's pipelines already have
// the method NoRetry.
func (NoRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// final is a command that is not sent again.
type final struct{ redis.Cmder }

func (final) NoRetry() bool { return true }
