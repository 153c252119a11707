package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// voucherLife is the time for which a voucher is valid. A REST API waits at most 5 minutes for an answer.
// Lambda repeats a failed report after one minute, and again two minutes later. The remaining 7 minutes
// are for late log lines. The voucher of a request in flight lives as long as its slot, at most
// limiter.MaxVoucherLife.
const voucherLife = 15 * time.Minute

// Voucher returns the charges of an admitted request for another process, which knows the cost of the
// request. [Gate.Resume] settles them there. p then settles nothing.
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

// Serve passes r to the handler next and settles p when the answer has ended, as [Gate.Serve] does.
func (p *Pending) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p.serveCounted(w, r, next)
}

// Report reports the actual cost of a request, as the function [Report] does.
func (p *Pending) Report(limit string, cost int64) { p.report("", limit, cost) }

const parts = 3

// part returns the part of a voucher to which a kind of count belongs. Different processes can settle the
// parts: the API knows the cost, a back end or the access log knows the status, and the log knows the length.
func part(of limiter.Counted) byte {
	switch of {
	case limiter.CountCost:
		return 0
	case limiter.CountBytes:
		return 1
	case limiter.CountRequests, limiter.CountFailures, limiter.CountConcurrent:
	}
	return 2
}

// settleVoucher settles the parts of a voucher. Each part has its own ID, because each is settled only once. The
// caller holds p.mu.
func (p *Pending) settleVoucher(ctx context.Context, now time.Time, actual func(limiter.Charge) int64) (done limiter.Settlement, err error) {
	var errs [parts]error
	for i := range errs {
		v := *p.voucher
		v.ID[0] ^= byte(i)
		var settled limiter.Settlement
		settled, errs[i] = p.gate.o.Limiter.SettleVoucher(ctx, now, &v, func(c limiter.Charge) int64 {
			if part(c.Limit.Count.Of) != byte(i) {
				return c.Cost
			}
			return actual(c)
		})
		done.Add(settled)
	}
	return done, errorOfParts(errs[:], done)
}

// errorOfParts returns the first error after which a repetition can succeed, or else an
// ErrVoucherExpired. It returns ErrVoucherUsed only if no part is expired or settled now.
func errorOfParts(errs []error, done limiter.Settlement) error {
	var used, expired error
	for _, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, limiter.ErrVoucherUsed):
			used = err
		case errors.Is(err, limiter.ErrVoucherExpired):
			expired = err
		default:
			return err
		}
	}
	if expired == nil && done.Charged == 0 && done.Refunds == (limiter.Refunds{}) {
		return used
	}
	return expired
}
