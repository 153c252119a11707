package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"strings"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/infra/golden"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/loopback"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/servers"
	"github.com/weir-limits/weir/local/why"
)

// localTimeouts has the store timeout of each local store. It is longer than on AWS, because the
// server shares the machine with other programs. A store that is missing here has
// limiter.DefaultTimeout.
var localTimeouts = map[string]string{"redis": "200ms"}

// localStores has the URLs of the stores on this machine. That of redis is the address of its server.
var localStores = map[string]string{Memory: contract.StoreMemory, "dynamodb": contract.StoreDynamoDB + checkout.Table}

// addresses has the variable of the functions with the address of a store's server.
var addresses = map[string]string{"dynamodb": "DYNAMODB_ENDPOINT", "redis": contract.VariableStore}

// prepare creates the checkout's keys and starts the server of the store.
func (s *Server) prepare(ctx context.Context) error {
	var err error
	s.apiKeys, err = s.checkout.Seed()
	if err != nil {
		return err
	}
	if err := s.checkout.KeepRules(s.Rules); err != nil {
		return err
	}
	s.Store = cmp.Or(s.Store, Memory)
	s.variables = map[string]string{
		"STORE": cmp.Or(localStores[s.Store], s.Store), "RULES_FILE": s.Rules, "WEIR_LOCAL": "true",
		"JWKS": s.checkout.PublicKeysFile(), "JWT_ISSUER": checkout.Issuer, "JWT_AUDIENCE": checkout.Audience,
		"JWT_ALGORITHMS": string(checkout.Algorithm),
		"MAX_DELAY":      os.Getenv("MAX_DELAY"), "API_KEYS_FILE": s.checkout.APIKeysFile(), "API_KEY_SECRET_FILE": s.checkout.APIKeySecretFile(),
		"SUBJECT_KEY_FILE": s.checkout.SubjectKeyFile(), "INTERVENTIONS_FILE": s.checkout.InterventionsFile(),
		"RECORDS_TABLE": "", // empty: a local run reads API keys from a file
		"STORE_TIMEOUT": cmp.Or(os.Getenv("STORE_TIMEOUT"), localTimeouts[s.Store], limiter.DefaultTimeout.String()),
	}
	if list := os.Getenv(contract.VariableBasePath); list != "" && s.Upstream.url == nil {
		s.variables[contract.VariableBasePath] = list
	}
	if s.Address != "" {
		s.variables[contract.VariableAddress] = s.Address
		for _, name := range []string{contract.VariableOriginSecret, contract.VariableSecretBefore} {
			s.variables[name] = os.Getenv(name)
		}
	}
	if s.Namespace != "" {
		s.variables["NAMESPACE"] = s.Namespace
	}
	variable := servers.Variables[s.Store]
	if variable == "" {
		return nil
	}
	address := cmp.Or(s.storeAddress(), os.Getenv(variable))
	if address == "" {
		fmt.Fprintf(s.Out, "starting %s on this machine, which takes some seconds ...\n", s.Store)
		started, err := s.startServer(ctx)
		if err != nil {
			return err
		}
		started.Watch(ctx, func(err error) {
			s.Logger.Error("the server of the store has ended; start this command again", "server", s.Store, "err", err)
		})
		s.closers = append(s.closers, started.Stop)
		address = started.URL
	}
	s.variables[addresses[s.Store]] = address
	return nil
}

func (s *Server) startServer(ctx context.Context) (*servers.Server, error) {
	if s.Store == "redis" {
		return servers.StartRedis(ctx)
	}
	return servers.StartDynamoDB(ctx, s.checkout.Root, s.Out)
}

// openStack returns the APIs of golden.Served with the routes of the API. The template works with every store, because
// variables of the run select the store. The functions in this process share one store, also a memory store.
func (s *Server) openStack(ctx context.Context) ([]*gateway.API, error) {
	stack, err := gateway.ReadStack(golden.Served)
	if err != nil {
		return nil, err
	}
	c, err := s.load(stack.Authorizer.Environment)
	if err != nil {
		return nil, err
	}
	store, err := s.openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	guard, err := s.environment(ctx, c, store, s.Logger.With("function", contract.Authorizer))
	if err != nil {
		return nil, err
	}
	c, err = s.load(stack.Handler.Environment)
	if err != nil {
		return nil, err
	}
	e, err := s.environment(ctx, c, store, s.Logger.With("function", contract.Handler))
	if err != nil {
		return nil, err
	}
	api, routes := s.API(e), []string{"ANY /", "ANY /{path+}"}
	if mux, ok := api.(interface{ Routes() []string }); ok {
		routes = mux.Routes()
	}
	return gateway.New(stack, routes, gateway.Options{Authorizer: lambdahttp.NewAuthorizer(guard), Handler: lambdahttp.NewHandler(e, api),
		Logger: s.Logger, Clock: s.Clock, BasePaths: c.BasePaths, Unthrottled: s.Unthrottled})
}

