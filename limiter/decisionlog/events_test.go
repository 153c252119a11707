package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/telemetry"
)

var hash = telemetry.NewSubjectHash("test", []byte("the key of this test"))

var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	alice   = caller.Caller{User: "alice"}
	search  = limit("search")
	allowed = limiter.Decision{Allowed: true, Limit: search, Cost: 2, Remaining: 7}
	refused = limiter.Decision{Limit: search, Cost: 2}
)

func limit(name string) *limiter.Limit {
	l, err := limiter.NewLimit(limiter.Limit{Name: name, Rule: "GET /" + name, Rate: algo.Rate{Requests: 10, Window: time.Minute}})
	if err != nil {
		panic(err)
	}
	return l
}

// broker is a sink that stores batches. If send is not nil, it returns the result of each batch.
type broker struct {
	send func(ctx context.Context, n int) (lost int, err error)

	mu      sync.Mutex
	batches [][]decisionlog.Event
	lines   [][]byte
}

func (b *broker) Send(ctx context.Context, batch [][]byte) (int, error) {
	var read []decisionlog.Event
	for _, line := range batch {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return len(batch), err
		}
		read = append(read, e)
	}
	b.mu.Lock()
	b.batches = append(b.batches, read)
	b.lines = append(b.lines, batch...)
	b.mu.Unlock()
	if b.send == nil {
		return 0, nil
	}
	return b.send(ctx, len(batch))
}

func (b *broker) events() []decisionlog.Event { return slices.Concat(b.batches...) }

// sums returns the number of requests by outcome.
func sums(list []decisionlog.Event) map[telemetry.Class]int64 {
	all := map[telemetry.Class]int64{}
	for _, e := range list {
		all[e.Outcome] += e.Count
	}
	return all
}

func options(b *broker) decisionlog.Options {
	return decisionlog.Options{Namespace: "test", Hash: hash, Sink: b, Logger: slog.New(slog.DiscardHandler)}
}

// hung blocks until its context ends.
func hung(ctx context.Context, n int) (int, error) {
	<-ctx.Done()
	return n, ctx.Err()
}

// An event names who named the address of the last request.
func TestPublisher_Record_addressFrom(t *testing.T) {
	b := &broker{}
	p := decisionlog.New(options(b))
	for _, from := range []string{"weir", "source (Weir-Viewer-Address: missing)"} {
		from := caller.Caller{IP: netip.MustParsePrefix("192.0.2.1/32"), IPFrom: from}
		p.Record(outcomeOf(noon, 0, from, refused, nil))
	}
	p.Close(t.Context(), noon)
	if got := b.events(); len(got) != 1 || got[0].Count != 2 || got[0].AddressFrom != "source (Weir-Viewer-Address: missing)" {
		t.Errorf("got %+v, want one event with the last one", got)
	}
	checkSchema(t, b.lines)
}

// Requests of the same kind are one event.
func TestPublisher_Record(t *testing.T) {
	invalid := fmt.Errorf("token: %w", caller.ErrInvalidCredential)
	for _, c := range []struct {
		name string
		d    limiter.Decision
		err  error
		want decisionlog.Event
	}{
		{"allowed", allowed, nil, decisionlog.Event{Outcome: "allowed", Count: 1, Rule: "GET /search", Limit: "search", Cost: 2, Remaining: 7}},
		{"refused", refused, nil, decisionlog.Event{Outcome: "refused", Count: 1, Rule: "GET /search", Limit: "search", Cost: 2}},
		{"refused without a limit to show", limiter.Decision{}, nil, decisionlog.Event{Outcome: "refused", Count: 1}},
		{"degraded", limiter.Decision{Allowed: true, Reason: limiter.ReasonTimeout}, nil, decisionlog.Event{Outcome: "allowed", Count: 1, Degraded: limiter.ReasonTimeout}},
		{"denied because the store failed", limiter.Decision{Failed: true, Reason: limiter.ReasonBreaker}, nil, decisionlog.Event{Outcome: "failed", Count: 1, Degraded: limiter.ReasonBreaker}},
		{"shadowed", limiter.Decision{Allowed: true, Shadowed: search}, nil, decisionlog.Event{Outcome: "allowed", Count: 1, Shadowed: "search"}},
		{"bad credential", allowed, invalid, decisionlog.Event{Outcome: "unauthorized", Count: 1}},
		{"not verified", allowed, caller.ErrUnverified, decisionlog.Event{Outcome: "failed", Count: 1}},
		{"not decided", limiter.Decision{}, limiter.ErrInvalidCharge, decisionlog.Event{Outcome: "failed", Count: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &broker{}
			o := options(b)
			o.OneIn = 1
			p := decisionlog.New(o)
			p.Record(outcomeOf(noon, 1500*time.Microsecond, alice, c.d, c.err))
			p.Close(t.Context(), noon)
			got := b.events()
			if len(got) != 1 {
				t.Fatalf("got %d events, want 1", len(got))
			}
			c.want.Time, c.want.Namespace, c.want.Sequence, c.want.LatencyMS = noon, "test", 1, 1.5
			c.want.Subject, c.want.Environment = hash(limiter.User("alice")), got[0].Environment
			if got[0] != c.want {
				t.Errorf("got  %+v\nwant %+v", got[0], c.want)
			}
			checkSchema(t, b.lines)
		})
	}
}

