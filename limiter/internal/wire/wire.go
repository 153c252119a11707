// Package wire reads binary data that a stranger can have written. A [Reader] bounds every value, and
// reads nothing beyond the end of the data.
package wire

import (
	"encoding/binary"
	"fmt"
)

// Reader reads values one after another and keeps the first error. After an error it returns zeros. The
// zero value has no data.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a Reader of data.
func NewReader(data []byte) Reader { return Reader{rest: data} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Fail records an error, unless the Reader has one. what names the invalid part of the data.
func (r *Reader) Fail(what, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: "+format, append([]any{what}, args...)...)
	}
	r.rest = nil
}

// End fails if there is data left.
func (r *Reader) End() {
	if r.err == nil && len(r.rest) > 0 {
		r.Fail("end", "%d bytes too many", len(r.rest))
	}
}

// Take returns the next n bytes.
func (r *Reader) Take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.Fail("end", "missing bytes (got %d, want %d)", len(r.rest), n)
	}
	if r.err != nil {
		return make([]byte, n)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// Byte returns the next byte. A byte above most is an error.
func (r *Reader) Byte(most int) int {
	n := int(r.Take(1)[0])
	if n > most {
		r.Fail("length", "out of range (got %d, want at most %d)", n, most)
		return 0
	}
	return n
}

// Text returns a text that AppendText appended. A length of more than most bytes is an error.
func (r *Reader) Text(most int) string { return string(r.Take(r.Byte(most))) }

// Number returns an unsigned varint between two bounds that are not negative.
func (r *Reader) Number(least, most int64) int64 {
	n, size := binary.Uvarint(r.rest)
	if r.err == nil && (size <= 0 || n < uint64(least) || n > uint64(most)) {
		r.Fail("number", "out of range (got %d, want %d to %d)", n, least, most)
	}
	if r.err != nil {
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// Signed returns a varint. A value outside of -most to most is an error.
func (r *Reader) Signed(most int64) int64 {
	n, size := binary.Varint(r.rest)
	if r.err == nil && (size <= 0 || n < -most || n > most) {
		r.Fail("number", "out of range (got %d, want %d to %d)", n, -most, most)
	}
	if r.err != nil {
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// AppendText appends the length of s in one byte, and s. It MUST have at most 255 bytes.
func AppendText(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
