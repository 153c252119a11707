// Command weir-tools has the commands that mainly the tests of this repository need. It starts
// servers for a command (with) and runs the SAM CLI (sam). It is a separate program, so that weir does not link these
// dependencies.
package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func main() { command.Main(rootCommand()) }

func rootCommand() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   "weir-tools",
		Short: "Start servers for tests, run the SAM CLI, read events",
		Long: "Start servers for tests, run the SAM CLI, read the events of a topic or a stream.\n\n" +
			"Exit statuses: 0 done; 1 failed; 2 wrong command line; 130 interrupted. The command with exits with the status of the command that " +
			"it runs. The commands sam and events --follow exit with 0 after an interrupt.",
	})
	root.AddCommand(withCommand(), samCommand(), releaseCommand())
	return root
}
