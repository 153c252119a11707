package lambdaenv

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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// maxOutput is the largest answer that Lambda accepts, as measured. Lambda's quota page says 6 MB.
const maxOutput = 6<<20 + 100

// maxStream is the largest streamed answer that Lambda accepts.
const maxStream = 200 << 20

// truncated is the type of the error of a streamed answer without an end.
const truncated = "Runtime.TruncatedResponse"

// The version and the handler of every function.
const (
	version = "$LATEST"
	handler = "bootstrap"
)

// initRequest is the id of the init, which has no request.
const initRequest = "init"

// FunctionError is an error that the function has reported. It wraps a messages.InvokeResponse_Error of
// aws-lambda-go, which a function in this process would return.
type FunctionError struct {
	messages.InvokeResponse_Error
}

// Error returns the type and the message.
func (e FunctionError) Error() string { return e.Type + ": " + e.Message }

// Unwrap returns the error of aws-lambda-go.
func (e FunctionError) Unwrap() error { return e.InvokeResponse_Error }

func functionError(kind, message string) FunctionError {
	return FunctionError{messages.InvokeResponse_Error{Type: kind, Message: message}}
}

type invocation struct {
	id, arn  string
	deadline time.Time
	event    []byte
}

// newInvocation returns an invocation with the deadline of ctx, which must have one.
func newInvocation(ctx context.Context, name string, event []byte) invocation {
	i := invocation{id: rand.Text(), arn: "arn:aws:lambda:us-east-1:123456789012:function:" + name, event: event}
	i.deadline, _ = ctx.Deadline()
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		i.id, i.arn = lc.AwsRequestID, lc.InvokedFunctionArn
	}
	return i
}

type outcome struct {
	answer []byte
	err    error
}

// runtimeAPI returns the API that the process calls: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
func (e *Environment) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", e.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Lambda-Runtime-Function-Response-Mode") == "streaming" {
			e.finishStream(w, r, r.PathValue("id"))
			return
		}
		e.finish(w, r, r.PathValue("id"), func(body []byte) outcome { return outcome{answer: body} })
	})
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", func(w http.ResponseWriter, r *http.Request) {
		e.finish(w, r, r.PathValue("id"), failure)
	})
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", func(w http.ResponseWriter, r *http.Request) {
		e.finish(w, r, initRequest, failure)
	})
	e.extensionsAPI(mux)
	return mux
}

// next reports that the process is ready and answers with the next event.
func (e *Environment) next(w http.ResponseWriter, r *http.Request) {
	if e.concurrent {
		e.forget(initRequest)
		select {
		case e.ready <- struct{}{}:
		default: // only the first request ends the init
		}
	} else {
		e.forgetAll()
		select {
		case e.ready <- struct{}{}:
		case <-r.Context().Done():
			return
		}
	}
	select {
	case i := <-e.events:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", i.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", i.arn)
		_, _ = w.Write(i.event) // an error means that the process has ended
	case <-r.Context().Done():
	}
}

// request is a request for whose outcome an invocation waits.
type request struct {
	outcome chan<- outcome
	parts   io.Writer // gets a streamed answer; nil collects it in the outcome
}

// expect permits the process to send one outcome for a request, and returns the channel that gets it.
func (e *Environment) expect(id string, parts io.Writer) <-chan outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan outcome, 1)
	e.pending[id] = request{c, parts}
	return c
}

// forget withdraws the permission of expect.
func (e *Environment) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pending, id)
}

// forgetAll withdraws the permission of every expect.
func (e *Environment) forgetAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.pending)
}

// finish handles the response or error that the process sends for a request. It accepts only the outcome of
// a pending request.
func (e *Environment) finish(w http.ResponseWriter, r *http.Request, id string, parse func([]byte) outcome) {
	status, o := http.StatusAccepted, outcome{}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOutput))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		status = http.StatusRequestEntityTooLarge
		o.err = functionError("Function.ResponseSizeTooLarge", fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxOutput))
	case err != nil:
		return // the process has ended or disconnected
	default:
		o = parse(body)
	}
	if p, ok := e.claim(id); ok {
		p.outcome <- o // does not block, because each request has one outcome
	} else {
		status = http.StatusForbidden
	}
	acknowledge(w, status)
}

// finishStream handles a streamed response. The trailers of the response report an error after its first
// bytes.
func (e *Environment) finishStream(w http.ResponseWriter, r *http.Request, id string) {
	p, ok := e.claim(id)
	if !ok {
		acknowledge(w, http.StatusForbidden)
		return
	}
	var whole bytes.Buffer
	var to io.Writer = &whole
	if p.parts != nil {
		to = p.parts
	}
	_, err := io.Copy(to, http.MaxBytesReader(w, r.Body, maxStream))
	status, o := http.StatusAccepted, outcome{answer: whole.Bytes()}
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); {
	case large:
		status = http.StatusRequestEntityTooLarge
		o = outcome{err: functionError("Function.ResponseSizeTooLarge", fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxStream))}
	case err != nil:
		o = outcome{err: functionError(truncated, err.Error())}
	case kind != "":
		o = streamFailure(kind, r.Trailer.Get("Lambda-Runtime-Function-Error-Body"))
	}
	p.outcome <- o // does not block, because each request has one outcome
	acknowledge(w, status)
}

// acknowledge answers a runtime, which uses the status code and not the body.
func acknowledge(w http.ResponseWriter, status int) {
	respond(w, status, map[string]string{"status": http.StatusText(status)})
}

// claim returns a pending request. The request is then no longer pending. claim returns false if the
// request was not pending.
func (e *Environment) claim(id string) (request, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.pending[id]
	delete(e.pending, id)
	return p, ok
}

// streamFailure reads the error in the trailers of a streamed response. The body is JSON in base64.
func streamFailure(kind, body string) outcome {
	decoded, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		decoded = []byte(body)
	}
	reported := parseError(decoded)
	reported.Type = kind
	return outcome{err: FunctionError{reported}}
}

// stream is a writer that an invocation closes, because the process can send parts after the invocation.
type stream struct {
	mu sync.Mutex
	w  io.Writer // nil after close
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return 0, errors.New("the invocation has ended")
	}
	return s.w.Write(b)
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = nil
}

func failure(body []byte) outcome { return outcome{err: FunctionError{parseError(body)}} }

// parseError reads an error. Like Lambda, it accepts any body. The form of the stack trace differs between
// runtimes, so only that of Go is kept.
func parseError(body []byte) (reported messages.InvokeResponse_Error) {
	err := json.Unmarshal(body, &reported)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(wrong.Field, "stackTrace") {
		reported.StackTrace = nil
		return reported
	}
	if err != nil {
		return messages.InvokeResponse_Error{Type: "Unhandled", Message: string(body)}
	}
	return reported
}
