package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// fault is what happens to one update.
type fault int

const (
	none      fault = iota
	lost            // the update does not reach the table; a process that crashes before it looks the same
	unheard         // the table makes the update; the answer is lost
	throttled       // the table refuses the update
	twice           // the client sends the update twice, and gets the second answer
)

// faulty is an API on which one update fails.
type faulty struct {
	memtable.Table
	updates int // number of updates since the last fault was set
	at      int // number of the update that fails, from 0
	fault   fault
}

func (f *faulty) set(at int, what fault) { f.updates, f.at, f.fault = 0, at, what }

func (f *faulty) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	f.updates++
	if f.updates-1 == f.at {
		switch f.fault {
		case lost:
			return nil, context.DeadlineExceeded
		case unheard:
			_, _ = f.Table.UpdateItem(ctx, in, o...)
			return nil, context.DeadlineExceeded
		case throttled:
			return nil, &types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{Reason: aws.String("TableWriteKeyRangeThroughputExceeded")}}}
		case twice:
			_, _ = f.Table.UpdateItem(ctx, in, o...)
		case none:
		}
	}
	return f.Table.UpdateItem(ctx, in, o...)
}

// settling is a settlement of three limits of one subject: a window whose cost was higher than the reserve, a window
// whose cost was lower, and a slot.
type settling struct {
	t       *testing.T
	api     *faulty
	store   *dynamostore.Store
	charges []limiter.Charge
	results []algo.Result
	once    limiter.Once
}

// uncharged returns a settling before its charges.
func uncharged(t *testing.T) *settling {
	t.Helper()
	day := algo.Rate{Algorithm: algo.FixedWindow, Requests: 1000, Window: 24 * time.Hour}
	s := &settling{t: t, api: &faulty{at: -1}, once: limiter.Once{ID: limiter.NewVoucherID(), Expires: algo.InstantOf(noon).Add(time.Hour)}}
	s.store = storetest.Must(dynamostore.NewBare(s.api, dynamostore.Options{Table: "t", Namespace: "n", Logger: slog.New(slog.DiscardHandler)}))
	a := limiter.User("a")
	s.charges = []limiter.Charge{{Subject: a, Limit: storetest.Limit(t, "up", day), Cost: 100}, {Subject: a, Limit: storetest.Limit(t, "down", day), Cost: 100}, {Subject: a, Limit: slotsOf(t, 5), Cost: 1}}
	return s
}

func newSettling(t *testing.T, kinds string) *settling {
	t.Helper()
	s := uncharged(t)
	s.results = make([]algo.Result, len(s.charges))
	if ok, err := s.store.Take(t.Context(), algo.InstantOf(noon), limiter.User("a"), s.charges, s.results); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i, c := range []struct {
		cost  int64
		force bool
	}{{7, true}, {3, false}, {1, false}} {
		if s.charges[i].Cost, s.charges[i].Force = c.cost, c.force; kinds[i] == '-' {
			s.charges[i].Cost, s.charges[i].Force = 0, false
		}
	}
	return s
}

func (s *settling) settle(at time.Duration) error {
	_, err := s.store.Settle(s.t.Context(), algo.InstantOf(noon).Add(at), limiter.User("a"), s.charges, s.results, 0, s.once)
	return err
}

// made returns how often each correction was made.
func (s *settling) made() (n [3]int64) {
	s.t.Helper()
	look := make([]limiter.Charge, len(s.charges))
	for i, c := range s.charges {
		look[i] = limiter.Charge{Limit: c.Limit}
	}
	results := make([]algo.Result, len(look))
	if _, err := s.store.Take(s.t.Context(), algo.InstantOf(noon), limiter.User("a"), look, results); err != nil {
		s.t.Fatal(err)
	}
	used := func(i int) int64 { return results[i].Machine.Used(results[i].State, algo.InstantOf(noon)) }
	return [3]int64{(used(0) - 100) / 7, (100 - used(1)) / 3, 1 - used(2)}
}

