package main

import (
	"maps"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

// commands returns the runnable commands by path without the word weir, such as "keys create".
func commands(c *cobra.Command) map[string]*cobra.Command {
	found := map[string]*cobra.Command{}
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help" || sub.Name() == "completion" || sub.Hidden:
		case sub.HasSubCommands():
			maps.Copy(found, commands(sub))
		default:
			found[strings.TrimPrefix(sub.CommandPath(), "weir ")] = sub
		}
	}
	return found
}

// The table in README.md lists every command, with the output of its --json. Every command has
// examples, which are valid command lines.
func TestCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "\n\nA new version")
	rows := map[string]string{} // key: command; value: third column of its row
	for line := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[0], "|` ")] = strings.Trim(cells[len(cells)-1], "| ")
		}
	}
	all := commands(rootCommand())
	for path, c := range all {
		usage := strings.TrimPrefix(c.UseLine(), "weir ")
		usage, _, _ = strings.Cut(usage, " [flags]")
		prints, ok := rows[usage]
		if hasJSON := c.Flags().Lookup("json") != nil || c.InheritedFlags().Lookup("json") != nil; !ok || hasJSON != (prints != "") {
			t.Errorf("README.md: table of commands: got no row `%s`, want one, with the output of --json if the command has that flag", usage)
		}
		if c.Short == "" || !strings.Contains(c.Example, "weir "+path) {
			t.Errorf("weir %s: got help without a summary or an example, want both", path)
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if arguments, ok := strings.CutPrefix(strings.TrimSpace(line), "weir "); ok {
				checkUsage(t, arguments)
			}
		}
		if code, out, errs := weir(t, append(strings.Fields(path), "--help")...); code != 0 || errs != "" || !strings.Contains(out, "Examples:") {
			t.Errorf("weir %s --help: got exit %d, stderr %q, want exit 0 and examples", path, code, errs)
		}
	}
	if len(rows) < len(all) {
		t.Errorf("got %d rows, want one for each of %d commands", len(rows), len(all))
	}
	if _, out, _ := weir(t, "--help"); !strings.Contains(out, command.Wrap(exitStatuses)) {
		t.Error("weir --help: got no text about the exit statuses, want it")
	}
}

// Help text is at most 100 columns wide.
func TestHelp_width(t *testing.T) {
	var help func(c *cobra.Command)
	help = func(c *cobra.Command) {
		args := strings.Fields(c.CommandPath() + " --help")[1:]
		_, out, _ := weir(t, args...)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > command.HelpWidth {
				t.Errorf("weir %s: got %d columns, want at most 100: %s", strings.Join(args, " "), n, line)
			}
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" {
				help(sub)
			}
		}
	}
	help(rootCommand())
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, _ := weir(t, "completion", shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: got exit %d, output %.100q, want exit 0 and a completion script", shell, code, out)
		}
	}
}
