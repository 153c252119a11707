package lambdahttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// report settles a request with the values that a back end reports.
func (f *forwarder) report(ctx context.Context, event *forwardEvent) ([]byte, error) {
	known := known{status: event.Status, bytes: unknownLength}
	if event.Bytes != nil {
		known.bytes = max(unknownLength, *event.Bytes)
	}
	var err error
	if known.costs, err = parseCosts(event.Cost); err != nil {
		return f.invalid(ctx, err)
	}
	err = f.settle(ctx, f.reports, event.Receipt, known)
	reason, final := reasonOf(err)
	if !final {
		return nil, fmt.Errorf("settle: %w", err)
	}
	return json.Marshal(contract.Settled{Settled: err == nil, Reason: reason})
}

// invalid counts a report that is not valid, and returns the answer to it.
func (f *forwarder) invalid(ctx context.Context, err error) ([]byte, error) {
	f.Recorder.Settled(telemetry.Settlement{Time: f.Clock(), Rejected: 1})
	f.Logger.LogAttrs(ctx, slog.LevelWarn, "report rejected", slog.Any("err", err))
	return json.Marshal(contract.Settled{Reason: contract.ReasonInvalid})
}

// unknownLength is the length of an answer that an event does not have.
const unknownLength = -1

// known contains the values that an event has about an answer.
type known struct {
	costs  []cost
	status int   // 0 if it is unknown
	bytes  int64 // unknownLength if it is unknown
}

// cost is a reported cost on the limits of a name. An empty name means all limits of the receipt.
type cost struct {
	limit string
	cost  int64
}

const maxCosts = 32

// parseCosts parses a number, or an object of numbers by the names of limits. null is an error, because
// JSON.stringify writes it for NaN, and a cost of 0 would refund the reserve.
func parseCosts(text json.RawMessage) (costs []cost, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != '{' { // the empty name stands for a cost without a name
		text = slices.Concat([]byte(`{"":`), text, []byte("}"))
	}
	named, err := allMembers(text)
	if err != nil {
		return nil, fmt.Errorf("cost: %w", err)
	}
	if len(named) > maxCosts {
		return nil, fmt.Errorf("cost: got %d numbers, want at most %d", len(named), maxCosts)
	}
	for i, m := range named {
		var n *int64
		switch err := json.Unmarshal(m.value, &n); {
		case err != nil:
			return nil, fmt.Errorf(`cost: %w (want 812, or {"input": 812, "output": 95})`, err)
		case n == nil:
			return nil, errors.New(`cost: got null, want a number; leave out a cost that is unknown`)
		case *n < 0 || *n > httplimit.MaxReport:
			return nil, fmt.Errorf("cost: got %d, want 0 to %d", *n, httplimit.MaxReport)
		case slices.ContainsFunc(named[:i], func(before member) bool { return before.name == m.name }):
			return nil, fmt.Errorf("cost: got the name %.40q twice, want it once", m.name)
		}
		costs = append(costs, cost{m.name, *n})
	}
	return costs, nil
}

// errNothing means that an event has no value for a limit of the receipt.
var errNothing = errors.New("receipt: no limit to settle")

// settle settles those limits of a receipt whose cost is known.
func (f *forwarder) settle(ctx context.Context, gate *httplimit.Gate, receipt string, known known) error {
	voucher, err := f.open(ctx, f.Clock(), receipt)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(voucher.Charges(), known.settles):
		f.Recorder.Settled(telemetry.Settlement{Time: f.Clock(), Rejected: len(known.costs)})
		return errNothing
	}
	p := gate.Resume(voucher, nil)
	for _, c := range known.costs {
		p.Report(c.limit, c.cost)
	}
	return p.Settle(ctx, known.status, known.bytes)
}

func (k known) settles(c limiter.Charge) bool {
	switch c.Limit.Count.Of {
	case limiter.CountCost:
		return slices.ContainsFunc(k.costs, func(r cost) bool { return r.limit == "" || r.limit == c.Limit.Name })
	case limiter.CountBytes:
		return k.bytes != unknownLength
	case limiter.CountFailures, limiter.CountConcurrent:
		return k.status != 0
	case limiter.CountRequests:
	}
	return false
}

// reasonOf returns the reason in the answer to a report. final is false if the report must be repeated.
func reasonOf(err error) (reason string, final bool) {
	switch {
	case err == nil:
		return "", true
	case errors.Is(err, receipts.ErrForged):
		return contract.ReasonForged, true
	case errors.Is(err, errNothing):
		return contract.ReasonNothing, true
	case errors.Is(err, limiter.ErrVoucherUsed):
		return contract.ReasonUsed, true
	case errors.Is(err, limiter.ErrVoucherExpired):
		return contract.ReasonExpired, true
	}
	return "", false
}
