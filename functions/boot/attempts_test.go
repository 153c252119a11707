package boot_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// flaky is a server that closes the connection instead of answering some requests. hangUp selects these
// requests by the number of the connection and the number of the request.
type flaky struct {
	mu     sync.Mutex
	counts map[string]int // number of requests of each connection, by the client's address
	got    []request
	hangUp func(connection, n int) bool // both numbers start at 1
	answer string                       // name of a DynamoDB error and the rest of its JSON object; "" means the answer {}
}

// request is a request that the server received. n is its number on its connection.
type request struct {
	n        int
	answered bool
}

// next counts a request and reports whether the server answers it.
func (f *flaky) next(client string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[client]++
	r := request{f.counts[client], f.hangUp == nil || !f.hangUp(len(f.counts), f.counts[client])}
	f.got = append(f.got, r)
	return r.answered
}

// taken returns the requests that the server received since the last call of taken.
func (f *flaky) taken() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

// ServeHTTP answers like a DynamoDB with an empty table.
func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !f.next(r.RemoteAddr) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if f.answer != "" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+f.answer+`}`)
		return
	}
	_, _ = io.WriteString(w, `{}`)
}

// serveRedis starts a Redis that answers every script with an error.
func (f *flaky) serveRedis(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); ; {
					args, err := readCommand(r)
					if err != nil {
						return
					}
					answer := "-ERR busy\r\n"
					if strings.EqualFold(args[0], "hello") {
						answer = "%0\r\n"
					} else if !f.next(c.RemoteAddr().String()) {
						return
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// open returns a store that package boot has opened. f answers the store's requests.
func (f *flaky) open(t *testing.T, store string) limiter.Store {
	t.Helper()
	var variables []string
	if store == "redis" {
		variables = append(variables, "STORE=redis://"+f.serveRedis(t))
	} else {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		variables = append(variables, "STORE=dynamodb://counters", "DYNAMODB_ENDPOINT="+server.URL, "WEIR_LOCAL=true")
	}
	s, closeStore, err := load(t, variables...).OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeStore() })
	return s
}

var look = func() []limiter.Charge {
	l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}})
	if err != nil {
		panic(err)
	}
	return []limiter.Charge{{Subject: limiter.User("42"), Limit: l}}
}()

var sharedLimit = storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10,
	Window: time.Minute, Regions: algo.Regions{Of: 2}}}))

func take(ctx context.Context, s limiter.Store) error {
	_, err := s.Take(ctx, algo.InstantOf(time.Now()), look[0].Subject, look, make([]algo.Result, 1))
	return err
}

// A call that fails on a connection that is new, or was used within the last second, is not repeated. A refund and a credit
// are never repeated. TestDeadline_deadConnection has idle connections.
func TestOpenStore_deadConnection(t *testing.T) {
	for _, store := range []string{"dynamodb", "redis"} {
		for name, hangUp := range map[string]func(connection, n int) bool{
			"alive":             nil,
			"a used connection": func(_, n int) bool { return n == 2 },
			"a new connection":  func(_, _ int) bool { return true },
		} {
			t.Run(store+" "+name, func(t *testing.T) {
				f := &flaky{hangUp: hangUp}
				s := f.open(t, store)
				for i := range 3 {
					err := take(t.Context(), s)
					if store == "redis" && err != nil && strings.Contains(err.Error(), "ERR busy") {
						err = nil // this error is the answer of the fake Redis to every script
					}
					if got := f.taken(); len(got) != 1 || (err == nil) != got[0].answered {
						t.Fatalf("call %d: got %d requests, want 1: %+v, %v", i+1, len(got), got, err)
					}
				}
			})
		}
		charged := look[0]
		charged.Cost = 1
		state, _ := charged.Limit.Machine().Take(algo.State{}, algo.InstantOf(time.Now()), 1)
		for name, send := range map[string]func(limiter.Store) error{
			"refund": func(s limiter.Store) error {
				_, err := s.Settle(t.Context(), 0, charged.Subject, []limiter.Charge{charged},
					[]algo.Result{{Machine: charged.Limit.Machine(), State: state}}, 0)
				return err
			},
			"credit": func(s limiter.Store) error {
				_, _, err := s.(limiter.Shares).Credit(t.Context(), algo.InstantOf(time.Now()), charged.Subject, sharedLimit, 0, 1)
				return err
			},
		} {
			t.Run(store+" "+name, func(t *testing.T) {
				if s := (&flaky{}).open(t, store); name != "refund" && !canShare(s) {
					t.Skip("the store cannot move share")
				}
				f := &flaky{hangUp: func(_, n int) bool { return n == 2 }}
				s := f.open(t, store)
				for range 1000 {
					_ = take(t.Context(), s)
					f.taken()
					err := send(s)
					got := f.taken()
					if len(got) != 1 {
						t.Fatalf("got %d requests, want 1: %v", len(got), err)
					}
					if !got[0].answered {
						return
					}
				}
				t.Error("got no connection that was used twice in 1000 rounds")
			})
		}
	}
}

func canShare(s limiter.Store) bool {
	_, ok := limiter.SharesOf(s)
	return ok
}

