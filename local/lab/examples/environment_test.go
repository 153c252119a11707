package examples_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
)

// environment is a stub of Lambda: a process of a runtime and one of an extension, with the Runtime API and the Extensions
// API that they call. It handles one event at a time, does not freeze its processes, and sends the extension no events.
type environment struct {
	runtime, extension poll
	registered         chan struct{}
	outcomes           chan outcome
	parts              io.Writer // gets the answer to the current event

	pids  map[string]int // by process: runtime and extension
	fail  sync.Once
	ended chan struct{} // closed when a process has ended
	err   error         // why; valid after ended is closed
	close func()
}

// poll is a request for the next event: asked gets an element for each one.
type poll struct {
	asked  chan struct{}
	events chan []byte
}

// outcome is the end of an answer, or the error that the function has reported.
type outcome struct{ err error }

// functionError is an error that the function has reported.
type functionError struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e functionError) Error() string { return e.Type + ": " + e.Message }

var errEnded = errors.New("a process has ended")

func (p poll) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case p.asked <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	select {
	case event := <-p.events:
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", rand.Text())
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:orders")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(event) // an error means that the process has ended
	case <-r.Context().Done():
	}
}

// startEnvironment starts the extension, which registers, and then the runtime. It returns when both wait for an event.
func startEnvironment(t *testing.T, extension string, runtime, variables []string) *environment {
	t.Helper()
	newPoll := func() poll { return poll{make(chan struct{}), make(chan []byte)} }
	e := &environment{
		runtime: newPoll(), extension: newPoll(), registered: make(chan struct{}, 1), outcomes: make(chan outcome, 1), ended: make(chan struct{}),
		pids: map[string]int{},
	}
	api := httptest.NewServer(e.api())
	ctx, cancel := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	e.close = sync.OnceFunc(func() { cancel(); processes.Wait(); api.CloseClientConnections(); api.Close() })
	t.Cleanup(e.close)
	variables = slices.Concat([]string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://"), "AWS_LAMBDA_FUNCTION_NAME=orders",
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1024", "AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/orders", "AWS_LAMBDA_LOG_STREAM_NAME=local", "TZ=:UTC",
		contract.VariableLayerFolder + "=" + t.TempDir(),
	}, variables)
	start := func(name string, command ...string) {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Env, c.Stdout, c.Stderr, c.Dir, c.WaitDelay = variables, t.Output(), t.Output(), filepath.Dir(command[0]), time.Second
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		e.pids[name] = c.Process.Pid
		processes.Go(func() {
			err := c.Wait()
			e.fail.Do(func() { e.err = fmt.Errorf("%w: %s: %w", errEnded, name, err); close(e.ended) })
		})
	}
	start("extension", extension)
	within, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	err := e.wait(within, e.registered)
	if err == nil {
		start("runtime", runtime...)
		err = errors.Join(e.wait(within, e.runtime.asked), e.wait(within, e.extension.asked))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *environment) api() http.Handler {
	mux := http.NewServeMux()
	accept := func(w http.ResponseWriter, o outcome) {
		e.outcomes <- o
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"status":"OK"}`)
	}
	report := func(w http.ResponseWriter, r *http.Request) {
		var reported functionError
		_ = json.NewDecoder(r.Body).Decode(&reported) // like Lambda, accepts any body
		accept(w, outcome{reported})
	}
	mux.HandleFunc("POST /2020-01-01/extension/register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lambda-Extension-Identifier", "weir")
		_, _ = io.WriteString(w, `{"functionName":"orders","functionVersion":"$LATEST","handler":"app.handler"}`)
		e.registered <- struct{}{}
	})
	mux.HandleFunc("GET /2020-01-01/extension/event/next", e.extension.serve)
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", e.runtime.serve)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", report)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", report)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(e.parts, r.Body)
		if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" { // the end of a streamed answer
			reported := functionError{Type: kind}
			body, _ := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body"))
			_ = json.Unmarshal(body, &reported)
			err = reported
		}
		accept(w, outcome{err})
	})
	return mux
}

// wait waits for an element of c.
func (e *environment) wait(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-e.ended:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream writes the answer to w. After an error that is not a functionError, the environment has ended.
func (e *environment) stream(ctx context.Context, event []byte, w io.Writer) error {
	e.parts = w
	e.runtime.events <- event
	if err := e.wait(ctx, e.runtime.asked); err != nil {
		e.close()
		return err
	}
	return (<-e.outcomes).err
}

func (e *environment) invoke(ctx context.Context, event []byte) ([]byte, error) {
	var answer bytes.Buffer
	if err := e.stream(ctx, event, &answer); err != nil {
		return nil, err
	}
	return answer.Bytes(), nil
}
