package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Pending settles an admitted request whose cost is known only after its answer. It is safe for
// concurrent use. A nil Pending settles nothing.
type Pending struct {
	gate     *Gate
	receipt  *limiter.Receipt
	caller   caller.Caller
	metering *metering // nil if no cost or reserve is in a body
	once     sync.Once

	mu       sync.Mutex
	costs    []reported
	rejected int
	problem  error // the reason why the last rejected report was rejected
	unread   int   // limits whose cost the answer lacks
	lacking  error // the reason why the last of them lacks it
}

// reported is the cost that an API has reported for a limit.
type reported struct {
	limit   *limiter.Limit
	reserve int64
	cost    int64
	state   reportState
}

type reportState byte

const (
	unreported reportState = iota
	accepted
	ambiguous // the API sent two reports for the limit, so the reserve stays charged
)

// MaxReport is the largest cost that an API may report.
const MaxReport = algo.MaxAmount

// maxReportLength bounds the length of the value of a cost field, in bytes.
const maxReportLength = 1024

func settles(charges []limiter.Charge) bool {
	for i := range charges {
		if l := charges[i].Limit; l != nil && l.Count.Settles() {
			return true
		}
	}
	return false
}

// newPending returns the Pending of an admitted request. It returns nil if receipt is nil.
func newPending(g *Gate, receipt *limiter.Receipt, o *telemetry.Outcome, m *metering) *Pending {
	if receipt == nil {
		return nil
	}
	p := &Pending{gate: g, receipt: receipt, caller: o.Caller, metering: m}
	for _, charge := range o.Charges {
		if l := charge.Limit; l.Count.Of == limiter.CountCost {
			p.costs = append(p.costs, reported{limit: l, reserve: charge.Cost})
		}
	}
	return p
}

type pendingKey struct{}

// Report reports the actual cost of a request on the limits of a name that count cost. The name "" means
// all such limits of the request. ctx is the context of the request that the handler got. A report is
// ignored if it is negative or above MaxReport, if the request has no such limit, or if the request is settled
// already. After two reports for a limit, its reserve stays.
func Report(ctx context.Context, limit string, cost int64) {
	if p, ok := ctx.Value(pendingKey{}).(*Pending); ok {
		p.report(limit, cost)
	}
}

// Unreported returns a limit of the request whose cost the API has to report, and for which it has reported none. It returns
// nil if there is none. ctx is the context of the request that the handler got.
func Unreported(ctx context.Context) *limiter.Limit {
	p, ok := ctx.Value(pendingKey{}).(*Pending)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.costs {
		if r.state == unreported && !p.metering.reads(r.limit) {
			return r.limit
		}
	}
	return nil
}

// report records the cost for each limit with this name. An empty name matches every limit.
func (p *Pending) report(name string, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cost < 0 || cost > MaxReport {
		p.reject(fmt.Errorf("cost: out of range (got %d, want 0 to %d)", cost, MaxReport))
		return
	}
	found := false
	for i := range p.costs {
		r := &p.costs[i]
		if name != "" && r.limit.Name != name {
			continue
		}
		found = true
		if r.state != unreported {
			r.state = ambiguous
			p.reject(fmt.Errorf("limit %q: got two reports, want one", r.limit.Name))
			continue
		}
		r.cost, r.state = cost, accepted
	}
	if !found {
		p.reject(fmt.Errorf("limit %q: the request has no such limit that counts cost", shortened(name)))
	}
}

// reject counts a report that is ignored, and keeps the reason. The caller holds p.mu.
func (p *Pending) reject(problem error) { p.rejected, p.problem = p.rejected+1, problem }

// takeFields reads the cost field of the answer, in any spelling and as trailers, and removes them from h.
func (p *Pending) takeFields(h http.Header) {
	if len(p.costs) > 0 {
		takeField(h, limiter.CostField, p.readField)
	}
}

// takeField removes a field and its trailers from h. It calls the function read with each of their values.
func takeField(h http.Header, field string, read func(value string)) {
	for key, values := range h {
		if strings.EqualFold(strings.TrimPrefix(key, http.TrailerPrefix), field) {
			delete(h, key)
			read(strings.Join(values, ","))
		}
	}
}

// readField reads the value of a cost field: one cost, or a list of name=cost.
func (p *Pending) readField(value string) {
	if len(value) > maxReportLength {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reject(fmt.Errorf("field %s: got %d bytes, want at most %d", limiter.CostField, len(value), maxReportLength))
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		name, number, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, number = "", name
		}
		cost, err := strconv.ParseInt(number, 10, 64)
		if err != nil || named && name == "" {
			p.mu.Lock()
			p.reject(fmt.Errorf("field %s: got %q, want 812, or input=812, output=95", limiter.CostField, shortened(part)))
			p.mu.Unlock()
			continue
		}
		p.report(name, cost)
	}
}

func shortened(s string) string { return s[:min(len(s), 40)] }

// Settle settles the request after its answer. If bytes is negative, the length of the body is unknown,
// and limits that count bytes keep their reserve. If status is 0, the status is unknown, and limits that
// count failures or requests in flight keep their reserve. Only the first call settles. Settle ignores
// the cancellation of ctx and has a deadline of its own.
func (p *Pending) Settle(ctx context.Context, status int, bytes int64) {
	p.settle(ctx, func(c limiter.Charge) int64 {
		switch c.Limit.Count.Of {
		case limiter.CountRequests:
		case limiter.CountBytes:
			if bytes >= 0 {
				return bytes
			}
		case limiter.CountFailures:
			if status != 0 && !c.Limit.Count.Failures.Has(status) {
				return 0
			}
		case limiter.CountConcurrent:
			if status != 0 {
				return 0 // releases the slot
			}
		case limiter.CountCost:
			for _, r := range p.costs {
				if r.limit == c.Limit && r.state == accepted {
					return r.cost
				}
			}
		}
		return c.Cost
	})
}

// refuse settles a request that did not reach the API. status is the status of the answer from Weir. With
// status 0, no limit counts the request as a failure.
func (p *Pending) refuse(ctx context.Context, status int) {
	p.settle(ctx, func(c limiter.Charge) int64 {
		switch of := c.Limit.Count.Of; {
		case of == limiter.CountConcurrent, of == limiter.CountCost, of == limiter.CountBytes, of == limiter.CountFailures &&
			!c.Limit.Count.Failures.Has(status):
			return 0
		}
		return c.Cost
	})
}

// correct makes the settlement. problem is the reason why the last rejected report was rejected.
func (p *Pending) correct(ctx context.Context, actual func(limiter.Charge) int64) (s telemetry.Settlement, problem error) {
	p.mu.Lock()
	defer p.mu.Unlock() // also if the store panics
	s = telemetry.Settlement{Time: p.gate.o.Clock(), Caller: p.caller, Rejected: p.rejected, Unread: p.unread}
	s.Settlement = p.receipt.Settle(ctx, s.Time, actual)
	return s, p.problem
}

func (p *Pending) settle(ctx context.Context, actual func(limiter.Charge) int64) {
	if p == nil {
		return
	}
	p.once.Do(func() {
		s, problem := p.correct(ctx, actual)
		if problem != nil {
			p.gate.log(ctx, slog.LevelWarn, "cost report rejected", problem)
		}
		if p.lacking != nil {
			p.gate.log(ctx, slog.LevelWarn, "no cost in the answer, so the reserve stays charged", p.lacking)
		}
		p.gate.o.Settled(s)
	})
}
