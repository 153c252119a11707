package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-limits/weir/local/command"
)

// seconds formats a number of seconds as a duration with milliseconds. From two days on, it adds
// days and rounds to seconds.
func seconds(s float64) string {
	const day = 24 * time.Hour
	d := time.Duration(s * float64(time.Second))
	if d >= 2*day {
		d = d.Round(time.Second)
		rest := ""
		if d%day > 0 {
			rest = seconds((d % day).Seconds())
		}
		return fmt.Sprintf("%dd%s", d/day, rest)
	}
	if d > time.Millisecond {
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func printNotes(out io.Writer, s command.Style, notes []string) error {
	for _, note := range notes {
		if _, err := fmt.Fprintln(out, s.Weak("note: "+note)); err != nil {
			return err
		}
	}
	return nil
}

// printable removes control characters, which a terminal would execute.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}
