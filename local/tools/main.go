// Command weir-tools has what the tests of this repository need beside weir. It starts servers for
// a command (with), runs the SAM CLI (sam), and prints the events of a Kafka topic or a Kinesis
// stream (events). It is a separate program so that weir does not link these dependencies.
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
			"Exit statuses: 0 done; 1 failed; 2 the command line is wrong; 130 interrupted. with has that of its command; sam and events --follow end with 0 when they are interrupted.",
	})
	root.AddCommand(withCommand(), samCommand(), eventsCommand(), releaseCommand())
	return root
}