// An attempt without a deadline is over after 10 s (longestAttempt). Then clocks may differ by algo.MaxSkew, and the
// last millisecond of a ticket is random.
const attemptOver = 10*time.Second + algo.MaxSkew + time.Millisecond

// Each update of a settlement fails in each way. The message is repeated at once, and when the attempt is over. A
// correction upward is made at least once, a correction downward and a release at most once. Without a lost update or
// answer, each is made exactly once. A Limiter then releases slots without the ID (TestLimiter_SettleVoucher_slots).
func TestStore_Settle_faults(t *testing.T) {
	var (
		ok, fails = error(nil), limiter.ErrUnavailable
		begun     = limiter.ErrVoucherBegun
		used      = limiter.ErrVoucherUsed
	)
	for _, c := range []struct {
		kinds             string // corrections: up, down, slots
		fault             fault
		update            int // number of the update that fails: a ticket, the corrections, the ticket of the end
		first, soon, late error
		want              [3]int64
	}{
		{"u--", none, 0, ok, used, used, [3]int64{1, 0, 0}},
		{"-d-", none, 0, ok, used, used, [3]int64{0, 1, 0}},
		{"--s", none, 0, ok, used, used, [3]int64{0, 0, 1}},
		{"uds", none, 0, ok, used, used, [3]int64{1, 1, 1}},

		{"uds", lost, 0, fails, ok, used, [3]int64{1, 1, 1}},
		{"uds", lost, 1, fails, begun, ok, [3]int64{1, 0, 1}},
		{"uds", lost, 2, ok, begun, ok, [3]int64{2, 1, 1}},
		{"uds", unheard, 0, fails, begun, ok, [3]int64{1, 0, 1}},
		{"uds", unheard, 1, fails, begun, ok, [3]int64{2, 1, 1}},
		{"uds", unheard, 2, ok, used, used, [3]int64{1, 1, 1}},
		{"uds", throttled, 0, fails, ok, used, [3]int64{1, 1, 1}},
		{"uds", throttled, 1, fails, ok, used, [3]int64{1, 1, 1}},
		{"uds", throttled, 2, ok, begun, ok, [3]int64{2, 1, 1}},
		{"uds", twice, 0, ok, used, used, [3]int64{1, 1, 1}},
		{"uds", twice, 2, ok, used, used, [3]int64{1, 1, 1}},

		{"-ds", lost, 0, fails, ok, used, [3]int64{0, 1, 1}},
		{"-ds", lost, 1, fails, used, used, [3]int64{0, 0, 0}},
		{"-ds", unheard, 0, fails, used, used, [3]int64{0, 0, 0}},
		{"-ds", unheard, 1, fails, used, used, [3]int64{0, 1, 1}},
		{"-ds", throttled, 0, fails, ok, used, [3]int64{0, 1, 1}},
		{"-ds", throttled, 1, fails, ok, used, [3]int64{0, 1, 1}},
		{"-ds", twice, 0, ok, used, used, [3]int64{0, 1, 1}},
	} {
		t.Run(fmt.Sprintf("%s/%d/%d", c.kinds, c.fault, c.update), func(t *testing.T) {
			s := newSettling(t, c.kinds)
			s.api.set(c.update, c.fault)
			for i, step := range []struct {
				at   time.Duration
				want error
			}{{0, c.first}, {attemptOver - 2*time.Millisecond, c.soon}, {attemptOver, c.late}, {time.Hour - 1, used}} {
				if err := s.settle(step.at); !errors.Is(err, step.want) || (err == nil) != (step.want == nil) {
					t.Errorf("message %d: got %v, want %v", i+1, err, step.want)
				}
				s.api.set(-1, none)
			}
			if got := s.made(); got != c.want {
				t.Errorf("corrections up, down and released: got %d, want %d", got, c.want)
			}
		})
	}
}

