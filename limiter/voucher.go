package limiter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/wire"
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
	MaxVoucherLife = 30 * time.Minute
	// maxVoucherSubjects bounds the subjects of a Voucher.
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

// The binary form of a Voucher: a format byte, the ID, the instant of the charges in 8 bytes, the life,
// and the subjects. A list, a text and a charge begin with a length or with flags. Integers are varints.
const (
	voucherFormat = 1
	// maxVoucherSize bounds what UnmarshalBinary reads.
	maxVoucherSize = 16 << 10
	// maxFingerprint bounds the length of a fingerprint. The longest one has the zone of a calendar.
	maxFingerprint = 100
	// maxField bounds the name of a response field.
	maxField = 64
	// maxHorizon bounds the time for which a limit keeps its subject.
	maxHorizon = 3 * algo.MaxPeriod
)

// The flags of a charge in a Voucher.
const (
	flagOther    = 1 << iota // newer rules decided the charge: a second fingerprint follows
	flagFailures             // statuses follow
	flagField                // a field name follows
	knownFlags   = flagOther | flagFailures | flagField
)

// countCodes are the kinds of counts by their code.
var countCodes = []Counted{CountRequests, CountCost, CountFailures, CountBytes, CountConcurrent}

// MarshalBinary implements encoding.BinaryMarshaler.
func (v *Voucher) MarshalBinary() ([]byte, error) {
	b := append(make([]byte, 0, 512), voucherFormat)
	b = append(b, v.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(v.At.UnixNano()))
	b = binary.AppendUvarint(b, uint64(v.Expires.Sub(v.At)))
	b = append(b, byte(len(v.subjects)))
	for i := range v.subjects {
		s := &v.subjects[i]
		b = wire.AppendText(append(b, byte(s.subject.kind)), s.subject.name)
		b = append(b, byte(len(s.charges)))
		for j, c := range s.charges {
			if l := c.Limit; len(l.Count.Field) > maxField || l.Horizon > maxHorizon {
				return nil, fmt.Errorf("voucher: limit %s: out of range (got a field of %d bytes and a horizon of %s, want at most %d and %s)", l.Name, len(l.Count.Field), l.Horizon, maxField, maxHorizon)
			}
			b = appendCharge(b, algo.InstantOf(v.At), c, s.results[j])
		}
	}
	if len(b) > maxVoucherSize {
		return nil, fmt.Errorf("voucher: too long (got %d bytes, want at most %d)", len(b), maxVoucherSize)
	}
	return b, nil
}

func appendCharge(b []byte, at algo.Instant, c Charge, charged algo.Result) []byte {
	l, flags := c.Limit, byte(0)
	fingerprint := charged.Machine.Fingerprint()
	if fingerprint != l.fingerprint {
		flags |= flagOther
	}
	if l.Count.Failures != (Statuses{}) {
		flags |= flagFailures
	}
	if l.Count.Field != "" {
		flags |= flagField
	}
	b = append(b, flags)
	b = wire.AppendText(append(b, l.ID.bytes()...), l.Name)
	b = wire.AppendText(b, l.fingerprint)
	if flags&flagOther != 0 {
		b = wire.AppendText(b, fingerprint)
	}
	b = binary.AppendUvarint(b, uint64(l.Version))
	b = binary.AppendUvarint(b, uint64(l.Horizon))
	b = append(b, l.Count.Of.code())
	if flags&flagFailures != 0 {
		b = appendStatuses(b, l.Count.Failures)
	}
	if flags&flagField != 0 {
		b = wire.AppendText(b, l.Count.Field)
	}
	b = binary.AppendUvarint(b, uint64(c.Cost))
	return appendCharged(b, at, charged)
}

// appendCharged appends the fields of a charged state that algo.Machine.Refund reads. For a log or slots it
// also appends Refunds, in which a store can keep a number of its own.
func appendCharged(b []byte, at algo.Instant, charged algo.Result) []byte {
	s := charged.State
	newest := s.Newest
	switch {
	case algo.WindowOf(charged.Machine) != nil:
		return binary.AppendVarint(b, s.Window)
	case algo.Leaks(charged.Machine):
		newest = s.TAT
	}
	b = binary.AppendVarint(b, int64(newest.Sub(at)))
	return binary.AppendUvarint(b, uint64(s.Refunds))
}

func (c Counted) code() byte {
	for i, known := range countCodes {
		if c == known {
			return byte(i)
		}
	}
	return 0
}

