// Command weir runs the limiter on this machine and manages its documents, keys and limits, here
// and at AWS. README.md in this folder has a table of the commands.
//
// Each command has its own file with its flags, its help and its output. The work is done by the
// packages serve, operator, load, top and simulate beside this one, and by the records packages
// below functions.
package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func main() { command.Main(rootCommand()) }

// exitStatuses are the same for all commands.
const exitStatuses = "Exit statuses: 0 done; 1 failed, or the document has mistakes, or there is no such key; " +
	"2 the command line is wrong; 130 interrupted before it was done. weir serve, and a table of weir top that is renewed, end with 0 when they are interrupted. " +
	"A request that would be refused is an answer: 0."

// The groups of commands in the help.
const (
	groupServe  = "serve"
	groupRules  = "rules"
	groupCaller = "caller"
	groupKeys   = "keys"
	groupTools  = "tools"
)

// rootCommand returns weir with all its commands.
func rootCommand() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   "weir",
		Short: "Rate limits for APIs on API Gateway, on this machine",
		Long: "Run the limiter on this machine, and manage its documents, keys and limits, here and at AWS.\n\n" +
			"Results go to the standard output, with --json as one JSON object or list. Progress, questions and errors go to the standard error. " +
			"Colours are for terminals, unless NO_COLOR is set.\n\n" + exitStatuses,
	})
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{groupServe, "Run it:", []*cobra.Command{serveCommand(), seedCommand(), tokenCommand()}},
		{groupRules, "Rules:", []*cobra.Command{checkCommand(), rulesCommand()}},
		{groupCaller, "Callers:", []*cobra.Command{explainCommand(), usageCommand(), resetCommand(), topCommand(), hashCommand()}},
		{groupKeys, "API keys:", []*cobra.Command{keysCommand()}},
		{groupTools, "Tools:", []*cobra.Command{loadCommand(), simulateCommand(), versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID(groupTools)
	root.SetCompletionCommandGroupID(groupTools)
	return root
}
