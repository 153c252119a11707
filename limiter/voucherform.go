package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

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
		b = appendText(append(b, byte(s.subject.kind)), s.subject.name)
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
	b = appendText(append(b, l.ID.bytes()...), l.Name)
	b = appendText(b, l.fingerprint)
	if flags&flagOther != 0 {
		b = appendText(b, fingerprint)
	}
	b = binary.AppendUvarint(b, uint64(l.Version))
	b = binary.AppendUvarint(b, uint64(l.Horizon))
	b = append(b, l.Count.Of.code())
	if flags&flagFailures != 0 {
		b = appendStatuses(b, l.Count.Failures)
	}
	if flags&flagField != 0 {
		b = appendText(b, l.Count.Field)
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
	r := reader{rest: data}
	if format := r.byte(math.MaxUint8); r.err == nil && format != voucherFormat {
		return fmt.Errorf("voucher: unknown format (got %d, want %d)", format, voucherFormat)
	}
	read := Voucher{ID: VoucherID(r.take(len(VoucherID{})))}
	at := r.instant()
	read.At = at.Time()
	read.Expires = read.At.Add(time.Duration(r.number(1, int64(MaxVoucherLife))))
	for n := r.byte(maxVoucherSubjects); n > 0 && r.err == nil; n-- {
		read.subjects = append(read.subjects, r.subject(at))
	}
	if r.end(); r.err != nil {
		return fmt.Errorf("voucher: %w", r.err)
	}
	*v = read
	return nil
}

// farthest bounds instants, and the distance of a state from its charge. Two such values and a horizon add up to at
// most the largest Instant.
const farthest = math.MaxInt64 / 4

func (r *reader) instant() algo.Instant {
	n := binary.BigEndian.Uint64(r.take(8))
	if n > 2*farthest {
		r.fail("instant", "out of range")
		return 0
	}
	return algo.Instant(n)
}

func (r *reader) subject(at algo.Instant) (s refundable) {
	s.subject = Subject{kind(r.byte(int(ip))), r.text(MaxSubject)}
	if !isSubjectName(s.subject.name) {
		r.fail("subject", "want 1 to %d printable characters without braces", MaxSubject)
	}
	for n := r.byte(MaxCharges); n > 0 && r.err == nil; n-- {
		c, result := r.charge(at)
		if c.Subject = s.subject; r.err == nil {
			s.add(newVoucherItem(c), c, result, algo.Result{})
		}
	}
	return s
}

// isSubjectName reports whether every byte of s can be in the name of a Subject.
func isSubjectName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '{' || c == '}' }) < 0
}

func (r *reader) charge(at algo.Instant) (c Charge, charged algo.Result) {
	flags := r.byte(knownFlags)
	l := &Limit{ID: idOf(r.take(idBytes)), Name: r.text(maxName)}
	if r.err == nil && !IsName(l.Name) {
		r.fail("limit", "invalid name %q", l.Name)
	}
	l.machine, l.fingerprint = r.machine()
	if charged.Machine = l.machine; flags&flagOther != 0 {
		charged.Machine, _ = r.machine()
	}
	l.Version = r.number(0, MaxVersion)
	l.Horizon = time.Duration(r.number(0, int64(maxHorizon)))
	l.Count.Of = countCodes[r.byte(len(countCodes)-1)]
	if flags&flagFailures != 0 {
		l.Count.Failures = r.statuses()
	}
	if flags&flagField != 0 {
		l.Count.Field = r.text(maxField)
	}
	if r.err != nil {
		return c, charged
	}
	c = Charge{Limit: l, Cost: r.number(1, charged.Machine.Capacity())}
	charged.State = r.charged(at, charged.Machine)
	return c, charged
}

// machine reads a fingerprint.
func (r *reader) machine() (algo.Machine, string) {
	text := r.text(maxFingerprint)
	if r.err != nil {
		return nil, ""
	}
	m, err := algo.Parse(text)
	if err == nil && m.Fingerprint() != text {
		err = errors.New("not in its shortest form")
	}
	if err != nil {
		r.fail("limit", "%w", err)
		return nil, ""
	}
	return m, text
}

func (r *reader) statuses() (s Statuses) {
	words := r.byte(math.MaxUint8)
	for i := range s {
		if words>>i&1 == 1 {
			s[i] = binary.BigEndian.Uint64(r.take(8))
		}
	}
	return s
}

// charged is the inverse of appendCharged.
func (r *reader) charged(at algo.Instant, m algo.Machine) (s algo.State) {
	switch {
	case algo.WindowOf(m) != nil:
		s.Window = r.signed(math.MaxUint32)
	case algo.Leaks(m):
		s.TAT = at.Add(time.Duration(r.signed(farthest)))
		s.Refunds = r.number(0, math.MaxUint32)
	default:
		s.Newest = at.Add(time.Duration(r.signed(farthest)))
		s.Refunds = r.number(0, math.MaxInt64)
	}
	return s
}

// reader reads the binary form of a Voucher, which a stranger can have written. It bounds every value, reads nothing
// beyond the end of the data, and keeps the first error. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

// fail records an error, unless the reader has one. what names the invalid part of the data.
func (r *reader) fail(what, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: "+format, append([]any{what}, args...)...)
	}
	r.rest = nil
}

// end fails if there is data left.
func (r *reader) end() {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("end", "%d bytes too many", len(r.rest))
	}
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.fail("end", "missing bytes (got %d, want %d)", len(r.rest), n)
	}
	if r.err != nil {
		return make([]byte, n)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// byte returns the next byte. A byte above most is an error.
func (r *reader) byte(most int) int {
	n := int(r.take(1)[0])
	if n > most {
		r.fail("length", "out of range (got %d, want at most %d)", n, most)
		return 0
	}
	return n
}

// text returns a text that appendText appended. A length of more than most bytes is an error.
func (r *reader) text(most int) string { return string(r.take(r.byte(most))) }

// number returns an unsigned varint between two bounds that are not negative.
func (r *reader) number(least, most int64) int64 {
	n, size := binary.Uvarint(r.rest)
	if r.err == nil && (size <= 0 || n < uint64(least) || n > uint64(most)) {
		r.fail("number", "out of range (got %d, want %d to %d)", n, least, most)
	}
	if r.err != nil {
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// signed returns a varint. A value outside of -most to most is an error.
func (r *reader) signed(most int64) int64 {
	n, size := binary.Varint(r.rest)
	if r.err == nil && (size <= 0 || n < -most || n > most) {
		r.fail("number", "out of range (got %d, want %d to %d)", n, -most, most)
	}
	if r.err != nil {
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// appendText appends the length of s in one byte, and s. It MUST have at most 255 bytes.
func appendText(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
