package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// HelpWidth is the maximum number of columns in a line of help.
const HelpWidth = 100

// wrapHelp wraps paragraphs and the descriptions of flags at HelpWidth. It does not change examples
// and the short descriptions of commands.
func wrapHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("wrap", Wrap)
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{wrap . | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`)
	flags := strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped 100",
		".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped 100")
	root.SetUsageTemplate(flags.Replace(root.UsageTemplate()))
}

// Wrap breaks the lines of text at spaces so that they fit HelpWidth.
func Wrap(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		column := 0
		for j, word := range strings.Fields(line) {
			switch n := len([]rune(word)); {
			case j == 0:
				column = n
			case column+1+n > HelpWidth:
				b.WriteByte('\n')
				column = n
			default:
				b.WriteByte(' ')
				column += 1 + n
			}
			b.WriteString(word)
		}
	}
	return b.String()
}
