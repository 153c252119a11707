package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// process is one process of a history: a Store with its own clock and denial cache. The Store calls the
// process instead of DynamoDB's API.
type process struct {
	load
	h          *history
	id         int
	r          *rand.Rand
	store      *dynamostore.Store
	now        algo.Instant
	operations int
	most       int64                          // largest cost of a charge without Force
	newer      int                            // from this operation on, the second version of the rules is in force
	yield      func(struct{}) bool            // suspends this process, so that other processes make calls
	calls      []call                         // the calls of the current operation
	cache      map[*limiter.Limit]algo.Result // the latest results
	charged    []charged                      // charges that may be refunded
	removed    bool                           // an applied update of the current operation removed something
}

type call struct {
	n       int // number of the call in its history
	applied bool
}

// charged contains the charges of an allowed decision, and their results.
type charged struct {
	charges []limiter.Charge
	results []algo.Result
}

// load describes the operations of all processes of a history.
type load struct {
	apart   time.Duration // largest difference between the clocks
	step    time.Duration // longest time between two operations
	changes bool          // from a random operation on, a process uses the second version of the rules
	refunds int           // percentage of refunds
}

func newProcess(h *history, id int, l load) *process {
	r := rand.New(rand.NewPCG(h.seed, uint64(100+id)))
	p := &process{load: l, h: h, id: id, r: r, now: modelStart,
		operations: 20 + r.IntN(40), most: h.rules[0].Rate.Requests, cache: map[*limiter.Limit]algo.Result{}}
	if h.pause > 1 && id == 0 {
		// The first process needs few operations, because other processes make calls during each of them. Its
		// requests may have the full cost, which is refused more often.
		p.operations = 8
	} else {
		p.now = p.now.Add(time.Duration(r.Int64N(int64(l.apart))))
		p.most /= 4
	}
	p.newer = p.operations
	if l.changes {
		p.newer = r.IntN(p.operations)
	}
	p.store = storetest.Must(dynamostore.NewBare(p, dynamostore.Options{Table: "t", Namespace: "n", Margin: modelMargin,
		Logger: slog.New(slog.DiscardHandler)}))
	return p
}

// run executes the operations. It calls the function yield before each call to the table.
func (p *process) run(yield func(struct{}) bool) {
	p.yield = yield
	for i := range p.operations {
		p.now = p.now.Add(time.Duration(p.r.Int64N(int64(p.step))))
		p.calls, p.removed = nil, false
		limit := p.h.rules[0]
		if i >= p.newer {
			limit = p.h.rules[1]
		}
		switch n := p.r.IntN(100); {
		case n < 3:
			p.reset()
		case n < 3+p.refunds && len(p.charged) > 0:
			p.settle()
		default:
			p.take(limit)
		}
	}
}

func (p *process) reset() {
	err := p.store.Reset(context.Background(), modelCaller)
	at, applied := p.decisive()
	if !applied {
		return
	}
	p.record(at, "reset", fmt.Sprintf("reset: %v", err), func(m *storetest.Model) string {
		m.Reset(modelCaller)
		return ""
	})
}

// settle settles the latest charge: at the cost 0, or at twice its cost.
func (p *process) settle() {
	last := len(p.charged) - 1
	charges, results, now := slices.Clone(p.charged[last].charges), p.charged[last].results, p.now
	p.charged = p.charged[:last]
	charges[0].Force = p.r.IntN(3) == 0
	_, err := p.store.Settle(context.Background(), now, modelCaller, charges, results, modelMargin)
	at, applied := p.decisive()
	text := fmt.Sprintf("settlement of %d (force %t) at %s: %v", charges[0].Cost, charges[0].Force, sinceStart(now), err)
	switch {
	case errors.Is(err, errLost) && !applied:
	case errors.Is(err, limiter.ErrContended):
		p.record(at, "settlement contended", text, func(*storetest.Model) string {
			return unless(!applied,
				"a contended settlement was applied")
		})
	default:
		p.record(at, "settlement", text, func(m *storetest.Model) string {
			got := m.Settle(now, modelCaller, charges, results, modelMargin)
			return unless(applied || got.Given == 0 && !charges[0].Force, "the store made no correction") + unless(err == nil ||
				errors.Is(err, errLost), "got an error")
		})
	}
}

// take charges a random cost, with or without a cached result.
func (p *process) take(limit *limiter.Limit) {
	c := limiter.Charge{Subject: modelCaller, Limit: limit, Cost: p.r.Int64N(1 + p.most)}
	if p.r.IntN(12) == 0 {
		c.Force, c.Cost = true, p.r.Int64N(2*limit.Rate.Requests)
	}
	charges, results := []limiter.Charge{c}, make([]algo.Result, 1)
	if p.r.IntN(4) > 0 {
		results[0] = p.cache[limit]
	}
	now := p.now
	allowed, err := p.store.Take(context.Background(), now, modelCaller, charges, results)
	at, applied := p.decisive()
	text := fmt.Sprintf("take at %s, rules %d, cost %d, force %t: ", sinceStart(now), limit.Version, c.Cost, c.Force)
	switch {
	case errors.Is(err, errLost):
		if applied { // the call wrote: it charged, or it refused and stored the converted or clamped state
			p.record(at, "lost", text+"no answer", func(m *storetest.Model) string {
				m.Take(now, modelCaller, charges)
				return ""
			})
		}
	case errors.Is(err, limiter.ErrContended):
		p.record(at, "contended", text+"contended", func(m *storetest.Model) string {
			return unless(!applied, "a contended take was applied") + unless(!refuses(m, now, c),
				"got ErrContended, want the refusal that the last attempt found")
		})
	case err != nil:
		p.record(at, "error", text, func(*storetest.Model) string { return err.Error() })
	default:
		p.cache[limit] = results[0]
		if allowed && !c.Force && c.Cost > 0 {
			p.charged = append(p.charged, charged{charges, results})
		}
		p.taken(at, text, now, charges, allowed, results[0])
	}
}

