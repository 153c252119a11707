package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/local/command"
)

// jsonFlag is the flag of commands that print a result.
const jsonFlag = "json"

func addJSON(f *pflag.FlagSet) { f.Bool(jsonFlag, false, "print JSON") }

func isJSON(c *cobra.Command) bool {
	is, _ := c.Flags().GetBool(jsonFlag)
	return is
}

// show prints the result of a command: as JSON with --json, or else as the text that write makes.
func show(c *cobra.Command, result any, write func(*printer)) error {
	out := c.OutOrStdout()
	if isJSON(c) {
		return command.PrintJSON(out, result)
	}
	p := &printer{Style: command.StyleOf(out)}
	write(p)
	_, err := io.WriteString(out, p.String())
	return err
}

// printer collects the text of a result.
type printer struct {
	strings.Builder
	command.Style
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table prints rows in columns.
func (p *printer) table(rows ...[]string) {
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // a Builder does not fail
}

func (p *printer) notes(notes []string) {
	for _, note := range notes {
		p.line("%s", p.Weak("note: "+note))
	}
}

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

// printable removes control characters, which a terminal would execute.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}
