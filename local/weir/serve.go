package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/servers"
)

func serveCommand() *cobra.Command {
	s := &server{clock: time.Now, port: 8080}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the APIs with their limits on this machine",
		Long: "Run the REST API and the HTTP API of the template on this machine, with the functions that run at AWS: in this process, " +
			"or, with --environments, in processes of their own, frozen between requests. " +
			"A page at /_weir/ of the first port sends requests and shows what becomes of them. " +
			"--store dynamodb and --store redis start the server themselves, unless DYNAMODB_ENDPOINT or REDIS_URL names one. " +
			"Of the functions' other variables SAMPLE_LOGIN is read, a user:password for the login of the sample API (demo:demo), and MAX_DELAY, how long a request may wait in a leaky bucket.",
		Example: "  weir serve\n  weir serve --store redis --environments 10\n  weir serve --rules my-rules.json --port 9000",
		Args:    exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			s.out, s.log = c.OutOrStdout(), c.ErrOrStderr()
			s.logger = slog.New(slog.NewTextHandler(s.log, nil))
			return s.run(c.Context())
		},
	}
	c.Flags().StringVar(&s.rules, "rules", "", "the rules document; default functions/rules.json")
	c.Flags().StringVar(&s.store, "store", memory, "where the state lives: memory, dynamodb or redis")
	complete(c, "store", memory, "dynamodb", "redis")
	c.Flags().StringVar(&s.template, "template", "", "the CloudFormation template; default that of the store in infra/golden")
	c.Flags().StringVar(&s.namespace, "namespace", "", "what separates this run's state from others' in one store; default as in the template")
	c.Flags().Var(&s.port, "port", "the port of the first API; the next has the next")
	c.Flags().Var(&s.environments, "environments", "run each function in so many processes at most, as Lambda does, from its bootstrap in dist; 0: in this process")
	c.Flags().DurationVar(&s.idle, "idle", 0, "how long an environment waits for a request before it is ended; 0: as long as this runs")
	return c
}

// server is one run of serve.
type server struct {
	rules, store, template string
	namespace              string
	port                   port
	environments           environments
	idle                   time.Duration
	out, log               io.Writer
	logger                 *slog.Logger
	clock                  func() time.Time // of functions in this process

	metrics io.Writer // what CloudWatch would read

	checkout checkout
	// variables are what the functions get beside what the template gives them.
	variables map[string]string
	apiKeys   map[string]string // by tier, if they were made just now
	live      *live.Rules       // by which the functions in this process decide
	opened    limiter.Store     // of the functions
	operator  *operator.Operator
	closers   []func()
}

// memory is the store of a run that names none.
const memory = "memory"

// port is the port of the first API, as a flag. Another one follows it.
type port int

const maxPort = 65534

// String implements pflag.Value.
func (p *port) String() string { return strconv.Itoa(int(*p)) }

// Type implements pflag.Value.
func (p *port) Type() string { return "int" }

// Set implements pflag.Value.
func (p *port) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPort {
		return fmt.Errorf("want 1 to %d", maxPort)
	}
	*p = port(n)
	return nil
}

func (s *server) run(ctx context.Context) error {
	defer s.close()
	template, err := s.read()
	if err != nil {
		return err
	}
	listeners, err := s.listen(ctx, template.APIs())
	if err != nil {
		return err
	}
	apis, err := s.open(ctx, template)
	if err != nil {
		return err
	}
	if err := warm(ctx, s.opened); err != nil {
		return err
	}
	s.greet(apis)
	go s.watchRules(ctx)
	return s.serve(ctx, apis, listeners)
}

func (s *server) close() {
	for _, closer := range slices.Backward(s.closers) {
		closer()
	}
}

// read reads the rules and the template before anything is started, so that a mistake
// shows at once, and all mistakes do.
func (s *server) read() (parsed *template.Template, err error) {
	if s.checkout, err = findCheckout(); err != nil {
		return nil, err
	}
	s.rules = absolute(s.rules, s.checkout.path("functions", "rules.json"))
	s.template = absolute(s.template, s.checkout.path("infra", "golden", goldenTemplate(s.store)))
	document, err := os.ReadFile(s.rules)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if _, err := parseRules(document); err != nil {
		return nil, fmt.Errorf("%s has mistakes:\n%w", s.rules, err)
	}
	if document, err = os.ReadFile(s.template); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	if parsed, err = template.Parse(document); err != nil {
		return nil, fmt.Errorf("%s has mistakes:\n%w", s.template, err)
	}
	return parsed, nil
}

// goldenTemplate returns the file of what is deployed with a store. What is in memory
// here has no deployment of its own.
func goldenTemplate(store string) string {
	if store == "redis" {
		return "elasticache.template.json"
	}
	return "dynamodb.template.json"
}

// open starts what the functions need, and puts the gateway before them.
func (s *server) open(ctx context.Context, template *template.Template) ([]*gateway.API, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	g, err := s.gateway(ctx, template)
	if err != nil {
		return nil, err
	}
	return g.APIs(), nil
}

