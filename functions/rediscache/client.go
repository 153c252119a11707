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

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/resilient"
)

func init() {
	boot.RegisterStore("redis", OpenStore)
	boot.RegisterStore("rediss", OpenStore)
}

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
	return store, client.Close, err
}

// errURL contains no part of the URL, as redisstore.ErrURL.
var errURL = fmt.Errorf("STORE: %w; options after ? are cluster=true, iam_cache=NAME and those of go-redis", redisstore.ErrURL)

// NewClient returns a client of the URL in c.Store. With the option cluster=true, the URL names a node of a cluster. With
// iam_cache=NAME, the URL is that of the ElastiCache Serverless cache NAME, which is a cluster, and the user of the URL logs in
// with the IAM credentials of the environment. The other options are those of go-redis.
func NewClient(ctx context.Context, c boot.Config) (redis.UniversalClient, error) {
	address, text, _ := strings.Cut(c.Store, "?")
	query, err := url.ParseQuery(text)
	u, invalid := url.Parse(address)
	if err != nil || invalid != nil || u.Host == "" {
		return nil, errURL
	}
	o := redisstore.ClientOptions{Cluster: query.Get("cluster") == "true"}
	if cache := query.Get("iam_cache"); cache != "" {
		o.Cluster = true
		o.Login, err = cacheLogin(ctx, c, u, cache)
		query.Del("iam_cache")
	}
	if err != nil {
		return nil, err
	}
	if o.Cluster {
		query.Del("cluster")
	}
	redislog.Disable() // the caller logs the error once
	client, err := redisstore.NewClient(address+"?"+query.Encode(), o)
	if err != nil {
		return nil, errURL
	}
	return client, nil
}

type login = func(context.Context) (user, password string, err error)

// emptyHash is the SHA-256 of an empty request body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// cacheLogin returns the login to the ElastiCache Serverless cache at u, as the user in u. The password is a token that is
// valid for 15 minutes: a presigned connect request without its scheme (ElastiCache user guide, "Authenticating with IAM").
func cacheLogin(ctx context.Context, c boot.Config, u *url.URL, cache string) (login, error) {
	user := u.User.Username()
	_, password := u.User.Password()
	valid := regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`).MatchString(cache)
	if u.Scheme != "rediss" || user == "" || password || !valid {
		return nil, errors.New("STORE: invalid URL with iam_cache (want rediss://USER@HOST:6379?iam_cache=NAME: TLS, no password, a name " +
			"of lower-case letters, digits and hyphens)")
	}
	config, err := c.AWSConfig(ctx)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, errors.New("AWS_REGION: required with iam_cache in STORE; a login token is signed for one region")
	}
	query := url.Values{"Action": {"connect"}, "User": {user}, "ResourceType": {"ServerlessCache"}, "X-Amz-Expires": {"900"}}
	connect := url.URL{Scheme: "https", Host: cache, Path: "/", RawQuery: query.Encode()}
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
		return user, strings.TrimPrefix(token, "https://"), err
	}, nil
}
