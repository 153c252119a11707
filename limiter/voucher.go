package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Voucher is a portable Receipt: another process settles the charges with Limiter.SettleVoucher. Its
// binary form is neither encrypted nor authenticated.
type Voucher struct {
	ID      VoucherID
	At      time.Time // instant of the charges
	Expires time.Time // from this instant on, the Voucher cannot be settled

	subjects []refundable
}

const (
	// MaxVoucherLife is the longest time from the charges of a Voucher to its expiry. So it also bounds the time for
	// which a store keeps the ID of a settlement.
	MaxVoucherLife     = 30 * time.Minute
	maxVoucherSubjects = 16
)

// Voucher returns the charges of r for a settlement in another process. After this call, as after Settle,
// r settles nothing. id MUST be new and random. expires is at most MaxVoucherLife after the charges.
//
// The Voucher has the charges that the shared store counts. If a lease of a window served a charge, the
// settlement corrects the window in the store. The Voucher lacks the charges on leased buckets, on
// counters (Spread.Sync) and on counts of this process in an outage: these keep the cost
// that Take charged.
//
// After an outage, this process stops counting the charges of the Voucher by itself, if their limits have a Count: only
// the store counts them. If no process settles the Voucher, the store keeps the cost that Take charged.
func (r *Receipt) Voucher(id VoucherID, expires time.Time) (*Voucher, error) {
	if r == nil {
		return nil, errors.New("voucher: no receipt, because the request was denied")
	}
	if life := expires.Sub(r.at); life <= 0 || life > MaxVoucherLife {
		return nil, fmt.Errorf("voucher: expiry out of range (got %s after the charges, want more than 0 and at most %s)", life, MaxVoucherLife)
	}
	var v *Voucher
	r.once.Do(func() { v = &Voucher{ID: id, At: r.at.Round(0), Expires: expires.Round(0), subjects: r.portable()} })
	switch {
	case v == nil:
		return nil, errors.New("voucher: the receipt is already settled")
	case len(v.subjects) > maxVoucherSubjects:
		return nil, fmt.Errorf("voucher: too many subjects (got %d, want at most %d)", len(v.subjects), maxVoucherSubjects)
	}
	r.limiter.forgetMirrors(algo.InstantOf(r.at), r.refundables)
	return v, nil
}

// portable returns the charges that the shared store counts, by subject. A settlement makes one call for
// a subject, so charges beyond MaxCharges are left out. Only charges on leases can exceed MaxCharges.
func (r *Receipt) portable() (subjects []refundable) {
	add := func(c Charge, result algo.Result) {
		i := slices.IndexFunc(subjects, func(s refundable) bool { return s.subject == c.Subject })
		if i < 0 {
			i, subjects = len(subjects), append(subjects, refundable{subject: c.Subject})
		}
		if s := &subjects[i]; len(s.charges) < MaxCharges {
			s.add(newVoucherItem(c), c, result, algo.Result{})
		}
	}
	for i := range r.refundables {
		if back := &r.refundables[i]; back.store == r.limiter.store {
			for j, c := range back.charges {
				add(c, back.results[j])
			}
		}
	}
	for i := range r.served {
		s := &r.served[i]
		if algo.Leaks(s.result.Machine) || !s.allowed || s.task.original.Spread.hasCounter() || s.task.Cost == 0 {
			continue
		}
		add(s.task.Charge, s.result)
	}
	return subjects
}

func newVoucherItem(c Charge) *task { return &task{Charge: c, original: c.Limit, want: c.Cost} }

// Charges returns the charges that a settlement can correct. The limits of a decoded Voucher are new.
// They have the ID, Name, Version, Horizon, Count and machine of the charged limits, but no Rate.
func (v *Voucher) Charges() (charges []Charge) {
	for i := range v.subjects {
		charges = append(charges, v.subjects[i].charges...)
	}
	return charges
}

// SettleVoucher corrects the charges of v as Receipt.Settle does, in any process. It takes the elapsed
// time from the wall clocks of both processes, plus algo.MaxSkew. A settlement whose costs differ from
// the charged ones happens at most once: each subject checks the ID of v. A settlement that only releases slots needs no
// ID, because each slot is released at most once.
//
// Errors:
//   - ErrVoucherUsed: v was settled before; the answer of that call may have been lost. Or v holds only slots, and the
//     store has them no longer.
//   - ErrVoucherExpired: v has expired, or a store has no room for its ID.
//   - ErrVoucherBegun: another attempt may be running. Repeat the call after some seconds.
//   - Other errors are those of the store, which made the corrections once or not at all. Repeat the call: it
//     refunds nothing twice, but can charge a cost twice (Store.Settle).
//
// The last two are also counted in Settlement.Lost. A subject with an error is not corrected by this call. But slots are
// released also if the ID is used or begun, or if the store has no room for it; without room, costs above the reserve are
// charged too. If v has several subjects, the Settlement has the corrections of the others, and ErrVoucherUsed means that
// all subjects were settled before.
func (l *Limiter) SettleVoucher(ctx context.Context, now time.Time, v *Voucher, actual func(Charge) int64) (done Settlement, err error) {
	if !now.Before(v.Expires) {
		return done, fmt.Errorf("%w: at %s, %s ago", ErrVoucherExpired, v.Expires.UTC().Format(time.RFC3339), now.Sub(v.Expires))
	}
	cost := func(c Charge) int64 { return max(0, actual(c)) }
	corrections := make([]refundable, 0, len(v.subjects))
	for i := range v.subjects {
		c := v.subjects[i].corrections(cost)
		if c.store, c.remote = l.store, l.sharesStore(); len(c.charges) > 0 {
			corrections = append(corrections, c)
		}
	}
	elapsed := max(0, now.Sub(v.At)) + algo.MaxSkew
	err = l.settleStores(ctx, now, corrections, elapsed, Once{v.ID, algo.InstantOf(v.Expires)}, &done)
	return done, err
}