// checkSchema validates sent events against the published schema.
func checkSchema(t *testing.T, lines [][]byte) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(decisionlog.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("schema.json")
	for _, line := range lines {
		e, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(e); err != nil {
			t.Errorf("%s: got error %v, want a valid event", line, err)
		}
	}
}

// The schema has exactly the members of an event.
func TestSchema(t *testing.T) {
	var schema struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal(decisionlog.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	var members, always []string
	for field := range reflect.TypeFor[decisionlog.Event]().Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		members = append(members, name)
		if option == "" {
			always = append(always, name)
		}
	}
	slices.Sort(members)
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, members) {
		t.Errorf("got properties %v, want %v", got, members)
	}
	if !slices.Equal(schema.Required, always) {
		t.Errorf("got required %v, want %v", schema.Required, always)
	}
}

// A flood is one event for each second, caller and limit, with exact counts.
func TestPublisher_Record_flood(t *testing.T) {
	const workers, each = 16, 1000
	b := &broker{}
	p := decisionlog.New(options(b))
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				at := noon.Add(time.Duration(i) * 5 * time.Millisecond) // the requests of each goroutine span five seconds
				p.Begin(at)
				p.Record(outcomeOf(at, time.Millisecond, caller.Caller{User: fmt.Sprint("user", w%2)}, refused, nil))
				p.Wait(t.Context())
			}
		})
	}
	all.Wait()
	p.Close(t.Context(), noon.Add(time.Minute))
	got := b.events()
	if n := sums(got)[telemetry.ClassRefused]; n != workers*each {
		t.Errorf("got %d refused, want %d", n, workers*each)
	}
	var cost int64
	for i, e := range got {
		cost += e.Cost
		if e.Sequence != int64(i+1) {
			t.Errorf("event %d: got sequence %d, want %d", i+1, e.Sequence, i+1)
		}
	}
	if cost != workers*each*2 {
		t.Errorf("got cost %d, want %d", cost, workers*each*2)
	}
	// Goroutines run at different speeds, so several batches can contain events of the same second.
	if most := 2 * 5 * len(b.batches); len(got) > most {
		t.Errorf("got %d events in %d batches, want at most %d", len(got), len(b.batches), most)
	}
}

// Memory is bounded for any number of callers, and every refusal is counted.
func TestPublisher_Record_bounded(t *testing.T) {
	b := &broker{}
	o := options(b)
	o.OneIn = 1
	var dropped int64
	o.Dropped = func(_ time.Time, n int64) { dropped += n }
	p := decisionlog.New(o)
	const callers = 5000
	for i := range callers {
		caller := caller.Caller{IP: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
		p.Record(outcomeOf(noon, 0, caller, refused, nil))
	}
	p.Record(outcomeOf(noon, 0, alice, allowed, nil)) // there is no room for this request
	for second := range 300 {                         // there is no room for some of these requests
		p.Record(outcomeOf(noon.Add(time.Duration(second)*time.Second), 0, alice, refused, nil))
	}
	p.Close(t.Context(), noon)
	got := b.events()
	if len(got) != 1200 {
		t.Errorf("got %d events, want 1,000 with a subject and 200 without", len(got))
	}
	if n := got[1000]; n.Subject != "" || n.Limit != "" || n.Count != callers-1000+1 {
		t.Errorf("events without a subject: got %+v, want %d requests", n, callers-1000+1)
	}
	if dropped != 1+100 {
		t.Errorf("Dropped: got %d events, want 101", dropped)
	}
	checkSchema(t, b.lines)
}

// One of OneIn allowed requests becomes an event. The count in the event is OneIn.
func TestPublisher_Record_sampled(t *testing.T) {
	const requests, oneIn = 80_000, 100
	b := &broker{}
	o := options(b)
	o.OneIn = oneIn
	p := decisionlog.New(o)
	for range requests {
		p.Record(outcomeOf(noon, 0, alice, allowed, nil))
	}
	p.Close(t.Context(), noon)
	got := b.events()
	// The number of kept requests is binomial with mean 800 and standard deviation 28. It differs from
	// the mean by more than six standard deviations with a probability of 10⁻⁹.
	if n := len(got); n < 800-170 || n > 800+170 {
		t.Errorf("got %d events, want about %d", n, requests/oneIn)
	}
	for _, e := range got {
		if e.Count != oneIn || e.Cost != 2*oneIn {
			t.Fatalf("got %+v, want a count of %d and a cost of %d", e, oneIn, 2*oneIn)
		}
	}
}

func TestPublisher_Record_noSample(t *testing.T) {
	b := &broker{}
	p := decisionlog.New(options(b))
	for range 1000 {
		p.Record(outcomeOf(noon, 0, alice, allowed, nil))
	}
	p.Close(t.Context(), noon)
	if n := len(b.events()); n != 0 {
		t.Errorf("got %d events of allowed requests, want none", n)
	}
}

// A batch is sent by the first request after a second, and by the first request after the batch is full.
func TestPublisher_Begin_when(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{}
		p := decisionlog.New(options(b))
		request := func(after time.Duration, n int) {
			p.Begin(noon.Add(after))
			synctest.Wait()
			for i := range n {
				p.Record(outcomeOf(noon.Add(after), 0, caller.Caller{User: fmt.Sprint(i)}, refused, nil))
			}
		}
		for _, step := range []struct {
			after   time.Duration
			n, want int // n: requests to record; want: batches sent before them
		}{
			{0, 1, 0},
			{0, 1, 1}, // the first event is sent at once, as a batch
			{time.Second - 1, 499, 1},
			{time.Second - 1, 1, 1},
			{time.Second, 501, 2},
			{time.Second, 0, 3}, // the batch of the step before was full, so it is sent
			{-time.Hour, 1, 3},
			{-time.Hour, 0, 4}, // the clock was set back
		} {
			request(step.after, step.n)
			if got := len(b.batches); got != step.want {
				t.Errorf("after %s: got %d batches, want %d", step.after, got, step.want)
			}
		}
	})
}

