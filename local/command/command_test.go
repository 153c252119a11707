package command

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
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

// An empty text means 0, which is valid for some flags.
func TestNumber(t *testing.T) {
	var n int
	for _, c := range []struct {
		flag Number
		text string
		want int // -1: an error
	}{
		{Between(&n, 0, 10), "", 0}, {Between(&n, 0, 10), "0", 0}, {Between(&n, 0, 10), "10", 10}, {Between(&n, 0, 10), "11", -1},
		{Between(&n, 0, 10), "-2", -1}, {Between(&n, 0, 10), "ten", -1}, {Port(&n), "", -1}, {Port(&n), "65534", 65534}, {Port(&n), "65535", -1},
	} {
		n = -1
		if err := c.flag.Set(c.text); n != c.want || (err == nil) != (n >= 0) {
			t.Errorf("%q, want %s: got %d, error %v, want %d", c.text, c.flag.Want, n, err, c.want)
		}
	}
}

// A version in Unix seconds or milliseconds has its date in UTC, in every time zone of the machine.
func TestRulesVersion(t *testing.T) {
	for version, want := range map[int64]string{
		0: "version 0", 7: "version 7", 999_999_999: "version 999999999",
		1_000_000_000: "version 1000000000 (2001-09-09T01:46:40Z)", 1_772_625_602: "version 1772625602 (2026-03-04T12:00:02Z)",
		1_772_625_602_999: "version 1772625602999 (2026-03-04T12:00:02Z)",
	} {
		if got := RulesVersion(version); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A release has the version that the linker sets, with or without a tag.
func TestBuilt_version(t *testing.T) {
	const set = "-X github.com/weir-limits/weir/local/command.version=v1.2.3"
	for ldflags, want := range map[string]func(string) bool{
		set:     func(got string) bool { return got == "v1.2.3" },
		"-s -w": func(got string) bool { return got != "" && got != "v1.2.3" },
	} {
		out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags", ldflags, "./testdata/version").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || !want(got) {
			t.Errorf("-ldflags %q: got %q, %v, want v1.2.3 only if the linker sets it", ldflags, got, err)
		}
	}
}
