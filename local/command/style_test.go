package command

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// Colours appear only on a terminal, and only without NO_COLOR.
func TestStyle(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if StyleOf(io.Discard).on || StyleOf(&bytes.Buffer{}).on {
		t.Error("got colours outside a terminal, want none")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) || isTerminal(nil) {
		t.Error("the null device, or none: got a terminal, want none")
	}
	if s := (Style{on: true}); s.Bad("x") != "\x1b[31mx\x1b[0m" || (Style{}).Bad("x") != "x" {
		t.Errorf("style of a terminal: got %q, want red text, and plain text from the zero Style", s.Bad("x"))
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	defer func() { _ = terminal.Close() }()
	if !StyleOf(terminal).on {
		t.Error("got no colours on a terminal, want colours")
	}
	t.Setenv("TERM", "dumb")
	if StyleOf(terminal).on {
		t.Error("got colours on a dumb terminal, want none")
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	if StyleOf(terminal).on {
		t.Error("got colours with NO_COLOR, want none")
	}
}
