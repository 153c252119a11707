package main

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// style marks text on a terminal. The zero value leaves it as it is.
type style struct{ on bool }

// styleOf returns the style of what is written to out: colours only where a person sees
// them and has not said otherwise (no-color.org).
func styleOf(out io.Writer) style {
	return style{isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

func (s style) mark(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.mark("1", text) }
func (s style) good(text string) string { return s.mark("32", text) }
func (s style) bad(text string) string  { return s.mark("31", text) }
func (s style) weak(text string) string { return s.mark("2", text) }

// complete makes a shell complete the values of a flag.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// completeTiers makes a shell complete a flag by the tiers of the rules document.
func completeTiers(c *cobra.Command, flag string, document *string) {
	tiers := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return tiersOf(*document), cobra.ShellCompDirectiveNoFileComp
	}
	if err := c.RegisterFlagCompletionFunc(flag, tiers); err != nil {
		panic(err) // there is no such flag
	}
}

// tiersOf returns the tiers of a document, or of that of the checkout; none if it cannot be
// read.
func tiersOf(document string) []string {
	if document == "" {
		c, err := findCheckout()
		if err != nil {
			return nil
		}
		document = c.path("functions", "rules.json")
	}
	content, err := os.ReadFile(document)
	if err != nil {
		return nil
	}
	r, err := parseRules(content)
	if err != nil {
		return nil
	}
	return r.Tiers()
}
