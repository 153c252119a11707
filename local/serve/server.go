package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/why"
)

// Options configure a run. Out, Log, Logger and Clock are required, and API without an Upstream.
type Options struct {
	// API returns the API behind the limits. If it is a lambdahttp.Mux, the gateway has its routes, and otherwise every path.
	API func(*lambdahttp.Environment) http.Handler
	// Command is the weir command in the greeting. Empty means this program.
	Command string
	// Rules is the rules document. Empty means functions/rules.json.
	Rules string
	// Store holds the state: memory (also if empty), dynamodb or redis.
	Store string
	// Upstream is the server that gets the admitted requests instead of the functions.
	Upstream Upstream
	// Address is the variable ADDRESS of the functions. Empty means that of the template.
	Address string
	// Namespace separates the state of this run from other state in the store. Empty means the
	// namespace in the template.
	Namespace string
	// Unthrottled leaves out the throttles of the template's stages.
	Unthrottled bool
	// Port is the port of the first API.
	Port int
	// Regions is the number of regions, each with APIs of its own, that share limits. The APIs of the next region have ports
	// that are 10 higher. 0 means one region.
	Regions int

	// Console returns the pages of a console below SitePath, such as console.New. nil means none.
	Console func(Page) http.Handler

	Out, Log io.Writer
	Logger   *slog.Logger
	Clock    func() time.Time // clock of functions in this process
}

// Memory is the default store.
const Memory = "memory"

// DefaultPort is the port at which the commands expect the first API, unless WEIR_URL has another URL.
const DefaultPort = 8080

// Server is one run of the APIs. Create it with [New], and call either Run or Open, once.
type Server struct {
	Options

	refusals  *why.RefusalLog // passes the lines on to the file that replaces CloudWatch
	recorders []*telemetry.Recorder
	checkout  checkout.Checkout
	// variables override variables of the template.
	variables map[string]string
	apiKeys   map[string]string // key: tier
	live      *live.Rules       // rules that the functions in this process use
	reload    atomic.Pointer[Reload]
	opened    limiter.Store // store that the functions in this process use
	operator  *operator.Operator
	region    *region        // nil without Regions
	forwarded sync.Once      // see warnForwarded
	apis      []*gateway.API // nil until they are open
	closers   []func()
}

// New returns a Server that has not started.
func New(o Options) *Server { return &Server{Options: o} }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if s.Regions > 0 {
		return s.runRegions(ctx)
	}
	defer s.Close()
	run, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.greet()
	return run()
}

// start starts everything, and returns a function that answers requests until ctx ends.
func (s *Server) start(ctx context.Context) (run func() error, err error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	handlers := s.handlers()
	go s.watchRules(ctx)
	go s.flushMetrics(ctx)
	return func() error { return s.serve(ctx, handlers, listeners) }, nil
}

// Open starts everything except the listeners, and returns a handler for each API. Call Close afterwards.
func (s *Server) Open(ctx context.Context) ([]http.Handler, error) {
	err := s.read()
	if err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.handlers(), nil
}

// handlers returns a handler for each API. The first one also serves the console and the operator's
// endpoints.
func (s *Server) handlers() []http.Handler {
	s.operator.Routed = func(method, path string) (routed, unrouted []string) {
		return routing(s.apis, method, rules.TrimPrefix(path, s.operator.BasePaths))
	}
	var list []http.Handler
	for _, api := range s.apis {
		var h http.Handler = api
		if s.operator.Viewers == nil {
			h = s.warnForwarded(api)
		}
		list = append(list, h)
	}
	list[0] = before(s.site(), list[0])
	return list
}

// Close stops what the Server started.
func (s *Server) Close() {
	for _, closer := range slices.Backward(s.closers) {
		closer()
	}
	s.closers = nil
}

// read reads the rules. It runs first, so that mistakes are reported before anything starts.
func (s *Server) read() (err error) {
	s.checkout, err = s.find()
	if err != nil {
		return err
	}
	s.Rules = absolute(s.Rules, s.checkout.Path("functions", "rules.json"))
	document, err := os.ReadFile(s.Rules)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	if _, err := checkout.ParseRules(document); err != nil {
		return fmt.Errorf("%s has mistakes:\n%w", s.Rules, err)
	}
	return nil
}

// find returns the checkout. With rules of its own, a run can have any folder.
func (s *Server) find() (checkout.Checkout, error) {
	if s.Upstream.url != nil {
		return checkout.Here()
	}
	c, err := checkout.Find()
	if err != nil && s.Rules != "" {
		return checkout.Here()
	} else if err != nil {
		return c, fmt.Errorf("%w, or limit your own server with --upstream URL --rules FILE", err)
	}
	return c, nil
}

func absolute(path, fallback string) string {
	if path == "" {
		return fallback
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (s *Server) open(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.openMetrics(); err != nil {
		return err
	}
	s.reload.Store(&Reload{Since: s.Clock()})
	open := s.openStack
	if s.Upstream.url != nil {
		open = s.openUpstream
	}
	var err error
	s.apis, err = open(ctx)
	return err
}

func (s *Server) listen(ctx context.Context) (listeners []net.Listener, err error) {
	apis := 2
	if s.Upstream.url != nil {
		apis = 1
	}
	for i := range apis {
		port := s.Port + i
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("port %d: not available (%w); choose another with PORT= or --port", port, err)
		}
		s.closers = append(s.closers, func() { _ = l.Close() })
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// The timeouts of client connections. They are short, because clients are on the same machine.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second // like API Gateway's timeout for a function
	idleTimeout   = 2 * time.Minute
	closeTimeout  = 5 * time.Second
)

// maxHeader is the size in bytes of the largest header, of a request and of an upstream's answer.
const maxHeader = 256 << 10

// serve answers requests until ctx ends, and then waits for requests in progress.
func (s *Server) serve(ctx context.Context, handlers []http.Handler, listeners []net.Listener) error {
	failed := make(chan error, len(handlers))
	var running []*http.Server
	for i, handler := range handlers {
		h := &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
		}
		if s.Upstream.url == nil { // an upload to an upstream can take any time
			h.ReadTimeout = bodyTimeout // a function does not end with it
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
