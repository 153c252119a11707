package command

import (
	"io"
	"os"
)

// Style marks text on a terminal. The zero value does not change text.
type Style struct{ on bool }

// StyleOf returns the style for output to the writer out. It has colours only if out is a terminal and
// NO_COLOR (no-color.org) is not set.
func StyleOf(out io.Writer) Style {
	return Style{isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// isTerminal reports whether a stream is a terminal: a character device other than the null device.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && (failed != nil || !os.SameFile(info, null))
}

func (s Style) mark(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold marks the subject of a section.
func (s Style) Bold(text string) string { return s.mark("1", text) }

// Good marks text about something allowed.
func (s Style) Good(text string) string { return s.mark("32", text) }

// Bad marks text about something refused.
func (s Style) Bad(text string) string { return s.mark("31", text) }

// Weak marks text that a reader can skip.
func (s Style) Weak(text string) string { return s.mark("2", text) }
