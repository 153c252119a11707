package lambdahttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// Layer enforces limits on events before a function in another process answers them. It decides exactly
// like the handler of [NewHandler], so a refusal has the same bytes. It is safe for concurrent use.
type Layer struct {
	e   *Environment
	api http.Handler
}

// NewLayer returns a Layer.
func NewLayer(e *Environment) *Layer { return &Layer{e, e.Serve(http.HandlerFunc(forward))} }

// Function passes the event of an admitted request to the function, and returns when the function has
// answered. It calls [Admitted.Answered] or [Admitted.Prelude] with the answer. An error means that the
// function failed.
type Function func(*Admitted) error

// ErrForeign means that an event is no HTTP request, so that no limit applies.
var ErrForeign = errors.New("event: no HTTP request")

// errMalformed means that an event is an object that the decoder rejects.
var errMalformed = errors.New("event: malformed JSON, or more than 10,000 levels deep")

// errUnreadable means that an event of an API or a load balancer has no method or path that Weir can read.
var errUnreadable = errors.New("event: no method or path, or one of an unexpected type")

// errFailed is the panic value that reports a failure of the function to the Gate.
var errFailed = errors.New("the function failed")

type exchange struct {
	response // Weir's own answer

	payload  []byte
	event    *proxyEvent
	fields   int // number of the header fields of the event
	function Function
	rules    *live.Rules
	called   bool
}

// Write keeps the body of Weir's own answer. It drops the body of the function's answer.
func (x *exchange) Write(b []byte) (int, error) {
	if x.called {
		return len(b), nil
	}
	return x.response.Write(b)
}

type exchangeKey struct{}

// Own is an answer of Weir.
type Own struct {
	// Payload is the body of the request to the Runtime API.
	Payload []byte
	// Streamed is true if the answer must be sent as a stream, with the content type [StreamType]. Otherwise it is JSON.
	Streamed bool
}

// Invoke decides an event. If Weir refuses the request or answers it, Invoke returns this answer, and does
// not call function. Otherwise it calls function, settles the request after function has returned, and
// returns nil. If it returns an error, it has not called function, and the event has no decision.
func (l *Layer) Invoke(ctx context.Context, payload []byte, function Function) (*Own, error) {
	event, err := parseWithoutBody(payload)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // a decision by the other members is better than none
		l.e.Logger.LogAttrs(ctx, slog.LevelWarn, "member of an event ignored, because its type is unexpected",
			slog.String("member", mismatch.Field))
	} else if errors.Is(err, ErrForeign) {
		return nil, err
	} else if err != nil {
		return nil, l.e.undecided(err)
	}
	x := &exchange{response: response{header: http.Header{}}, payload: payload, event: event, function: function, rules: l.e.Rules}
	r, err := event.request(context.WithValue(ctx, exchangeKey{}, x), l.e, "")
	if err != nil { // an event that cannot be parsed is not passed on: a client could otherwise avoid the limits
		_ = l.e.undecided(err)
		l.e.malformed().Refuse(x)
	} else {
		r.Body = io.NopCloser(&eventBody{exchange: x})
		if err := l.serve(x, r); err != nil {
			return nil, l.e.undecided(err)
		}
	}
	if x.called {
		return nil, nil
	}
	return l.own(x)
}

// own returns the answer of Weir. A load balancer has no streams.
func (l *Layer) own(x *exchange) (*Own, error) {
	if l.e.ResponseStream && x.event.host() != loadBalancer {
		payload, err := x.stream()
		return &Own{payload, true}, err
	}
	payload, err := json.Marshal(x.response.event(x.event))
	return &Own{payload, false}, err
}

// serve serves a request. It returns an error if the decision panics.
func (l *Layer) serve(x *exchange, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); {
		case v == nil || v == errFailed: //nolint:errorlint // the value of a panic
		case x.called:
			panic(v)
		default:
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	x.fields = len(r.Header)
	l.api.ServeHTTP(x, r)
	return nil
}

// forward is the http.Handler of admitted requests. Its panic settles the request as a failure.
func forward(w http.ResponseWriter, r *http.Request) {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	x.called = true
	a := &Admitted{Event: x.payload, w: w, counted: httplimit.Counted(r.Context()), event: x.event}
	a.cost = slices.Contains(x.rules.Current().Counts(), limiter.CountCost)
	if a.cost {
		r.Header.Del(limiter.CostField)
	}
	if len(r.Header) != x.fields || r.Header.Get(httplimit.OverField) != "" {
		a.Event = x.event.withHeader(x.payload, r.Header)
	}
	x.payload = nil // the function can free the event
	if err := x.function(a); err != nil {
		panic(errFailed)
	}
}

// eventBody is the body of the request in the event of an exchange. It is decoded when it is first read, because few limits
// need it.
type eventBody struct {
	*exchange
	text *strings.Reader
}

// Read implements io.Reader.
func (b *eventBody) Read(p []byte) (int, error) {
	if b.text == nil {
		var event bodyEvent
		_ = json.Unmarshal(b.payload, &event) // parseWithoutBody has reported the error
		text, err := event.body()
		if err != nil {
			return 0, err
		}
		b.text = strings.NewReader(text)
	}
	return b.text.Read(p)
}

// parseWithoutBody parses an event except its body, which no limit needs. It returns ErrForeign for an event that is no HTTP
// request, such as the event of an authorizer. If the error is a json.UnmarshalTypeError, the event lacks values of unexpected types.
func parseWithoutBody(payload []byte) (*proxyEvent, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(payload), []byte("{")) {
		return nil, ErrForeign
	}
	event := new(proxyEvent)
	err := json.Unmarshal(payload, event)
	if _, mismatch := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !mismatch {
		return nil, errMalformed // err can contain text from a client
	}
	switch method, path := event.target(); {
	case event.MethodARN != "" || event.RouteARN != "":
		return nil, ErrForeign
	case method != "" && path != "":
		return event, err
	}
	members := objectOf(payload)
	if members["requestContext"] != nil && (members["httpMethod"] != nil || members["rawPath"] != nil) {
		return nil, errUnreadable // other events, such as those of a WebSocket API and of VPC Lattice, lack these members
	}
	return nil, ErrForeign
}

// withHeader returns the event with the header h, which the Gate has changed. It removes the fields that h
// lacks, because only Weir may set them. It sets httplimit.OverField to the value in h, or removes the
// field if h has none.
func (e *proxyEvent) withHeader(payload []byte, h http.Header) []byte {
	event, over := objectOf(payload), h.Get(httplimit.OverField) // parseWithoutBody has checked the event
	for member, value := range map[string]any{"headers": over, "multiValueHeaders": []string{over}} {
		fields := objectOf(event[member])
		if fields == nil {
			continue
		}
		fields.remove(func(name string) bool { _, ok := h[http.CanonicalHeaderKey(name)]; return !ok })
		fields.remove(sameField(httplimit.OverField))
		if over != "" {
			fields[strings.ToLower(httplimit.OverField)] = encoded(value)
		}
		event[member] = fields.text()
	}
	return event.text()
}
