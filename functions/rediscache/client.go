package rediscache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/redis/go-redis/v9"
	redislog "github.com/redis/go-redis/v9/logging"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/resilient"
)

func init() { boot.RegisterStore("redis", OpenStore) }

// OpenStore returns the Redis store that c configures, and a function that closes it. It does not connect.
func OpenStore(ctx context.Context, c boot.Config) (limiter.Store, func() error, error) {
	client, err := NewClient(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	bare, err := redisstore.NewBare(client, redisstore.Options{Namespace: c.Namespace})
	if err != nil {
		return nil, nil, err
	}
	store, err := resilient.New(bare, resilient.Options{Timeout: resilient.RedisTimeout})
	if err != nil {
		return nil, nil, err
	}
	return store, client.Close, nil
}

// NewClient returns a Redis client.
func NewClient(ctx context.Context, c boot.Config) (redis.UniversalClient, error) {
	login, err := cacheLogin(ctx, c)
	if err != nil {
		return nil, err
	}
	redislog.Disable() // the caller logs the error once
	client, err := redisstore.NewClient(c.RedisURL, redisstore.ClientOptions{Cluster: c.RedisCluster, Login: login})
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return client, nil
}

type login = func(context.Context) (user, password string, err error)

// emptyHash is the SHA-256 of an empty request body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// cacheLogin returns the login to an ElastiCache Serverless cache. It returns nil if the variables
// name no such cache. The password is a token that is valid for 15 minutes: a presigned connect
// request without its scheme (ElastiCache user guide, "Authenticating with IAM").
func cacheLogin(ctx context.Context, c boot.Config) (login, error) {
	if c.RedisIAMUser == "" {
		return nil, nil //nolint:nilnil // nil means no login
	}
	config, err := c.AWSConfig(ctx)
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
