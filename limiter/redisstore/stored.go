package redisstore

import (
	"encoding/binary"
	"fmt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Sizes in bytes.
const (
	idSize      = 5
	versionSize = 6
	ttlSize     = 6
	entrySize   = 8
)

// skewed is added to the kind of a state that has a Skew.
const skewed = 128

// stored is one limit in a value. Its texts are parts of the value.
type stored struct {
	text        string // the whole limit
	id          limiter.ID
	fingerprint string
	kind        byte
	version     int64
	skew        algo.Skew
	state       string
}

// held returns the state of r. limit is the charged limit, or nil.
func (r stored) held(limit *limiter.Limit) (h limiter.Held, err error) {
	if limit != nil && r.fingerprint == limit.Fingerprint() {
		h.Machine = limit.Machine()
	} else {
		h.Machine, err = algo.Parse(r.fingerprint)
	}
	if err != nil {
		return limiter.Held{}, fmt.Errorf("%w: %w", limiter.ErrFormat, err)
	}
	l := layoutOf(h.Machine)
	if l == nil || l.kind() != r.kind {
		return limiter.Held{}, fmt.Errorf("%w: a state of kind %d for %s", limiter.ErrFormat, r.kind, r.fingerprint)
	}
	h.State, h.Version, h.Skew = l.read(r.state), r.version, r.skew
	return h, nil
}

// appendHeld appends the limit id with the state h.
func appendHeld(b []byte, id limiter.ID, h limiter.Held) []byte {
	l := layoutOf(h.Machine)
	kind := l.kind()
	if h.Skew != (algo.Skew{}) {
		kind |= skewed
	}
	b = appendInteger(append(appendLimit(b, id, h.Machine.Fingerprint()), kind), h.Version, versionSize)
	if kind >= skewed {
		b = appendIntegers(b, 8, int64(h.Skew.Since), h.Skew.Newest)
	}
	return l.write(b, h.State)
}

// appendLimit appends the identity of a limit: its id and parameters.
func appendLimit(b []byte, id limiter.ID, fingerprint string) []byte {
	return append(appendInteger(append(b, byte(len(fingerprint))), int64(id), idSize), fingerprint...)
}

// reader reads limits of a value.
type reader struct {
	rest  string
	short bool // the last limit is incomplete, or of an unknown kind
}

// next returns the next n bytes, or nothing if there are fewer.
func (r *reader) next(n int64) (text string) {
	if n > int64(len(r.rest)) {
		r.short, n = true, int64(len(r.rest))
	}
	text, r.rest = r.rest[:n], r.rest[n:]
	return text
}

func (r *reader) number(size int64) int64 { return integer(r.next(size)) }

func (r *reader) limit() (s stored) {
	before := r.rest
	length := r.number(1)
	s.id, s.fingerprint = limiter.ID(r.number(idSize)), r.next(length)
	s.kind, s.version = byte(r.number(1)), r.number(versionSize)
	if s.kind >= skewed {
		s.kind, s.skew = s.kind-skewed, algo.Skew{Since: algo.Instant(r.number(8)), Newest: r.number(8)}
	}
	s.state = r.next(r.stateSize(s.kind))
	s.text = before[:len(before)-len(r.rest)]
	return s
}

// stateSize returns the size of the state that follows.
func (r *reader) stateSize(kind byte) int64 {
	switch kind {
	case kindBucket:
		return bucketSize
	case kindWindow:
		return windowSize
	case kindLog, kindSlots:
		head := *r
		return logHead + entrySize*integer(head.next(logHead)[min(8, len(r.rest)):])
	}
	return int64(len(r.rest)) + 1 // more than there is
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

func integer(b string) int64 {
	var full [8]byte
	copy(full[8-len(b):], b)
	return int64(binary.BigEndian.Uint64(full[:]))
}
