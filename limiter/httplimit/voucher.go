package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// voucherLife is the time for which a voucher is valid. A REST API waits at most 5 minutes for an answer.
// Lambda repeats a failed report after one and after two more minutes. The rest is for late log lines. The
// voucher of a request in flight lives as long as its slot, at most limiter.MaxVoucherLife.
const voucherLife = 15 * time.Minute

// Voucher returns the charges of an admitted request, for a process that knows its cost. [Gate.Resume]
// settles them there. p then settles nothing.
func (p *Pending) Voucher(now time.Time) (*limiter.Voucher, error) {
	return p.receipt.Voucher(limiter.NewVoucherID(), now.Add(p.life))
}

// Resume returns the Pending of a request that another process admitted. A nil voucher settles nothing.
// fields are cost fields to remove from the answer in addition to those of the voucher's limits.
func (g *Gate) Resume(voucher *limiter.Voucher, fields []string) *Pending {
	p := &Pending{gate: g, voucher: voucher, fields: fields}
	if voucher != nil {
		p.readCharges(voucher.Charges())
	}
	return p
}

// Serve passes r to next and settles p when the answer has ended, as [Gate.Serve] does.
func (p *Pending) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p.serveCounted(w, r, next)
}

// Report reports the actual cost of a request, as the function [Report] does.
func (p *Pending) Report(limit string, cost int64) { p.report("", limit, cost) }

// settleVoucher settles the limits that count cost apart from the others, because two processes can know
// the two: the API knows the cost, and the access log knows the status. Each part can be settled once, so
// each has an ID of its own. p.mu is held.
func (p *Pending) settleVoucher(ctx context.Context, now time.Time, actual func(limiter.Charge) int64) (done limiter.Settlement, err error) {
	other := *p.voucher
	other.ID[0] ^= 1
	var errs [2]error
	for i, part := range [...]*limiter.Voucher{p.voucher, &other} {
		var settled limiter.Settlement
		settled, errs[i] = p.gate.o.Limiter.SettleVoucher(ctx, now, part, func(c limiter.Charge) int64 {
			if (c.Limit.Count.Of == limiter.CountCost) != (part == p.voucher) {
				return c.Cost
			}
			return actual(c)
		})
		done.Add(settled)
	}
	if errs[0] == nil || final(errs[0]) && errs[1] != nil {
		return done, errs[1]
	}
	return done, errs[0]
}

// final reports whether a repetition of a settlement cannot succeed.
func final(err error) bool {
	return errors.Is(err, limiter.ErrVoucherUsed) || errors.Is(err, limiter.ErrVoucherExpired)
}
