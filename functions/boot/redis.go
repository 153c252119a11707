package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/redis/go-redis/v9"
	redislog "github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-limits/weir/limiter/resilient"
)

// redisMaxLife is well below the 12 hours after which ElastiCache hangs up on a connection
// that has logged in with a token.
const redisMaxLife = time.Hour

// redisPoolSize is not how many connections there are: one for each call under way, and an
// environment has few. It is how many dials fail, in the life of a client, until it dials no more
// and leaves that to a goroutine which tries once a second: the store would be used again more
// than a second after an outage, and in Lambda that goroutine is frozen. The breaker spares the
// server already, with two dials a second.
const redisPoolSize = 10_000

// RedisClient returns a client that makes each attempt once, as soon as it is a store's: a
// script that is tried again may charge twice, and a server that refuses a connection is not
// there. A redirect in a cluster is no attempt.
func (c Config) RedisClient(ctx context.Context) (redis.UniversalClient, error) {
	login, err := c.cacheLogin(ctx)
	if err != nil {
		return nil, err
	}
	redislog.Disable() // errors are told once, by whoever gets them
	// What a connection says of itself, and asks to be told, costs two round trips.
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if !plain(c.RedisURL) {
		return nil, errRedisURL
	}
	if !c.RedisCluster {
		o, err := redis.ParseURL(c.RedisURL)
		if err != nil {
			return nil, errRedisURL
		}
		o.MaxRetries, o.PoolSize, o.PipelinePoolSize = -1, redisPoolSize, -1
		o.DialerRetries, o.DialTimeout = 1, resilient.DefaultFirstTimeout // the number of attempts
		o.ContextTimeoutEnabled = true
		o.ConnMaxIdleTime, o.ConnMaxLifetime = resilient.ConnectionLife, redisMaxLife
		o.DisableIdentity, o.MaintNotificationsConfig = true, quiet
		o.CredentialsProviderContext = announced(login, o.Username, o.Password)
		return redis.NewClient(o), nil
	}
	o, err := redis.ParseClusterURL(c.RedisURL)
	if err != nil {
		return nil, errRedisURL
	}
	o.DialerRetries, o.DialTimeout, o.PoolSize, o.PipelinePoolSize = 1, resilient.DefaultFirstTimeout, redisPoolSize, -1
	o.ContextTimeoutEnabled = true
	o.ConnMaxIdleTime, o.ConnMaxLifetime = resilient.ConnectionLife, redisMaxLife
	o.DisableIdentity, o.MaintNotificationsConfig = true, quiet
	o.CredentialsProviderContext = announced(login, o.Username, o.Password)
	o.DisableRoutingPolicies = true // commands with one key need no table of all there are
	return redis.NewClusterClient(o), nil
}

// login gives a new connection its user and password.
type login func(context.Context) (user, password string, err error)

// announced returns a login that reports each new connection to package resilient. Without one
// it is the user and the password of the URL.
func announced(by login, user, password string) login {
	return func(ctx context.Context) (string, string, error) {
		resilient.Opened(ctx)
		if by == nil {
			return user, password, nil
		}
		return by(ctx)
	}
}

// errRedisURL says nothing of the URL. What a parser takes for a host, a path, an option or a
// fragment may be a part of the password.
var errRedisURL = errors.New("REDIS_URL: is not understood: want such as redis://host:6379, or rediss://user:password@host:6379/0 with what is no letter or digit in the password as %XX")

// plain reports whether a URL has at most the number of a database where a password that was
// not escaped would have led.
func plain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Fragment == "" && !strings.Contains(address, "#") && validDatabase.MatchString(u.Path)
}

var validDatabase = regexp.MustCompile(`^(/[0-9]{0,5})?$`)

// checkRedis says what is wrong with the variables of a Redis server together.
func (c *Config) checkRedis(check func(ok bool, format string, args ...any)) {
	check(c.RedisURL != "", "REDIS_URL: is missing: such as rediss://host:6379")
	check((c.RedisIAMUser == "") == (c.RedisIAMCache == ""), "REDIS_IAM_USER and REDIS_IAM_CACHE: want both or none")
	if c.RedisIAMUser == "" {
		return
	}
	check(c.RedisIAMCache == "" || validCache.MatchString(c.RedisIAMCache), "REDIS_IAM_CACHE: got %q, want the cache's name in lower case", c.RedisIAMCache)
	check(c.RedisCluster, "REDIS_CLUSTER: want true with REDIS_IAM_USER: a serverless cache is a cluster")
	check(strings.HasPrefix(c.RedisURL, "rediss://"), "REDIS_URL: want rediss:// with REDIS_IAM_USER: who logs in by IAM needs TLS")
	check(!strings.Contains(c.RedisURL, "@"), "REDIS_URL: has a user or a password, want neither with REDIS_IAM_USER")
}

// emptyHash is the SHA-256 of a request without a body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// cacheLogin returns what gives each new connection to an ElastiCache Serverless cache its
// user and password, or nil if the URL has them. The password is a token, good for 15
// minutes: a presigned request to connect, without its scheme (ElastiCache user guide,
// "Authenticating with IAM").
func (c Config) cacheLogin(ctx context.Context) (login, error) {
	if c.RedisIAMUser == "" {
		return nil, nil //nolint:nilnil // no login is no error
	}
	config, err := c.AWSConfig(ctx, dynamoDBVariable, c.DynamoDBEndpoint)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, errors.New("AWS_REGION: is missing: a token for REDIS_IAM_CACHE is signed for a region")
	}
	query := url.Values{"Action": {"connect"}, "User": {c.RedisIAMUser}, "ResourceType": {"ServerlessCache"}, "X-Amz-Expires": {"900"}}
	connect := url.URL{Scheme: "https", Host: c.RedisIAMCache, Path: "/", RawQuery: query.Encode()}
	signer := v4.NewSigner()
	return func(ctx context.Context) (string, string, error) {
		credentials, err := config.Credentials.Retrieve(ctx)
		if err != nil {
			return "", "", fmt.Errorf("AWS credentials: %w", err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, connect.String(), http.NoBody)
		if err != nil {
			return "", "", err
		}
		token, _, err := signer.PresignHTTP(ctx, credentials, request, emptyHash, "elasticache", config.Region, time.Now())
		return c.RedisIAMUser, strings.TrimPrefix(token, "https://"), err
	}, nil
}