// A settlement upward takes three updates, any other settlement two, and a repetition one. A settlement without an ID
// takes one; its repetition finds that the slot is released.
func TestStore_Settle_updates(t *testing.T) {
	for _, c := range []struct {
		kinds    string
		once     bool
		want     int
		repeated int
	}{{"u--", true, 3, 1}, {"uds", true, 3, 1}, {"-d-", true, 2, 1}, {"--s", true, 2, 1}, {"-d-", false, 1, 1}, {"uds", false, 1, 2}} {
		s := newSettling(t, c.kinds)
		if !c.once {
			s.once = limiter.Once{}
		}
		for _, want := range []int{c.want, c.repeated} {
			s.api.set(-1, none)
			if err := s.settle(0); err != nil && !errors.Is(err, limiter.ErrVoucherUsed) {
				t.Fatal(err)
			}
			if s.api.updates != want {
				t.Errorf("settlement %s with an ID %t: got %d updates, want %d", c.kinds, c.once, s.api.updates, want)
			}
		}
	}
}

// A message that settles a request in another process is lost or repeated. It releases the slot of the request in any case,
// because the release needs no ID: a repeated one finds the slot released.
func TestLimiter_SettleVoucher_slots(t *testing.T) {
	unavailable, begun, used := limiter.ErrUnavailable, limiter.ErrVoucherBegun, limiter.ErrVoucherUsed
	for _, c := range []struct {
		kinds       string // corrections: up, down, slots
		fault       fault
		update      int // number of the update that fails
		first, soon error
		late        error    // of a message after the attempts before it are over
		want        [3]int64 // how often each correction was made
		updates     [2]int   // number of updates of the first two messages
	}{
		{"--s", none, 0, nil, used, used, [3]int64{0, 0, 1}, [2]int{1, 1}},
		{"--s", lost, 0, unavailable, nil, used, [3]int64{0, 0, 1}, [2]int{1, 1}},
		{"--s", unheard, 0, unavailable, used, used, [3]int64{0, 0, 1}, [2]int{1, 1}},
		{"-ds", none, 0, nil, used, used, [3]int64{0, 1, 1}, [2]int{2, 2}},
		{"-ds", lost, 0, unavailable, nil, used, [3]int64{0, 1, 1}, [2]int{1, 2}},
		{"-ds", lost, 1, unavailable, used, used, [3]int64{0, 0, 1}, [2]int{2, 2}},
		{"-ds", unheard, 0, unavailable, used, used, [3]int64{0, 0, 1}, [2]int{1, 2}},
		{"uds", none, 0, nil, used, used, [3]int64{1, 1, 1}, [2]int{3, 2}},
		{"uds", lost, 1, unavailable, begun, nil, [3]int64{1, 0, 1}, [2]int{2, 2}},
	} {
		s := uncharged(t)
		l := storetest.Must(limiter.New(s.store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		_, receipt, err := l.TakeRefundable(t.Context(), noon, s.charges)
		if err != nil {
			t.Fatal(err)
		}
		v := storetest.Must(receipt.Voucher(limiter.NewVoucherID(), noon.Add(20*time.Minute)))
		settle := func(at time.Duration) (limiter.Settlement, error) {
			s.api.updates = 0
			return l.SettleVoucher(t.Context(), noon.Add(at), v, func(charge limiter.Charge) int64 {
				for i, more := range []int64{7, -3, -1} {
					if charge.Limit.ID == s.charges[i].Limit.ID && c.kinds[i] != '-' {
						return charge.Cost + more
					}
				}
				return charge.Cost
			})
		}
		s.api.set(c.update, c.fault)
		for i, want := range []error{c.first, c.soon, c.late} {
			done, err := settle([]time.Duration{0, time.Second, attemptOver}[i])
			if !errors.Is(err, want) || (err == nil) != (want == nil) || errors.Is(want, begun) && done.Lost != 2 {
				t.Errorf("%s, fault %d of update %d, message %d: got %+v and %v, want %v", c.kinds, c.fault, c.update, i+1, done, err, want)
			}
			if i < 2 && s.api.updates != c.updates[i] {
				t.Errorf("%s, fault %d of update %d, message %d: got %d updates, want %d", c.kinds, c.fault, c.update, i+1, s.api.updates, c.updates[i])
			}
			if s.api.set(-1, none); i == 1 && s.made()[2] != 1 {
				t.Errorf("%s, fault %d of update %d: got a slot held after the second message, want it released", c.kinds, c.fault, c.update)
			}
		}
		if got := s.made(); got != c.want {
			t.Errorf("%s, fault %d of update %d, corrections up, down and released: got %d, want %d", c.kinds, c.fault, c.update, got, c.want)
		}
	}
}

// A takeover that fails for certain leaves the ID as it was: a later message charges, but refunds nothing that the
// first attempt may have refunded.
func TestStore_Settle_takeoverThrottled(t *testing.T) {
	s := newSettling(t, "uds")
	s.api.set(1, unheard)
	if err := s.settle(0); !errors.Is(err, limiter.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, limiter.ErrUnavailable)
	}
	s.api.set(2, throttled) // after the failed ticket and the takeover
	for i, want := range []error{limiter.ErrItemThrottled, nil, limiter.ErrVoucherUsed} {
		if err := s.settle(attemptOver); !errors.Is(err, want) {
			t.Errorf("repetition %d: got %v, want %v", i+1, err, want)
		}
	}
	if got, want := s.made(), [3]int64{2, 1, 1}; got != want {
		t.Errorf("corrections up, down and released: got %d, want %d", got, want)
	}
}

// Two repetitions take an ID over at the same time. Only one of them makes the corrections.
func TestStore_Settle_takeoverOnce(t *testing.T) {
	s := newSettling(t, "u--")
	s.api.set(1, lost)
	if err := s.settle(0); !errors.Is(err, limiter.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, limiter.ErrUnavailable)
	}
	s.api.set(-1, none)
	var other error
	happened := false
	slow := storetest.Must(dynamostore.NewBare(&crowded{&s.api.Table, func() {
		if s.api.updates++; s.api.updates == 2 && !happened { // between the failed ticket and the takeover
			happened = true
			other = s.settle(attemptOver)
		}
	}}, dynamostore.Options{Table: "t", Namespace: "n"}))
	_, err := slow.Settle(t.Context(), algo.InstantOf(noon).Add(attemptOver), limiter.User("a"), s.charges, s.results, 0, s.once)
	if !errors.Is(err, limiter.ErrVoucherUsed) || other != nil {
		t.Errorf("two repetitions: got %v and %v, want %v and none", err, other, limiter.ErrVoucherUsed)
	}
	if got := s.made(); got[0] != 1 {
		t.Errorf("corrections upward: got %d, want 1", got[0])
	}
}

