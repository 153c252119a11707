package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The kinds of the elements of a value. layout has those of limits. An element of kindVersion, kindSkew or kindRefunds belongs to the
// limit before it. The value contains such an element only if it differs from the default.
const (
	kindBucket = 1 + iota
	kindSliding
	kindFixed
	kindLog          // a log or slots
	kindSlidingLarge // a sliding window whose counts need more than 16 bits
	kindFixedLarge
	kindVersion // version of the rules that set the limit, if it differs from the version of the value
	kindSkew
	kindRefunds  // number of refunds of a bucket
	kindCalendar // a fixed window with a calendar, and large counts
)

// elementSizes are the sizes of elements by kind, without parameters and entries.
var elementSizes = [...]int{
	kindBucket: limitSize + 8, kindSliding: limitSize + 8, kindFixed: limitSize + 8,
	kindLog: limitSize + 12, kindSlidingLarge: limitSize + 18, kindFixedLarge: limitSize + 18, kindCalendar: limitSize + 18,
	kindVersion: 1 + versionSize, kindSkew: 1 + 16, kindRefunds: 1 + 4,
}

const (
	idSize      = 5
	limitSize   = 1 + idSize // tag and id
	versionSize = 6
	entrySize   = 8
)

// tagged returns the tag of an element. size is the size of its parameters in bytes.
func tagged(kind byte, size int) byte { return kind<<4 | byte(size/unit(kind)) }

// unit returns the unit of the size of an element's parameters. The parameters of a calendar contain
// the name of a zone.
func unit(kind byte) int {
	if kind == kindCalendar {
		return 3
	}
	return 1
}

func parametersSize(tag byte) int { return int(tag&15) * unit(tag>>4) }

// stored is one limit in a value. Its slices are parts of the value.
type stored struct {
	limit   []byte // tag, id and parameters
	state   []byte
	entries []byte // entries of a log
	version int64
	refunds int64
	skew    algo.Skew
}

// annex reports whether an element with a tag belongs to the limit of the element before it.
func annex(tag byte) bool { return tag>>4 >= kindVersion && tag>>4 <= kindRefunds }

func (r stored) kind() byte { return r.limit[0] >> 4 }

func (r stored) id() limiter.ID { return limiter.ID(integer(r.limit[1:limitSize])) }

// cut returns the first stored limit of b and the rest of b. version is the version of the value. ok is false
// if b does not begin with a complete one.
func cut(b []byte, version int64) (r stored, rest []byte, ok bool) {
	element, rest, ok := cutElement(b)
	if !ok || annex(element[0]) {
		return r, rest, false
	}
	fixed := limitSize + parametersSize(element[0])
	r = stored{limit: element[:fixed], state: element[fixed:], version: version}
	if r.kind() == kindLog {
		r.state, r.entries = r.state[:12], r.state[12:]
	}
	for len(rest) > 0 && annex(rest[0]) {
		element, rest, ok = cutElement(rest)
		if !ok || element[0]&15 != 0 {
			return r, rest, false
		}
		switch element[0] >> 4 {
		case kindVersion:
			r.version = integer(element[1:])
		case kindSkew:
			r.skew = algo.Skew{Since: algo.Instant(integer(element[1:9])), Newest: integer(element[9:])}
		case kindRefunds:
			r.refunds = integer(element[1:])
		}
	}
	return r, rest, true
}

func cutElement(b []byte) (element, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]>>4) >= len(elementSizes) || elementSizes[b[0]>>4] == 0 {
		return nil, nil, false
	}
	size := elementSizes[b[0]>>4] + parametersSize(b[0])
	if len(b) < size {
		return nil, nil, false
	}
	if b[0]>>4 == kindLog {
		size += int(integer(b[size-4:size])) * entrySize
	}
	if len(b) < size {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

func (r stored) append(b []byte, version int64) []byte {
	b = append(append(append(b, r.limit...), r.state...), r.entries...)
	if r.version != version {
		b = appendInteger(append(b, tagged(kindVersion, 0)), r.version, versionSize)
	}
	if r.skew != (algo.Skew{}) {
		b = appendIntegers(append(b, tagged(kindSkew, 0)), 8, int64(r.skew.Since), r.skew.Newest)
	}
	if r.refunds != 0 {
		b = appendInteger(append(b, tagged(kindRefunds, 0)), r.refunds, 4)
	}
	return b
}

// held returns the state of a limit from r, which has the ID of the limit.
func (r stored) held(limit *limiter.Limit) (limiter.Held, error) {
	var own [limitSize + mostParameters]byte
	if string(appendLimit(own[:0], limit.ID, limit.Machine())) == string(r.limit) {
		return r.read(limit.Machine()), nil
	}
	return r.parse()
}

// parse reads a stored limit of any kind.
func (r stored) parse() (limiter.Held, error) {
	machine, err := r.layout().machine(r)
	if err != nil {
		return limiter.Held{}, fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	return r.read(machine), nil
}

// read reads a stored limit whose parameters are those of m.
func (r stored) read(m algo.Machine) limiter.Held {
	return limiter.Held{Result: algo.Result{Machine: m, State: r.layout().read(r)}, Version: r.version, Skew: r.skew}
}

// idle returns the instant from which r counts nothing (algo.Machine.Idle); 0 if it cannot be read.
func (r stored) idle() algo.Instant {
	h, err := r.parse()
	if err != nil {
		return 0
	}
	return h.Machine.Idle(h.State)
}

func newStored(id limiter.ID, h limiter.Held) stored {
	r := stored{limit: appendLimit(nil, id, h.Machine), version: h.Version, skew: h.Skew}
	return layoutOf(h.Machine).write(r, h.State)
}

// appendDecimal appends a positive number. A round number, such as the numbers of most limits, takes one
// or two bytes. The high four bits of the first byte are the number of trailing decimal zeros. The low
// three bits are the lowest bits of the number without these zeros. The bit with the value 8 means that
// further bytes follow, with seven bits each.
func appendDecimal(b []byte, n int64) []byte {
	zeros := byte(0)
	for n%10 == 0 && zeros < 15 {
		n /= 10
		zeros++
	}
	first := zeros<<4 | byte(n&7)
	n >>= 3
	if n == 0 {
		return append(b, first)
	}
	return binary.AppendUvarint(append(b, first|8), uint64(n))
}

// decimal reads a number that appendDecimal wrote. It returns a negative number if b does not begin with
// such a number.
func decimal(b []byte) (n int64, rest []byte) {
	if len(b) == 0 {
		return -1, nil
	}
	n, rest = int64(b[0]&7), b[1:]
	if b[0]&8 != 0 {
		more, size := binary.Uvarint(rest)
		if size <= 0 || more > math.MaxInt64>>3 {
			return -1, nil
		}
		n, rest = n|int64(more)<<3, rest[size:]
	}
	for range b[0] >> 4 {
		if n > math.MaxInt64/10 {
			return -1, nil
		}
		n *= 10
	}
	return n, rest
}

func appendIntegers(b []byte, size int, list ...int64) []byte {
	for _, n := range list {
		b = appendInteger(b, n, size)
	}
	return b
}

// appendInteger appends the lowest size bytes of n.
func appendInteger(b []byte, n int64, size int) []byte {
	var full [8]byte
	binary.BigEndian.PutUint64(full[:], uint64(n))
	return append(b, full[8-size:]...)
}

func integer(b []byte) int64 {
	var full [8]byte
	copy(full[8-len(b):], b)
	return int64(binary.BigEndian.Uint64(full[:]))
}