// taken records an answer of Take.
func (p *process) taken(at call, text string, now algo.Instant, charges []limiter.Charge, allowed bool, result algo.Result) {
	kind := "refused"
	_, slots := result.Machine.(*algo.Slots)
	switch {
	case result.Clamped:
		kind = "clamped"
	case slots && !allowed:
		kind = "slots full"
	case slots && allowed && p.removed:
		kind = "slots expired"
	case allowed && at.applied && at != p.calls[len(p.calls)-1]:
		kind = "trim"
	case allowed:
		kind = "allowed"
	}
	got := fmt.Sprintf("allowed %t, %s", allowed, shown(result))
	p.record(at, kind, text+got, func(m *storetest.Model) string {
		allowed, results := m.Take(now, modelCaller, charges)
		if allowed && !m.Number(modelCaller, charges, []algo.State{result.State}) {
			return "a slot has the number of another one"
		}
		want := fmt.Sprintf("allowed %t, %s", allowed, shown(results[0]))
		return unless(got == want, fmt.Sprintf("\n got %s\nwant %s", got, want))
	})
}

// decisive returns the call that decided the current operation. This is the first call that changed the
// item, because later calls only remove expired entries. If no call changed the item, it is the last
// call. Without calls it is the zero value.
func (p *process) decisive() (at call, applied bool) {
	for _, at = range p.calls {
		if at.applied {
			return at, true
		}
	}
	return at, false
}

func (p *process) record(at call, kind, text string, check func(*storetest.Model) string) {
	p.h.events = append(p.h.events, event{at.n, fmt.Sprintf("process %d: %s", p.id, text), kind, check})
}

// UpdateItem implements dynamostore.API.
func (p *process) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	p.yield(struct{}{})
	out, err := p.h.table.UpdateItem(ctx, in)
	applied := err == nil
	p.called(applied)
	p.removed = p.removed || applied && strings.Contains(*in.UpdateExpression, "REMOVE")
	return answer(p, out, err)
}

// answer returns an answer of the table, unless it is lost.
func answer[T any](p *process, out *T, err error) (*T, error) {
	if p.h.lossy && p.r.IntN(20) == 0 {
		return nil, errLost
	}
	return out, err
}

// GetItem implements dynamostore.API.
func (p *process) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	p.yield(struct{}{})
	p.called(false)
	return p.h.table.GetItem(ctx, in)
}

// DeleteItem implements dynamostore.API.
func (p *process) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
	error) {
	p.yield(struct{}{})
	out, err := p.h.table.DeleteItem(ctx, in)
	p.called(true)
	return answer(p, out, err)
}

func (p *process) called(applied bool) {
	p.h.calls++
	p.calls = append(p.calls, call{p.h.calls, applied})
}

var errLost = errors.New("the answer is lost")

// refuses reports whether the model refuses c and writes nothing: the state needs no conversion and no
// clamp.
func refuses(m *storetest.Model, now algo.Instant, c limiter.Charge) bool {
	var held limiter.Held
	for _, e := range m.Inspect(modelCaller) {
		held = e.Held
	}
	held, write := held.Current(c.Limit, now)
	_, allowed := c.Apply(held.Machine, held.State, now)
	return !write && !allowed
}

func unless(ok bool, problem string) string {
	if ok {
		return ""
	}
	return problem
}

// sinceStart returns the time from the start of the histories to an instant, for a readable message.
func sinceStart(at algo.Instant) time.Duration { return at.Sub(modelStart) }

// shown describes a result. It leaves out the entries of a log that have expired by every clock. A store
// can keep such entries for a while.
func shown(r algo.Result) string {
	if _, ok := r.Machine.(*algo.Slots); ok { // the store numbers slots in its own way
		times := algo.SlotTimes(r.State.Entries)
		slots := make([]string, times.Len())
		for i := range slots {
			slots[i] = sinceStart(times.At(i)).String()
		}
		return fmt.Sprintf("%s slots %s, clamped %t", r.Machine.Fingerprint(), slots, r.Clamped)
	}
	log, ok := r.Machine.(*algo.Log)
	if !ok {
		return fmt.Sprintf("%s %+v, clamped %t", r.Machine.Fingerprint(), r.State, r.Clamped)
	}
	entries := log.Trim(r.State).Entries
	instants := make([]string, entries.Len())
	for i := range instants {
		instants[i] = sinceStart(entries.At(i)).String()
	}
	return fmt.Sprintf("%s newest %s, entries %s, clamped %t", log.Fingerprint(), sinceStart(r.State.Newest), instants, r.Clamped)
}

func shownEntries(entries []limiter.Entry) string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = fmt.Sprintf("%s: version %d, skew %+v, %s", e.ID, e.Version, e.Skew, shown(e.Result))
	}
	return strings.Join(all, "; ")
}
