// Command weir runs the limiter on this machine. It manages rules documents, API keys and the usage
// of limits, here and on AWS. README.md in this folder has a table of the commands.
//
// Each command has a file with its flags, its help and its output. The packages serve, operator and
// why in the parent folder, and the packages below functions, do the work.
package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func main() { command.Main(rootCommand()) }

const exitStatuses = "Exit statuses: 0 success; 1 failed, or the document has mistakes, or the key does not exist; " +
	"2 wrong command line; 130 interrupted before the end. weir serve exits with 0 after an interrupt. " +
	"weir explain also exits with 0 if the request would be refused."

// The groups of commands in the help.
const (
	groupServe  = "serve"
	groupRules  = "rules"
	groupCaller = "caller"
	groupKeys   = "keys"
	groupTools  = "tools"
)

// runCommands are the commands of rooms that each go with their folder and one file here.
var runCommands []*cobra.Command

func rootCommand() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use: "weir", Annotations: removed,
		Short: "Run and manage rate limits for APIs on API Gateway",
		Long: "Run the limiter on this machine, and manage rules documents, API keys and the usage of limits, here and on AWS.\n\n" +
			"Results go to the standard output; with --json they are one JSON object or list. Progress, questions and errors go to the standard " +
			"error. " +
			"Output to a terminal has colours, unless NO_COLOR is set.\n\n" + exitStatuses,
	})
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{groupServe, "Run it:", append([]*cobra.Command{serveCommand(), tokenCommand()}, runCommands...)},
		{groupRules, "Rules:", []*cobra.Command{checkCommand(), rulesCommand()}},
		{groupCaller, "Callers:", []*cobra.Command{explainCommand(), usageCommand(), resetCommand(), whyCommand(), blockCommand(),
			unblockCommand(), raiseCommand()}},
		{groupKeys, "API keys:", []*cobra.Command{keysCommand()}},
		{groupTools, "Tools:", []*cobra.Command{versionCommand()}},
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
