package runtimeproxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Open creates the environment of a function with the layer. package boot has one.
type Open func(context.Context, *slog.Logger) (*lambdahttp.Environment, error)

// memoryLimit is a soft limit: above it, the extension collects garbage more often. The memory is a part of the function's,
// which can have 128 MB. Without the limit, large events need 6 MB more. The largest caches need less.
const memoryLimit = 24 << 20

// Start runs the extension until Lambda ends the environment. It logs to standard output, which Lambda adds
// to the log of the function, and each message at most once a second.
func Start(open Open) {
	x := Extension{
		Name: filepath.Base(os.Args[0]), API: os.Getenv(contract.VariableRuntimeAPI), Wrapper: os.Getenv(contract.VariableWrapper),
		File: filepath.Join(cmp.Or(os.Getenv(contract.VariableLayerFolder), "/tmp"), contract.LayerAddress), Late: time.After(patience),
		Concurrent: os.Getenv(contract.VariableInit) == contract.ManagedInstances, Open: open,
		Logger: slog.New(telemetry.NewRateLimitedHandler(lambdacontext.NewLogHandler())),
	}
	if !x.Concurrent { // most steps of an invocation wait for the previous step, so a second processor would only add delay
		runtime.GOMAXPROCS(1)
		debug.SetMemoryLimit(memoryLimit)
	}
	if err := x.Run(context.Background()); err != nil {
		x.Logger.Error("the layer cannot limit requests", slog.Any("err", err))
		os.Exit(1)
	}
}

// Extension is an external extension of Lambda.
type Extension struct {
	// Name is the name of the program's file. Lambda identifies the extension by it.
	Name string
	// API is the host and the port of Lambda's APIs.
	API string
	// Wrapper is the wrapper script of the function. Without one, Lambda starts a runtime that does not use the proxy.
	Wrapper string
	// File is the path of contract.LayerAddress.
	File string
	// Late is ready when a runtime that has not requested an event through the proxy must be reported.
	Late <-chan time.Time
	// Concurrent is true if the runtime handles several events at once, as on Lambda Managed Instances.
	Concurrent bool
	Open       Open
	Logger     *slog.Logger

	id string
}

// patience is the time from the start until Extension.Late. The first init on demand ends after 10 s, and the log
// must have the report before.
const patience = 8 * time.Second

// errBypassed means that no event can reach the proxy. The init of a slow function reports it, too.
var errBypassed = fmt.Errorf("the runtime has requested no event through the layer for %s: its init is slow, or it uses another proxy "+
	"of the Runtime API; make %s the last wrapper script (LAYER.md)", patience, contract.LayerRoot+contract.LayerWrapper)

// errNoWrapper is the cause of errBypassed that a deployment can introduce by replacing the variables of a function.
var errNoWrapper = fmt.Errorf("%s: not set, so the runtime requests no event through the layer; set it to %s", contract.VariableWrapper,
	contract.LayerRoot+contract.LayerWrapper)

const errConfiguration = "Extension.ConfigInvalid"

// Run registers the extension, serves the Runtime API to the runtime, and returns when the environment ends.
// If the configuration is invalid, it reports this to Lambda, which fails the init, and returns the error.
func (x *Extension) Run(ctx context.Context) error {
	_, port, err := net.SplitHostPort(x.API)
	if err != nil {
		return fmt.Errorf("%s: %w", contract.VariableRuntimeAPI, err)
	}
	// The runtime starts when the extension has registered, so the proxy must listen before.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(contract.LayerHost, port))
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	if err := os.WriteFile(x.File, []byte(listener.Addr().String()+"\n"), 0o600); err != nil {
		return err
	}
	if err := x.register(ctx); err != nil {
		return err
	}
	proxy := NewProxy(sync.OnceValue(x.upstream), x.Concurrent, x.Logger)
	server := &http.Server{Handler: proxy.Handler()} //nolint:gosec // only the runtime connects; timeouts would end it after a freeze
	go func() { _ = server.Serve(listener) }()       // serves until Close
	defer func() { _ = server.Close() }()
	e, err := x.Open(ctx, x.Logger) // the runtime starts at the same time
	if err != nil {
		return errors.Join(err, x.initError(ctx, err))
	}
	proxy.Open(lambdahttp.NewLayer(e))
	defer proxy.Close()
	x.awaitRuntime(proxy.requested)
	return x.wait(ctx)
}

// upstream returns the address of the Runtime API that the wrapper script replaced. It is valid when the runtime
// has started.
func (x *Extension) upstream() string {
	content, _ := os.ReadFile(x.File) // if the script wrote no line, the address of Lambda is still in use
	if lines := strings.Fields(string(content)); len(lines) > 1 {
		return lines[1]
	}
	return x.API
}

// awaitRuntime returns when the runtime has requested an event through the proxy. Lambda ends the init, and sends
// the first event, only after each extension has requested one. So if Run waits for this, no event passes the proxy.
func (x *Extension) awaitRuntime(requested <-chan struct{}) {
	select {
	case <-requested:
		return
	case <-x.Late:
		err := errBypassed
		if x.Wrapper == "" {
			err = errNoWrapper
		}
		x.Logger.Error("the layer limits no request", slog.Any("err", err))
	}
	<-requested
}

// register registers the extension for the end of the environment. The proxy sees the events, and an
// extension for events would delay the end of each invocation.
func (x *Extension) register(ctx context.Context) error {
	h, err := x.call(ctx, http.MethodPost, "register", http.Header{"Lambda-Extension-Name": {x.Name}},
		map[string]any{"events": []string{"SHUTDOWN"}}, nil)
	x.id = h.Get("Lambda-Extension-Identifier")
	return err
}

// wait returns when the environment ends.
func (x *Extension) wait(ctx context.Context) error {
	for {
		var event struct {
			EventType string `json:"eventType"`
		}
		if _, err := x.call(ctx, http.MethodGet, "event/next", nil, nil, &event); err != nil {
			return err
		}
		if event.EventType == "SHUTDOWN" {
			return nil
		}
	}
}

func (x *Extension) initError(ctx context.Context, problem error) error {
	report := map[string]any{"errorType": errConfiguration, "errorMessage": problem.Error(), "stackTrace": []string{}}
	_, err := x.call(ctx, http.MethodPost, "init/error", http.Header{"Lambda-Extension-Function-Error-Type": {errConfiguration}}, report, nil)
	return err
}

// call calls the Extensions API: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-extensions-api.html
func (x *Extension) call(ctx context.Context, method, path string, header http.Header, body, result any) (http.Header, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+x.API+"/2020-01-01/extension/"+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if body == nil {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Lambda-Extension-Identifier", x.id)
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("extensions API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("status %d: %.200s", response.StatusCode, answer)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(answer, result)
	}
	if err != nil {
		return nil, fmt.Errorf("extensions API: %s: %w", path, err)
	}
	return response.Header, nil
}