// The client does not retry an error that DynamoDB returns. The SDK's retry quota never blocks the
// single attempt of a call. If DynamoDB throttles, the error says whether it
// throttles the item or the table.
func TestDynamoDBClient_attempts(t *testing.T) {
	f := &flaky{answer: "InternalServerError"}
	server := httptest.NewServer(f)
	defer server.Close()
	client, err := load(t, "STORE=dynamodb://counters", "DYNAMODB_ENDPOINT="+server.URL, "WEIR_LOCAL=true").DynamoDBClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var attempts atomic.Int64
	count := func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("count", func(ctx context.Context, in middleware.DeserializeInput,
			next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			attempts.Add(1)
			return next.HandleDeserialize(ctx, in)
		}), middleware.After)
	}
	get := func() error {
		_, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"),
			Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "k"}}},
			func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, count) })
		return err
	}
	// A retry takes 5 of the 500 tokens of the SDK's quota, so 600 calls with retries would exhaust the quota.
	for i := range 600 {
		if err := get(); err == nil || attempts.Load() != int64(i+1) || len(f.taken()) != 1 {
			t.Fatalf("after call %d: got %d attempts, want one for each call: %v", i+1, attempts.Load(), err)
		}
	}
	transport := client.Options().HTTPClient.(resilient.HTTPClient).Doer.(*awshttp.BuildableClient).GetTransport()
	if transport.IdleConnTimeout != 5*time.Second {
		t.Errorf("idle connections are closed after %s, want 5s", transport.IdleConnTimeout)
	}
	const (
		byItem  = `{"reason":"TableWriteKeyRangeThroughputExceeded","resource":"arn:aws:dynamodb:eu-west-1:1:table/t"}`
		byTable = `{"reason":"TableWriteAccountLimitExceeded","resource":"arn:aws:dynamodb:eu-west-1:1:table/t"}`
	)
	for answer, want := range map[string]error{
		`ProvisionedThroughputExceededException"`: limiter.ErrThrottled, `ThrottlingException"`: limiter.ErrThrottled,
		`RequestLimitExceeded"`: limiter.ErrThrottled,
		`ValidationException"`:  limiter.ErrRejected,
		`ProvisionedThroughputExceededException","ThrottlingReasons":[` + byItem + `]`: limiter.ErrItemThrottled,
		`ThrottlingException","throttlingReasons":[` + byItem + `]`:                    limiter.ErrItemThrottled,
		`ThrottlingException","throttlingReasons":[]`:                                  limiter.ErrThrottled,
		`ThrottlingException","throttlingReasons":[` + byItem + `,` + byTable + `]`:    limiter.ErrThrottled,
	} {
		f := &flaky{answer: answer}
		s := f.open(t, "dynamodb")
		for i := range 20 { // most calls reuse the connection of an earlier call
			want := want
			if errors.Is(want, limiter.ErrThrottled) && i >= 5 { // throttling of the table is an outage, which opens the breaker
				want = limiter.ErrBreakerOpen
			}
			if err := take(t.Context(), s); !errors.Is(err, want) || !errors.Is(err, limiter.ErrUnavailable) ||
				(len(f.taken()) == 1) != !errors.Is(want, limiter.ErrBreakerOpen) {
				t.Errorf("%s, call %d: got %v, want %v", answer, i+1, err, want)
			}
		}
	}
}

// The stores of functions are resilient once, with the deadlines of the library.
func TestOpenStore_resilient(t *testing.T) {
	for want, variables := range map[time.Duration][]string{
		50 * time.Millisecond:  {"STORE=redis://127.0.0.1:6379"},
		100 * time.Millisecond: {"STORE=dynamodb://counters", "DYNAMODB_ENDPOINT=http://127.0.0.1:8000", "WEIR_LOCAL=true"},
	} {
		s, closeStore, err := load(t, variables...).OpenStore(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if once, ok := s.(*resilient.Store); !ok || once.Timeout() != want {
			t.Errorf("%v: got a %T, want a resilient store with a deadline of %s", variables, s, want)
		}
		if _, err := resilient.New(s, resilient.Options{}); err == nil {
			t.Errorf("%v: got a store that is wrapped twice, want an error", variables)
		}
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	}
}

type hanging struct{ limiter.Store }

func (hanging) Take(ctx context.Context, _ algo.Instant, _ limiter.Subject, _ []limiter.Charge, _ []algo.Result) (bool, error) {
	<-ctx.Done()
	return false, limiter.ErrUnavailable
}

// A decision waits for the store at most until its deadline. The store has a default deadline, and a variable can set
// another. Then on_error "local" decides from local state.
func TestConfig_Environment_deadline(t *testing.T) {
	const rule = `{"version":1,"rules":[{"endpoint":"/a","on_error":"local","local_processes":1,"limits":{"*":{"requests":2,"window":"1m"}}}]}`
	file := write(t, "rules.json", rule)
	for _, c := range []struct {
		variables   []string
		first, then time.Duration
	}{
		{nil, 900 * time.Millisecond, 80 * time.Millisecond},
		{[]string{"STORE_TIMEOUT=70ms"}, 900 * time.Millisecond, 70 * time.Millisecond},
		{[]string{"STORE_TIMEOUT=950ms"}, 950 * time.Millisecond, 950 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, err := load(t, append(c.variables, "STORE=dynamodb://counters", "RULES_FILE="+file)...).Environment(t.Context(),
				storetest.Must(resilient.New(hanging{memstoreOf()}, resilient.Options{Timeout: 80 * time.Millisecond})), quiet)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []time.Duration{c.first, c.then, c.then} {
				begun := time.Now()
				d, err := e.Limiter.Take(t.Context(), begun, e.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/a"),
					caller.Caller{User: "a"}))
				if took := time.Since(begun); err != nil || took != want || d.Allowed != (i < 2) || d.Failed {
					t.Errorf("%v: decision %d took %s, want %s; got %+v, %v", c.variables, i+1, took, want, d, err)
				}
			}
		})
	}
}

// memstoreOf returns a store in memory that the limiter treats as a remote store, because a wrapper hides
// its type.
func memstoreOf() limiter.Store {
	return struct{ limiter.Store }{storetest.Must(memstore.New(memstore.Options{}))}
}
