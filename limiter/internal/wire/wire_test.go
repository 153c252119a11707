package wire_test

import (
	"encoding/binary"
	"testing"

	"github.com/weir-limits/weir/limiter/internal/wire"
)

// A Reader returns values inside their bounds. For any other data it returns zeros and keeps the first
// error.
func TestReader(t *testing.T) {
	text, number := wire.AppendText(nil, "abc"), binary.AppendUvarint(nil, 300)
	for _, c := range []struct {
		name string
		data []byte
		read func(*wire.Reader) bool // reports whether the value is right
		want string                  // the error
	}{
		{"text", text, func(r *wire.Reader) bool { return r.Text(3) == "abc" }, ""},
		{"text too long", text, func(r *wire.Reader) bool { return r.Text(2) == "" }, "length: out of range (got 3, want at most 2)"},
		{"text cut", text[:3], func(r *wire.Reader) bool { return r.Text(3) == "\x00\x00\x00" }, "end: missing bytes (got 2, want 3)"},
		{"number", number, func(r *wire.Reader) bool { return r.Number(300, 300) == 300 }, ""},
		{"number too low", number, func(r *wire.Reader) bool { return r.Number(301, 400) == 0 }, "number: out of range (got 300, want 301 to 400)"},
		{"number too high", number, func(r *wire.Reader) bool { return r.Number(0, 299) == 0 }, "number: out of range (got 300, want 0 to 299)"},
		{"number cut", number[:1], func(r *wire.Reader) bool { return r.Number(0, 1000) == 0 }, "number: out of range (got 0, want 0 to 1000)"},
		{"signed", binary.AppendVarint(nil, -5), func(r *wire.Reader) bool { return r.Signed(5) == -5 }, ""},
		{"signed too low", binary.AppendVarint(nil, -6), func(r *wire.Reader) bool { return r.Signed(5) == 0 }, "number: out of range (got -6, want -5 to 5)"},
		{"signed too high", binary.AppendVarint(nil, 6), func(r *wire.Reader) bool { return r.Signed(5) == 0 }, "number: out of range (got 6, want -5 to 5)"},
		{"rest", text, func(r *wire.Reader) bool { return r.Byte(3) == 3 }, "end: 3 bytes too many"},
		{"after an error", text, func(r *wire.Reader) bool {
			r.Fail("first", "wrong")
			r.Fail("second", "wrong")
			return r.Byte(255) == 0 && r.Number(1, 2) == 0 && r.Signed(1) == 0
		}, "first: wrong"},
	} {
		r := wire.NewReader(c.data)
		right := c.read(&r)
		r.End()
		got := ""
		if err := r.Err(); err != nil {
			got = err.Error()
		}
		if !right || got != c.want {
			t.Errorf("%s: got error %q and the right value: %t, want error %q and the right value", c.name, got, right, c.want)
		}
	}
}
