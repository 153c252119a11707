package rediscache

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

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/resilient"
)

// OpenStore returns the Redis store that c configures, behind a circuit breaker, and a function that
// closes it. It does not connect. Use it as the field Redis of boot.Clients.
func OpenStore(ctx context.Context, c boot.Config) (limiter.Store, func() error, error) {
	client, err := NewClient(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client, redisstore.Options{Namespace: c.Namespace})
	if err != nil {
		return nil, nil, err
	}
	guarded, err := resilient.New(store, resilient.Options{})
	return guarded, client.Close, err
}

// redisMaxLife is the age at which a connection is replaced. ElastiCache closes a connection 12 hours
// after a login with a token.
const redisMaxLife = time.Hour

// redisPoolSize exceeds the number of failed dials in any outage. After as many failed dials as the pool
// size, go-redis dials only once a second, in a goroutine that Lambda can freeze, and so recovers late.
// The breaker already limits dials to two a second. The pool stays small, because concurrent calls share
// pipelines.
const redisPoolSize = 10_000

// NewClient returns a Redis client. Do not let it retry: a repeated script may charge twice, and a
// server that refuses a connection is down. A cluster client follows redirects.
func NewClient(ctx context.Context, c boot.Config) (redis.UniversalClient, error) {
	login, err := cacheLogin(ctx, c)
	if err != nil {
		return nil, err
	}
	redislog.Disable() // the caller logs the error once
	// Without these options a new connection would need two more round trips.
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
		o.DialerRetries, o.DialTimeout = 1, resilient.DefaultFirstTimeout // DialerRetries is the number of attempts, so 1 means no retry
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
	o.DisableRoutingPolicies = true // each command of the store has one key, so the client needs no table of commands
	return redis.NewClusterClient(o), nil
}

type login func(context.Context) (user, password string, err error)

// announced returns a login that reports each new connection to package resilient. It uses the login by. If
// by is nil, it uses the user and the password of the URL.
func announced(by login, user, password string) login {
	return func(ctx context.Context) (string, string, error) {
		resilient.Opened(ctx)
		if by == nil {
			return user, password, nil
		}
		return by(ctx)
	}
}

// errRedisURL contains no part of the URL, because a parser can mistake a part of the password for the
// host, the path, an option or the fragment.
var errRedisURL = errors.New("REDIS_URL: invalid URL (want redis://host:6379 or rediss://user:password@host:6379/0); percent-encode the password")

// plain reports whether the URL has no fragment and no path except the number of a database. A
// fragment or another path could be a part of an unescaped password.
func plain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Fragment == "" && !strings.Contains(address, "#") && validDatabase.MatchString(u.Path)
}

var validDatabase = regexp.MustCompile(`^(/[0-9]{0,5})?$`)

// emptyHash is the SHA-256 of an empty request body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// cacheLogin returns the login to an ElastiCache Serverless cache. It returns nil if the variables
// name no such cache. The password is a token that is valid for 15 minutes: a presigned connect
// request without its scheme (ElastiCache user guide, "Authenticating with IAM").
func cacheLogin(ctx context.Context, c boot.Config) (login, error) {
	if c.RedisIAMUser == "" {
		return nil, nil //nolint:nilnil // nil means no login
	}
	config, err := c.AWSConfig(ctx, "DYNAMODB_ENDPOINT", c.DynamoDBEndpoint)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, errors.New("AWS_REGION: required with REDIS_IAM_CACHE; a login token is signed for one region")
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
