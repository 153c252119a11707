package limiter

import (
	"encoding/binary"
	"testing"
)

// A reader returns values inside their bounds. For any other data it returns zeros and keeps the first
// error.
func TestReader(t *testing.T) {
	text, number := appendText(nil, "abc"), binary.AppendUvarint(nil, 300)
	for _, c := range []struct {
		name string
		data []byte
		read func(*reader) bool // reports whether the value is right
		want string             // the error
	}{
		{"text", text, func(r *reader) bool { return r.text(3) == "abc" }, ""},
		{"text too long", text, func(r *reader) bool { return r.text(2) == "" }, "length: out of range (got 3, want at most 2)"},
		{"text cut", text[:3], func(r *reader) bool { return r.text(3) == "\x00\x00\x00" }, "end: missing bytes (got 2, want 3)"},
		{"number", number, func(r *reader) bool { return r.number(300, 300) == 300 }, ""},
		{"number too low", number, func(r *reader) bool { return r.number(301, 400) == 0 }, "number: out of range (got 300, want 301 to 400)"},
		{"number too high", number, func(r *reader) bool { return r.number(0, 299) == 0 }, "number: out of range (got 300, want 0 to 299)"},
		{"number cut", number[:1], func(r *reader) bool { return r.number(0, 1000) == 0 }, "number: out of range (got 0, want 0 to 1000)"},
		{"signed", binary.AppendVarint(nil, -5), func(r *reader) bool { return r.signed(5) == -5 }, ""},
		{"signed too low", binary.AppendVarint(nil, -6), func(r *reader) bool { return r.signed(5) == 0 }, "number: out of range (got -6, want -5 to 5)"},
		{"signed too high", binary.AppendVarint(nil, 6), func(r *reader) bool { return r.signed(5) == 0 }, "number: out of range (got 6, want -5 to 5)"},
		{"rest", text, func(r *reader) bool { return r.byte(3) == 3 }, "end: 3 bytes too many"},
		{"after an error", text, func(r *reader) bool {
			r.fail("first", "wrong")
			r.fail("second", "wrong")
			return r.byte(255) == 0 && r.number(1, 2) == 0 && r.signed(1) == 0
		}, "first: wrong"},
	} {
		r := reader{rest: c.data}
		right := c.read(&r)
		r.end()
		got := ""
		if err := r.err; err != nil {
			got = err.Error()
		}
		if !right || got != c.want {
			t.Errorf("%s: got error %q and the right value: %t, want error %q and the right value", c.name, got, right, c.want)
		}
	}
}
