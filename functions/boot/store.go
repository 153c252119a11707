package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
)

// A storeOpener opens a store and returns a function that closes it. It opens no connection; Probe opens one.
type storeOpener = func(ctx context.Context, c Config) (limiter.Store, func() error, error)

var stores = map[string]storeOpener{"memory": openMemory, "dynamodb": openDynamoDB}

// RegisterStore adds a store for URLs in Config.Store with a scheme. The store checks the rest of the URL when it opens, and puts
// no part of it in an error, because it can contain a password. Packages of stores call RegisterStore in init.
func RegisterStore(scheme string, open storeOpener) { stores[scheme] = open }

// Table returns the DynamoDB table in Store, or "" with another store.
func (c Config) Table() string {
	table, ok := strings.CutPrefix(c.Store, contract.StoreDynamoDB)
	if !ok {
		return ""
	}
	return table
}

// checkStore checks the URLs of the stores in this package.
func (c Config) checkStore(check func(ok bool, format string, args ...any)) {
	scheme, rest, isURL := strings.Cut(c.Store, ":")
	switch {
	case !isURL:
		check(false, "STORE: got %.20q, want a URL: memory:, dynamodb://TABLE or one such as redis://HOST:6379, which replaces TABLE and "+
			"REDIS_URL", c.Store)
	case scheme == "memory":
		check(rest == "", "STORE: got %.80q after memory:, want nothing", rest)
	case scheme == "dynamodb":
		check(contract.IsName(c.Table(), 3, 255), "STORE: got %.80q after dynamodb:, want // and the name of a DynamoDB table: 3 to 255 "+
			"letters, digits, _, . and -", rest)
	}
}

// OpenStore returns the store that c selects and a function that closes it. A store outside this
// process is behind a circuit breaker. OpenStore opens no connection; Probe opens one.
func (c Config) OpenStore(ctx context.Context) (limiter.Store, func() error, error) {
	scheme, _, _ := strings.Cut(c.Store, ":")
	open, ok := stores[scheme]
	if !ok {
		return nil, nil, fmt.Errorf("STORE: got the scheme %.20q, which this program does not link (want %s); a build with the tag noredis has "+
			"no Redis", scheme, strings.Join(slices.Sorted(maps.Keys(stores)), " or "))
	}
	return open(ctx, c)
}

func none() error { return nil }

func openMemory(context.Context, Config) (limiter.Store, func() error, error) {
	store, err := memstore.New(memstore.Options{})
	return store, none, err
}

// openTable is a variable for tests.
var openTable = dynamostore.Open

func openDynamoDB(ctx context.Context, c Config) (limiter.Store, func() error, error) {
	client, err := c.onlyDynamoDBClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := openTable(client, c.Table(), c.Namespace)
	return store, none, err
}

// DynamoDBClient returns a client that does not retry. The store itself repeats a call if a repetition
// is safe.
func (c Config) DynamoDBClient(ctx context.Context) (*dynamodb.Client, error) {
	return c.dynamoDBClient(ctx, "", resilient.ConnectionLife)
}

// dynamoDBClient returns a client that closes a connection after it was idle for a time. If region is "", it is that of
// this process.
func (c Config) dynamoDBClient(ctx context.Context, region string, idle time.Duration) (*dynamodb.Client, error) {
	config, err := c.AWSConfig(ctx)
	if err != nil {
		return nil, err
	}
	config.Region = cmp.Or(region, c.ownRegion(), config.Region)
	return dynamodb.NewFromConfig(config, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
		o.Logger = logging.Nop{} // the caller logs each error once
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = resilient.HTTPClient{Doer: client.
				WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idle }).
				WithDialerOptions(func(d *net.Dialer) { d.Timeout = resilient.FirstTimeout })} // the longest wait of a decision
		}
	}), nil
}

// dynamoClient is a client that is created at its first use.
type dynamoClient struct {
	once   sync.Once
	client *dynamodb.Client
	err    error
}

// onlyDynamoDBClient returns the only client of an environment, so that reads of records use the
// connections that the store opened.
func (c Config) onlyDynamoDBClient(ctx context.Context) (*dynamodb.Client, error) {
	if c.dynamo == nil {
		return c.DynamoDBClient(ctx)
	}
	c.dynamo.once.Do(func() { c.dynamo.client, c.dynamo.err = c.DynamoDBClient(ctx) })
	return c.dynamo.client, c.dynamo.err
}

// probeTimeout bounds the wait for the first answer of a store.
const probeTimeout = 5 * time.Second

// Probe reads from the store to open the connection. Its error is one line: the problem and the
// remedy.
func (c Config) Probe(ctx context.Context, store limiter.Store) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	look, err := limiter.NewLimit(limiter.Limit{Name: "probe", Rate: algo.Rate{Requests: 1, Window: time.Second}})
	if err != nil {
		return err
	}
	charges := []limiter.Charge{{Subject: limiter.Global(), Limit: look}}
	if _, err := store.Take(ctx, algo.InstantOf(time.Now()), limiter.Global(), charges, make([]algo.Result, 1)); err != nil {
		return c.Explain(err)
	}
	return nil
}

// Warning returns a warning about the settings of the store's server, or "".
func Warning(ctx context.Context, store limiter.Store) string {
	s, ok := limiter.StoreAs[interface {
		Warning(ctx context.Context) string
	}](store)
	if ok {
		return s.Warning(ctx)
	}
	return ""
}

// Explain adds a remedy for an operator to an error of the store.
func (c Config) Explain(err error) error {
	where, hint := "DynamoDB", "check the region and the credentials"
	if c.Table() == "" {
		where, hint = "the store at "+Redacted(c.Store), "check that it runs and that this is its URL"
	} else if c.DynamoDBEndpoint != "" {
		where, hint = "DynamoDB at "+c.DynamoDBEndpoint, "check that it runs and that DYNAMODB_ENDPOINT is its URL"
	}
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return fmt.Errorf("%s has no table %q; create it (locally, weir serve does)", where, c.Table())
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s does not answer (%w); %s", where, network, hint)
	}
	return fmt.Errorf("%s failed: %w", where, err)
}

// Redacted returns the scheme and the host of a URL, and "STORE" for one that is invalid.
func Redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Scheme + "://" + u.Host
	}
	return "STORE"
}