// An attempt ends at the deadline of its context, if that is earlier than its longest time.
func TestStore_Settle_deadline(t *testing.T) {
	for left, over := range map[time.Duration]time.Duration{300 * time.Millisecond: 300 * time.Millisecond, time.Minute: 10 * time.Second, -time.Hour: 10 * time.Second} {
		s := newSettling(t, "u--")
		s.api.set(1, lost)
		ctx, cancel := context.WithDeadline(t.Context(), noon.Add(left))
		defer cancel()
		for _, c := range []struct {
			after time.Duration
			want  error
		}{{0, limiter.ErrUnavailable}, {over + algo.MaxSkew, limiter.ErrVoucherBegun}, {over + algo.MaxSkew + time.Millisecond, nil}} {
			if _, err := s.store.Settle(ctx, algo.InstantOf(noon).Add(c.after), limiter.User("a"), s.charges, s.results, 0, s.once); !errors.Is(err, c.want) {
				t.Errorf("deadline in %s, %s after the first attempt: got %v, want %v", left, c.after, err, c.want)
			}
			s.api.set(-1, none)
		}
	}
}

// An item can have attributes that this version does not know.
func TestStore_unknownAttributes(t *testing.T) {
	s := newSettling(t, "uds")
	for _, name := range []string{"o", "p", "o1zz", "unknown"} {
		s.api.Items[limiter.User("a").Key("n")][name] = &types.AttributeValueMemberBS{Value: [][]byte{{1}}}
	}
	if err := s.settle(0); err != nil {
		t.Error(err)
	}
	if got, want := s.made(), [3]int64{1, 1, 1}; got != want {
		t.Errorf("corrections up, down and released: got %d, want %d", got, want)
	}
	if entries, err := s.store.Inspect(t.Context(), limiter.User("a")); err != nil || len(entries) != 3 {
		t.Errorf("inspect: got %+v and %v, want three limits", entries, err)
	}
}