// appendStatuses appends a set: a byte with a bit for each word that is not 0, and then these words.
func appendStatuses(b []byte, s Statuses) []byte {
	words, at := byte(0), len(b)
	b = append(b, 0)
	for i, word := range s {
		if word != 0 {
			words |= 1 << i
			b = binary.BigEndian.AppendUint64(b, word)
		}
	}
	b[at] = words
	return b
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It bounds every value, so hostile data causes an
// error.
func (v *Voucher) UnmarshalBinary(data []byte) error {
	if len(data) > maxVoucherSize {
		return fmt.Errorf("voucher: too long (got %d bytes, want at most %d)", len(data), maxVoucherSize)
	}
	r := voucherReader{wire.NewReader(data)}
	if format := r.Byte(math.MaxUint8); r.Err() == nil && format != voucherFormat {
		return fmt.Errorf("voucher: unknown format (got %d, want %d)", format, voucherFormat)
	}
	read := Voucher{ID: VoucherID(r.Take(len(VoucherID{})))}
	at := r.instant()
	read.At = at.Time()
	read.Expires = read.At.Add(time.Duration(r.Number(1, int64(MaxVoucherLife))))
	for n := r.Byte(maxVoucherSubjects); n > 0 && r.Err() == nil; n-- {
		read.subjects = append(read.subjects, r.subject(at))
	}
	if r.End(); r.Err() != nil {
		return fmt.Errorf("voucher: %w", r.Err())
	}
	*v = read
	return nil
}

type voucherReader struct{ wire.Reader }

// farthest bounds instants, and the distance of a state from its charge. Two such values and a horizon add up to at
// most the largest Instant.
const farthest = math.MaxInt64 / 4

func (r *voucherReader) instant() algo.Instant {
	n := binary.BigEndian.Uint64(r.Take(8))
	if n > 2*farthest {
		r.Fail("instant", "out of range")
		return 0
	}
	return algo.Instant(n)
}

func (r *voucherReader) subject(at algo.Instant) (s refundable) {
	s.subject = Subject{kind(r.Byte(int(ip))), r.Text(MaxSubject)}
	if !isSubjectName(s.subject.name) {
		r.Fail("subject", "want 1 to %d printable characters without braces", MaxSubject)
	}
	for n := r.Byte(MaxCharges); n > 0 && r.Err() == nil; n-- {
		c, result := r.charge(at)
		if c.Subject = s.subject; r.Err() == nil {
			s.add(newVoucherItem(c), c, result, algo.Result{})
		}
	}
	return s
}

// isSubjectName reports whether every byte of s can be in the name of a Subject.
func isSubjectName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '{' || c == '}' }) < 0
}

func (r *voucherReader) charge(at algo.Instant) (c Charge, charged algo.Result) {
	flags := r.Byte(knownFlags)
	l := &Limit{ID: idOf(r.Take(idBytes)), Name: r.Text(maxName)}
	if r.Err() == nil && !IsName(l.Name) {
		r.Fail("limit", "invalid name %q", l.Name)
	}
	l.machine, l.fingerprint = r.machine()
	if charged.Machine = l.machine; flags&flagOther != 0 {
		charged.Machine, _ = r.machine()
	}
	l.Version = r.Number(0, MaxVersion)
	l.Horizon = time.Duration(r.Number(0, int64(maxHorizon)))
	l.Count.Of = countCodes[r.Byte(len(countCodes)-1)]
	if flags&flagFailures != 0 {
		l.Count.Failures = r.statuses()
	}
	if flags&flagField != 0 {
		l.Count.Field = r.Text(maxField)
	}
	if r.Err() != nil {
		return c, charged
	}
	c = Charge{Limit: l, Cost: r.Number(1, charged.Machine.Capacity())}
	charged.State = r.charged(at, charged.Machine)
	return c, charged
}

// machine reads a fingerprint.
func (r *voucherReader) machine() (algo.Machine, string) {
	text := r.Text(maxFingerprint)
	if r.Err() != nil {
		return nil, ""
	}
	m, err := algo.Parse(text)
	if err == nil && m.Fingerprint() != text {
		err = errors.New("not in its shortest form")
	}
	if err != nil {
		r.Fail("limit", "%w", err)
		return nil, ""
	}
	return m, text
}

func (r *voucherReader) statuses() (s Statuses) {
	words := r.Byte(math.MaxUint8)
	for i := range s {
		if words>>i&1 == 1 {
			s[i] = binary.BigEndian.Uint64(r.Take(8))
		}
	}
	return s
}

// charged is the inverse of appendCharged.
func (r *voucherReader) charged(at algo.Instant, m algo.Machine) (s algo.State) {
	switch {
	case algo.WindowOf(m) != nil:
		s.Window = r.Signed(math.MaxUint32)
	case algo.Leaks(m):
		s.TAT = at.Add(time.Duration(r.Signed(farthest)))
		s.Refunds = r.Number(0, math.MaxUint32)
	default:
		s.Newest = at.Add(time.Duration(r.Signed(farthest)))
		s.Refunds = r.Number(0, math.MaxInt64)
	}
	return s
}