// If the broker does not answer, each request waits for at most the budget, and each batch delays at
// most five requests. The Publisher reports the lost events.
func TestPublisher_brokerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch, instants := time.Now(), []time.Duration(nil)
		b := &broker{send: func(ctx context.Context, n int) (int, error) {
			instants = append(instants, time.Since(epoch))
			return hung(ctx, n)
		}}
		o := options(b)
		o.Budget = decisionlog.DefaultBudget
		var reports []int64
		o.Dropped = func(_ time.Time, n int64) { reports = append(reports, n) }
		p := decisionlog.New(o)
		begun, waited := time.Now(), time.Duration(0)
		for time.Since(begun) < time.Minute {
			at := time.Now()
			p.Begin(at)
			p.Record(outcomeOf(at, 0, alice, refused, nil))
			p.Wait(t.Context())
			took := time.Since(at)
			if took > decisionlog.DefaultBudget {
				t.Fatalf("request: got a wait of %s, want at most %s", took, decisionlog.DefaultBudget)
			}
			waited += took
			time.Sleep(100 * time.Millisecond)
		}
		// The Publisher cancels each batch after 5 s. The pauses after the batches are 1, 2, 4, 8 and 16 s. A request
		// notices the end of a batch or of a pause up to a second late.
		want := []time.Duration{0, 6 * time.Second, 13 * time.Second, 22 * time.Second, 35 * time.Second, 56 * time.Second}
		synctest.Wait()
		if len(instants) != len(want) {
			t.Fatalf("batches: got %v, want %v", instants, want)
		}
		for i, at := range instants {
			if late := at - want[i]; late < 0 || late > 2*time.Second {
				t.Errorf("batches: got %v, want %v", instants, want)
				break
			}
		}
		if want := time.Duration(len(b.batches)) * 5 * decisionlog.DefaultBudget; waited > want {
			t.Errorf("waits of requests: got %s, want at most %s", waited, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.Close(ctx, time.Now())
		var dropped int64
		for _, n := range reports {
			dropped += n
		}
		if sent := int64(len(b.events())); dropped != sent {
			t.Errorf("Dropped: got %d events, want %d", dropped, sent)
		}
	})
}

// If Lambda freezes the process between requests, a batch continues during later requests.
func TestPublisher_frozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		b := &broker{send: func(ctx context.Context, n int) (int, error) {
			select {
			case <-answer:
				return 0, nil
			case <-ctx.Done():
				return n, ctx.Err()
			}
		}}
		o := options(b)
		o.Dropped = func(_ time.Time, n int64) { t.Errorf("got %d dropped events, want none", n) }
		p := decisionlog.New(o)
		p.Record(outcomeOf(noon, 0, alice, refused, nil))
		for minute := range 4 { // one request per minute
			p.Begin(noon.Add(time.Duration(minute) * time.Minute))
			synctest.Wait()
		}
		answer <- struct{}{}
		synctest.Wait()
		p.Begin(noon.Add(5 * time.Minute))
	})
}