// ending is an API whose context ends with one update; that update is still answered.
type ending struct {
	*faulty
	cancel context.CancelFunc
	after  int // updates until the context ends
}

func (e *ending) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := e.faulty.UpdateItem(ctx, in, o...)
	if e.after--; e.after < 0 {
		e.cancel()
	}
	return out, err
}

// A deadline that ends between two updates loses no correction: the repeated message makes each exactly once.
func TestStore_Settle_deadlineEnds(t *testing.T) {
	for _, c := range []struct {
		kinds string
		after int // number of the last update before the context ends
		fault fault
		first error
		want  [3]int64
	}{
		{"-d-", 0, none, context.Canceled, [3]int64{0, 1, 0}},
		{"-d-", 1, throttled, limiter.ErrItemThrottled, [3]int64{0, 1, 0}},
		{"-ds", 0, none, context.Canceled, [3]int64{0, 1, 1}},
		{"uds", 0, none, context.Canceled, [3]int64{1, 1, 1}},
		{"uds", 1, none, nil, [3]int64{1, 1, 1}},
		{"uds", 1, throttled, limiter.ErrItemThrottled, [3]int64{1, 1, 1}},
	} {
		s := newSettling(t, c.kinds)
		s.api.set(1, c.fault)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		api := &ending{s.api, cancel, c.after}
		s.store = storetest.Must(dynamostore.NewBare(api, dynamostore.Options{Table: "t", Namespace: "n", Logger: slog.New(slog.DiscardHandler)}))
		_, err := s.store.Settle(ctx, algo.InstantOf(noon), limiter.User("a"), s.charges, s.results, 0, s.once)
		if !errors.Is(err, c.first) || (err == nil) != (c.first == nil) {
			t.Errorf("%s, context ends after update %d: got %v, want %v", c.kinds, c.after, err, c.first)
		}
		s.api.set(-1, none)
		if err := s.settle(time.Second); c.first != nil && err != nil {
			t.Errorf("%s, context ends after update %d, repetition: got %v", c.kinds, c.after, err)
		}
		if err := s.settle(attemptOver); !errors.Is(err, limiter.ErrVoucherUsed) {
			t.Errorf("%s, context ends after update %d, last repetition: got %v, want %v", c.kinds, c.after, err, limiter.ErrVoucherUsed)
		}
		if got := s.made(); got != c.want {
			t.Errorf("%s, context ends after update %d: corrections %d, want %d", c.kinds, c.after, got, c.want)
		}
	}
}

// unanswered is an HTTP client that loses each request.
type unanswered struct{ requests int }

func (u *unanswered) Do(*http.Request) (*http.Response, error) {
	u.requests++
	return nil, io.ErrUnexpectedEOF
}

// A client that keeps its default retries sends each correction once: a second copy could refund twice.
func TestStore_Settle_clientRetries(t *testing.T) {
	s, wire := newSettling(t, "-d-"), &unanswered{}
	client := dynamodb.New(dynamodb.Options{Region: "eu-west-1", HTTPClient: wire, Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	store := open(client)
	_, err := store.Settle(t.Context(), algo.InstantOf(noon), limiter.User("a"), s.charges, s.results, 0, limiter.Once{})
	if !errors.Is(err, limiter.ErrUnavailable) || wire.requests != 1 {
		t.Errorf("got %d requests and %v, want 1 and %v", wire.requests, err, limiter.ErrUnavailable)
	}
}