// absolute returns path as an absolute one, or fallback if it is empty.
func absolute(path, fallback string) string {
	if path == "" {
		return fallback
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// listen takes the ports.
func (s *server) listen(ctx context.Context, n int) (listeners []net.Listener, err error) {
	for i := range n {
		port := int(s.port) + i
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("port %d cannot be had (%w): choose others with PORT=, or --port", port, err)
		}
		s.closers = append(s.closers, func() { _ = l.Close() })
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// localTimeouts are longer than at AWS, because a server here shares the machine with all else.
// Those that are missing are limiter.DefaultTimeout.
var localTimeouts = map[string]string{"redis": "200ms"}

// prepare makes the keys of this checkout, and starts the server of the state.
func (s *server) prepare(ctx context.Context) error {
	if _, err := s.checkout.signingKey(); err != nil {
		return err
	}
	var err error
	if s.apiKeys, err = s.checkout.seedAPIKeys(false); err != nil {
		return err
	}
	if _, err := s.checkout.subjectKey(); err != nil {
		return err
	}
	s.store = cmp.Or(s.store, memory) // to the functions an empty STORE is DynamoDB at AWS
	s.variables = map[string]string{
		"STORE": s.store, "TABLE": localTable, "RULES_FILE": s.rules, "WEIR_LOCAL": "true",
		"JWKS": s.checkout.publicKeysFile(), "JWT_ISSUER": localIssuer, "JWT_AUDIENCE": localAudience, "JWT_ALGORITHMS": string(localAlgorithm),
		"SAMPLE_LOGIN": cmp.Or(os.Getenv("SAMPLE_LOGIN"), "demo:demo"), "MAX_DELAY": os.Getenv("MAX_DELAY"), "API_KEYS_FILE": s.checkout.apiKeysFile(), "API_KEY_SECRET_FILE": s.checkout.apiKeySecretFile(), "SUBJECT_KEY_FILE": s.checkout.subjectKeyFile(),
		"RECORDS_TABLE": "", // the keys of this checkout are in files
		"STORE_TIMEOUT": cmp.Or(os.Getenv("STORE_TIMEOUT"), localTimeouts[s.store], limiter.DefaultTimeout.String()),
	}
	if s.namespace != "" {
		s.variables["NAMESPACE"] = s.namespace
	}
	variable := serverVariables[s.store]
	if variable == "" {
		return nil
	}
	address := os.Getenv(variable)
	if address == "" {
		started, err := s.startServer(ctx)
		if err != nil {
			return err
		}
		started.Watch(ctx, func(err error) {
			s.logger.Error("the server of the state has ended: start this again", "server", s.store, "err", err)
		})
		s.closers = append(s.closers, started.Stop)
		address = started.URL
	}
	s.variables[variable] = address
	return nil
}

func (s *server) startServer(ctx context.Context) (*servers.Server, error) {
	if s.store == "redis" {
		return servers.StartRedis(ctx)
	}
	return servers.StartDynamoDB(ctx, s.checkout.root, s.out)
}

// gateway builds the functions that the APIs call, and the gateway before them. They
// share one store, as they do at AWS; in this process also that in memory, of which each
// environment has its own.
func (s *server) gateway(ctx context.Context, template *template.Template) (*gateway.Gateway, error) {
	if err := s.openMetrics(); err != nil {
		return nil, err
	}
	var store limiter.Store
	handlers := map[string]lambda.Handler{}
	for _, f := range template.Functions() {
		role := f.Environment[roleVariable]
		if role != authorizerRole && role != handlerRole { // a schedule runs it
			continue
		}
		c, err := boot.Load(s.lookup(f.Environment))
		if err != nil {
			return nil, err
		}
		if store == nil {
			if store, err = s.openStore(ctx, c); err != nil {
				return nil, err
			}
		}
		e, err := c.Environment(ctx, store, boot.Options{Logger: s.logger.With("function", f.ID), Metrics: s.metrics, Clock: s.clock, Rules: s.live})
		if _, ok := errors.AsType[rules.Problems](err); ok { // by a MAX_DELAY
			return nil, err
		} else if err != nil { // it is the keys
			return nil, fmt.Errorf("%w: remove .weir to start anew", err)
		}
		if s.live == nil {
			s.live = e.Rules
			s.live.Observe(s.tellRules)
		}
		s.operate(c, e, store, role)
		switch {
		case s.environments > 0: // what is read above is what they will read
			handlers[f.ID], err = s.pool(f, role)
		case role == authorizerRole:
			handlers[f.ID] = lambdahttp.NewAuthorizer(e)
		default:
			handlers[f.ID] = lambdahttp.NewHandler(e, sample.New(e))
		}
		if err != nil {
			return nil, err
		}
	}
	if len(handlers) == 0 {
		return nil, fmt.Errorf("%s: no function has the variable %s, want %s or %s", s.template, roleVariable, authorizerRole, handlerRole)
	}
	return gateway.New(template, gateway.Options{Functions: handlers, Logger: s.logger, Clock: s.clock})
}

// operate lets operators ask about the limits of a function, first about those of the REST
// API's authorizer.
func (s *server) operate(c boot.Config, e *lambdahttp.Environment, store limiter.Store, role string) {
	if s.operator == nil {
		s.operator = &operator.Operator{
			Store: store, Kind: c.Store, Inside: s.environments == 0, Identifier: e.Identifier, Clock: s.clock,
			Rules: e.Rules.At, Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), IPv6Bits: c.IPv6Bits,
		}
	}
	at := len(s.operator.Limiters)
	if role == authorizerRole {
		at = 0
	}
	s.operator.Limiters = slices.Insert(s.operator.Limiters, at, e.Limiter)
}

// A function says by a variable which of them it is: logical ids have hashes.
const (
	roleVariable   = "WEIR_FUNCTION"
	authorizerRole = "authorizer"
	handlerRole    = "handler"
)

// lookup returns the variables of a function in the form of os.LookupEnv.
func (s *server) lookup(environment map[string]string) func(string) (string, bool) {
	all := s.variablesOf(environment)
	return func(name string) (string, bool) {
		value, ok := all[name]
		return value, ok
	}
}

// variablesOf returns the variables of a function: those of the template, except what names
// things that exist at AWS alone, and above them those of this run.
func (s *server) variablesOf(environment map[string]string) map[string]string {
	all := maps.Clone(environment)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return strings.HasPrefix(name, "REDIS_") || strings.HasPrefix(name, "KINESIS_") || strings.HasPrefix(name, "KAFKA_") || name == "EVENTS" || name == "RECORDS_TABLE" || name == "RULES_VERSION" || name == "RULES_FROM"
	})
	maps.Copy(all, s.variables)
	return all
}