// environment returns the environment of a function, and adds its limiter to the operator.
func (s *Server) environment(ctx context.Context, c boot.Config, store limiter.Store,
	logger *slog.Logger) (*lambdahttp.Environment, error) {
	e, err := s.placed(c).Environment(ctx, store, boot.Options{
		Logger: logger, Metrics: s.refusals, Hash: s.refusals.Hash, Clock: s.Clock, Rules: s.live, Regions: s.otherRegions(),
		Reloaded: s.reloaded,
	})
	if _, ok := errors.AsType[rules.Problems](err); ok { // the rules are invalid, for example a delay above MAX_DELAY
		return nil, err
	} else if _, ok := errors.AsType[*caller.RecordError](err); ok { // the record was edited by hand and is invalid
		return nil, err
	} else if err != nil && strings.Contains(err.Error(), s.checkout.Path(".weir")) { // the key files are invalid
		return nil, fmt.Errorf("%w; remove .weir to create new files", err)
	} else if err != nil {
		return nil, err
	}
	s.live = e.Rules
	s.recorders = append(s.recorders, e.Recorder)
	s.operate(c, e)
	s.operator.Record, err = c.FindRecord(ctx)
	return e, err
}

// operate adds a function's limiter to the operator, which answers explain, usage and reset with the first one.
func (s *Server) operate(c boot.Config, e *lambdahttp.Environment) {
	if s.operator == nil {
		s.operator = &operator.Operator{
			Identifier: e.Identifier, Clock: s.Clock,
			Rules: e.Rules.At, Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), IPv6Bits: c.IPv6Bits, BasePaths: c.BasePaths, Viewers: e.Viewers,
			Hash: s.refusals.HashOf,
		}
	}
	s.operator.Limiters = append(s.operator.Limiters, e.Limiter)
}

// lookup returns a function like os.LookupEnv for the variables of a Lambda function.
func (s *Server) lookup(environment map[string]string) func(string) (string, bool) {
	all := s.variablesOf(environment)
	return func(name string) (string, bool) {
		value, ok := all[name]
		return value, ok
	}
}

// variablesOf returns the variables of a function: the variables of the template without the names of AWS resources,
// overridden by the variables of this run.
func (s *Server) variablesOf(environment map[string]string) map[string]string {
	all := maps.Clone(environment)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return strings.HasPrefix(name, "KAFKA_") || name == "RECORDS_TABLE" || name == "RULES_VERSION" ||
			name == "RULES_FROM" || name == contract.VariableRegions
	})
	maps.Copy(all, s.variables)
	return all
}

// openStore opens the store. If the table of DynamoDB Local is missing, it creates the table.
func (s *Server) openStore(ctx context.Context, c boot.Config) (limiter.Store, error) {
	if c.Table() != "" && c.DynamoDBEndpoint == "" {
		return nil, errors.New("DYNAMODB_ENDPOINT: required: a local run must not charge a table on AWS")
	}
	if c.Table() != "" && loopback.URL(c.DynamoDBEndpoint) {
		if _, err := checkout.MakeTable(ctx, c.DynamoDBEndpoint, c.Table()); err != nil {
			return nil, err
		}
	}
	store, closeStore, err := c.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = closeStore() })
	if err := c.Probe(ctx, store); err != nil {
		return nil, err
	}
	if warning := boot.Warning(ctx, store); warning != "" {
		s.Logger.WarnContext(ctx, warning)
	}
	if s.region != nil {
		if err := s.region.join(store); err != nil {
			return nil, err
		}
	}
	s.opened = store
	return store, nil
}

// maxMetrics is the size in bytes above which a new run removes the metrics file.
const maxMetrics = 64 << 20

// openMetrics opens the metrics file, which replaces CloudWatch. Other runs of this checkout can
// write to it at the same time.
func (s *Server) openMetrics() error {
	path := s.checkout.MetricsFile()
	if err := os.MkdirAll(s.checkout.Path(".weir"), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxMetrics {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	s.refusals = why.NewRefusalLog(file)
	s.closers = append(s.closers, func() { _ = file.Close() })
	return nil
}
