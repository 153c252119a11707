// Command weir-tools has what tests of this repository need beside weir: servers that are started
// for a command (with), the SAM CLI (sam), and the events of a Kafka topic or a Kinesis stream
// (events). It is a program of its own so that weir links none of it.
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
	root.AddCommand(withCommand(), samCommand(), eventsCommand())
	return root
}