// openStore opens the store, and makes its table where that is ours to do.
func (s *server) openStore(ctx context.Context, c boot.Config) (limiter.Store, error) {
	if c.Store == "dynamodb" && c.DynamoDBEndpoint == "" {
		return nil, errors.New("DYNAMODB_ENDPOINT: is missing: a local run must not charge a table at AWS unasked")
	}
	if c.Store == "dynamodb" && isLocal(c.DynamoDBEndpoint) {
		if _, err := makeTable(ctx, c.DynamoDBEndpoint, c.Table); err != nil {
			return nil, err
		}
	}
	store, closeStore, err := c.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = closeStore() })
	s.opened = store
	return store, c.Probe(ctx, store)
}

// greet says where everything is, and requests to try.
func (s *server) greet(apis []*gateway.API) {
	where := s.store
	if address := s.variables[serverVariables[s.store]]; address != "" {
		where += " at " + address
	}
	if s.environments > 0 && s.store == memory {
		where += " of each environment: each counts for itself"
	}
	fmt.Fprintf(s.out, "rules  %s (%s, version %d)\nstate  in %s\n", s.rules, count(s.live.Current().Len()), s.live.Current().Version(), where)
	if s.environments > 0 {
		fmt.Fprintf(s.out, "each function has up to %d environments of its own; their metrics are in %s\n", s.environments, s.checkout.metricsFile())
	}
	first, last := s.url(0), s.url(len(apis)-1)
	for i, api := range apis {
		fmt.Fprintf(s.out, "%s   %s\n", api.Kind, s.url(i))
	}
	fmt.Fprintf(s.out, "page   %s%s\n", first, console.Path)
	printAPIKeys(s.out, s.apiKeys)
	if s.apiKeys == nil {
		fmt.Fprintf(s.out, "API keys were made and told before; for new ones end this, and run %s seed --renew\n", s.self())
	}
	for _, line := range unmatched(endpointsOf(s.live.Current()), apis) {
		fmt.Fprintln(s.out, "warning:", line)
	}
	fmt.Fprintf(s.out, "\nTry:\n"+
		"  curl -i %s/api/v1/search\n"+
		"  curl -i -H \"Authorization: Bearer $(%s token --user alice --tier paid)\" %s/api/v1/search\n"+
		"  curl -i -X POST %s/api/v1/data\n", first, s.self(), first, last)
	if key := s.apiKeys["paid"]; key != "" {
		fmt.Fprintf(s.out, "  curl -i -H \"x-api-key: %s\" %s/api/v1/search\n", key, first)
	}
	fmt.Fprintln(s.out)
}

func (s *server) url(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", int(s.port)+i) }

// self returns this program as a shell finds it.
func (s *server) self() string {
	path, err := os.Executable()
	if err != nil {
		return "weir"
	}
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// How long connections may take. A local gateway need not wait for slow clients.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second // API Gateway waits for a function as long
	idleTimeout   = 2 * time.Minute
	closeTimeout  = 5 * time.Second
)

// serve answers until ctx ends, and then finishes what it has begun.
func (s *server) serve(ctx context.Context, apis []*gateway.API, listeners []net.Listener) error {
	failed := make(chan error, len(apis))
	var running []*http.Server
	for i, api := range apis {
		var handler http.Handler = api
		if i == 0 {
			handler = before(s.site(apis, listeners), api)
		}
		h := &http.Server{
			Handler: gateway.WithBodyTimeout(handler, bodyTimeout), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
			ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		}
		running = append(running, h)
		go func() { failed <- h.Serve(listeners[i]) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, h := range running {
		err = errors.Join(err, h.Shutdown(closing))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
