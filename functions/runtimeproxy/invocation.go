package runtimeproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// invocation is an event from its arrival until its settlement.
type invocation struct {
	id, arn  string
	deadline time.Time
	admitted chan []byte   // gets the event that the function must answer, or nil when Weir has answered
	answers  chan *answer  // gets the answer of the function; closed if there will be none
	settled  chan struct{} // closed at the end

	taken bool // answers has an element or is closed; Proxy.mu guards it
}

// maxDuration bounds an invocation without a deadline. It is Lambda's largest timeout.
const maxDuration = 15 * time.Minute

func newInvocation(h http.Header) *invocation {
	deadline, ok := deadlineOf(h)
	if !ok {
		deadline = time.Now().Add(maxDuration)
	}
	return &invocation{
		id: h.Get(headerRequest), arn: h.Get(headerARN), deadline: deadline,
		admitted: make(chan []byte, 1), answers: make(chan *answer, 1), settled: make(chan struct{}),
	}
}

// noAnswer ends an invocation without an answer, unless it has one. The caller holds Proxy.mu.
func (i *invocation) noAnswer() {
	if !i.taken {
		i.taken = true
		close(i.answers)
	}
}

var errNoAnswer = errors.New("the function did not answer")

// errFunction means that the function reported an error or sent a part of its answer, or that Lambda did not accept the answer.
var errFunction = errors.New("the function failed")

// run decides an event, waits for the answer, and settles the request.
func (p *Proxy) run(i *invocation, event []byte) {
	defer close(i.settled)
	defer p.forget(i)
	ctx := lambdacontext.NewContext(context.Background(), &lambdacontext.LambdaContext{AwsRequestID: i.id, InvokedFunctionArn: i.arn})
	ctx, cancel := context.WithDeadline(ctx, i.deadline)
	defer cancel()
	var current *answer
	defer func() {
		if v := recover(); v != nil { // lambdahttp recovers from a panic before the function has the event
			p.logger.ErrorContext(ctx, "event not limited, or answer not passed on", slog.Any("panic", v),
				slog.String("stack", string(debug.Stack())))
			current.abort()
			if event != nil {
				p.passOn(i, event)
			}
		}
	}()
	own, err := p.layer.Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
		i.admitted <- a.Event
		event, a.Event = nil, nil // an event and its answer can have 6 MB each
		var ok bool
		current, ok = <-i.answers
		if !ok {
			return errNoAnswer
		}
		err := current.send(a)
		current.end()
		return err
	})
	switch {
	case own != nil:
		event = nil // the function must not get it, even if post panics
		defer func() {
			p.forget(i)
			i.admitted <- nil
		}()
		p.post(context.WithoutCancel(ctx), i, own) // a request can leave a queue because of the deadline
	case err != nil:
		if !errors.Is(err, lambdahttp.ErrForeign) {
			p.logger.ErrorContext(ctx, "event without a decision passed to the function", slog.Any("err", err))
		}
		p.passOn(i, event)
	}
}

// passOn gives the function an event without a decision. Its answer passes unchanged, in the request of the runtime, whose
// panic net/http recovers.
func (p *Proxy) passOn(i *invocation, event []byte) {
	i.admitted <- event
	if a, ok := <-i.answers; ok {
		a.unchanged = true
		a.end()
	}
}

// post sends an answer of Weir to Lambda.
func (p *Proxy) post(ctx context.Context, i *invocation, own *lambdahttp.Own) {
	url := "http://" + p.api() + "/2018-06-01/runtime/invocation/" + i.id + "/response"
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(own.Payload))
	if err == nil {
		out.Header.Set("Content-Type", "application/json")
		if own.Streamed {
			out.Header.Set("Content-Type", lambdahttp.StreamType)
			out.Header.Set(headerMode, streaming)
			out.ContentLength = -1 // Lambda accepts a streamed answer only in chunks
		}
		repeatable(out)
		var response *http.Response
		response, err = client.Do(out)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusAccepted {
				err = fmt.Errorf("status: got %d, want %d", response.StatusCode, http.StatusAccepted)
			}
		}
	}
	if err != nil {
		p.logger.ErrorContext(ctx, "refusal not sent", slog.Any("err", err))
	}
}

// answer is a request of the runtime with an answer or an error.
type answer struct {
	proxy     *Proxy
	w         http.ResponseWriter
	r         *http.Request
	failed    bool          // the function reports an error
	unchanged bool          // Proxy.answer passes it on
	relayed   chan struct{} // closed when w has the response of Lambda, or unchanged is true
	done      bool          // relayed is closed
}

// send sends the answer, with the fields of the decision, to Lambda. It sends the response of Lambda to the
// runtime. It returns an error if the function has failed.
func (a *answer) send(admitted *lambdahttp.Admitted) error {
	switch {
	case a.failed:
		a.proxy.pass(a.w, a.r)
		return errFunction
	case a.r.Header.Get(headerMode) == streaming:
		return a.stream(admitted)
	}
	payload, err := readAtMost(a.r.Body, a.r.ContentLength, lambdahttp.MaxAnswer)
	switch {
	case err != nil: // the connection has ended
		a.w.WriteHeader(http.StatusBadRequest)
		return errFunction
	case len(payload) > lambdahttp.MaxAnswer: // Lambda rejects it
		return a.relay(func() io.Reader { return io.MultiReader(bytes.NewReader(payload), a.r.Body) }, -1)
	}
	payload = admitted.Answered(payload)
	return a.relay(func() io.Reader { return bytes.NewReader(payload) }, int64(len(payload)))
}

// relay sends a body to Lambda. It returns an error if Lambda does not accept it.
func (a *answer) relay(body func() io.Reader, length int64) error {
	status, err := a.proxy.relay(a.w, a.r, body, length)
	if err != nil {
		a.proxy.fail(a.w, err)
	}
	if status != http.StatusAccepted {
		return errFunction
	}
	return nil
}

// end lets the runtime continue.
func (a *answer) end() {
	if !a.done {
		a.done = true
		close(a.relayed)
	}
}

// abort reports a failure of Weir to the runtime, if the runtime has no response yet.
func (a *answer) abort() {
	if a != nil && !a.done {
		a.proxy.fail(a.w, errFunction)
		a.end()
	}
}
