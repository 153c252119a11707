package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version of this program",
		Long:    "Print the version, the commit and the Go version of this program. Releases have the version of their tag.",
		Example: "  weir version --json",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			b := command.Built()
			if asJSON {
				return command.PrintJSON(c.OutOrStdout(), b)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "weir %s, commit %s, %s\n", b.Version, b.Commit, b.Go)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