// Events in rejected batches are lost. After the broker recovers, it receives the remaining events. Each
// recorded event is either lost or received.
func TestPublisher_brokerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, failed, arrived := true, int64(0), int64(0)
		b := &broker{send: func(_ context.Context, n int) (int, error) {
			if down {
				failed += int64(n)
				return n, errors.New("no broker")
			}
			arrived += int64(n)
			return 0, nil
		}}
		var log bytes.Buffer
		o := options(b)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var dropped int64
		o.Dropped = func(_ time.Time, n int64) { dropped += n }
		p := decisionlog.New(o)
		for second := range 100 {
			down = second < 10
			at := noon.Add(time.Duration(second) * time.Second)
			p.Begin(at)
			synctest.Wait()
			p.Record(outcomeOf(at, 0, alice, refused, nil))
		}
		p.Close(t.Context(), noon.Add(time.Hour))
		if dropped != failed || failed == 0 || failed+arrived != 100 {
			t.Errorf("Dropped: got %d events; of 100 events, %d failed and %d arrived; want the number of failed events", dropped, failed, arrived)
		}
		if n := strings.Count(log.String(), "events dropped"); n == 0 || n > 10 || !strings.Contains(log.String(), "no broker") {
			t.Errorf("log: got %d lines, want 1 to 10 with the reason:\n%s", n, &log)
		}
	})
}

// A nil Publisher does nothing.
func TestPublisher_nil(t *testing.T) {
	var p *decisionlog.Publisher
	p.Begin(noon)
	p.Record(outcomeOf(noon, 0, alice, refused, nil))
	p.Wait(t.Context())
	p.Close(t.Context(), noon)
}

func outcomeOf(now time.Time, took time.Duration, from caller.Caller, d limiter.Decision, err error) telemetry.Outcome {
	return telemetry.Outcome{Time: now, Duration: took, Caller: from, Decision: d, Err: err}
}

// Settlements of one second that exceed the max debt of a limit are one event, apart from the decisions.
// A settlement without an excess causes no event.
func TestPublisher_Settled(t *testing.T) {
	b := &broker{}
	p := decisionlog.New(options(b))
	over := func(cost int64) telemetry.Settlement {
		return telemetry.Settlement{Time: noon, Caller: alice, Settlement: limiter.Settlement{Charged: 1, Excess: []limiter.Excess{{Limit: search, Cost: cost}}}}
	}
	p.Settled(over(30))
	p.Settled(over(12))
	p.Settled(telemetry.Settlement{Time: noon, Caller: alice, Settlement: limiter.Settlement{Charged: 1, Lost: 1}})
	p.Record(telemetry.Outcome{Time: noon, Caller: alice, Decision: refused})
	p.Close(t.Context(), noon)
	checkSchema(t, b.lines)
	var nobody *decisionlog.Publisher
	nobody.Settled(over(1))
	got := b.events()
	if len(got) != 2 || got[0].Excess != 42 || got[0].Count != 2 || got[0].Limit != "search" || got[0].Subject != hash(alice.Subject()) || got[0].Outcome != telemetry.ClassAllowed || got[1].Excess != 0 || got[1].Count != 1 {
		t.Errorf("got %+v, want one event of two settlements with an excess of 42, and one of the refusal", got)
	}
}

// Each notice is an event of its own. If there is no room, the writer of the notice gets an error.
func TestPublisher_Notice(t *testing.T) {
	b := &broker{}
	p := decisionlog.New(options(b))
	n := limiter.Notice{Time: noon, Subject: alice.Subject(), Limit: search, Percent: 80, Used: 8, Capacity: 10, Start: noon, End: noon.Add(time.Hour)}
	for range 2 {
		if err := p.Notice(n); err != nil {
			t.Fatal(err)
		}
	}
	p.Record(telemetry.Outcome{Time: noon, Caller: alice, Decision: refused})
	p.Close(t.Context(), noon)
	checkSchema(t, b.lines)
	got := b.events()
	if len(got) != 3 || got[0].Notice == nil || got[1].Notice == nil || got[2].Notice != nil {
		t.Fatalf("got %+v, want two notices and a refusal", got)
	}
	id := n.ID(hash(alice.Subject()))
	if e := got[0]; *e.Notice != telemetry.NewNotice(&n, hash(alice.Subject())) || e.Notice.ID != id || got[1].Notice.ID != id || e.Subject != hash(alice.Subject()) || e.Limit != "search" || e.Remaining != 2 || e.Outcome != telemetry.ClassAllowed {
		t.Errorf("got %+v with notice %+v, want that of %+v", e, *e.Notice, n)
	}
	for range 1000 {
		if err := p.Notice(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Notice(n); !errors.Is(err, decisionlog.ErrFull) {
		t.Errorf("without room: got error %v, want ErrFull", err)
	}
	var nobody *decisionlog.Publisher
	if err := nobody.Notice(n); err != nil {
		t.Error(err)
	}
}
