package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version of this program",
		Long:    "Print the version, the commit and the Go version of this program. Releases have the version of their tag.",
		Example: "  weir version --json",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			b := command.Built()
			return show(c, b, func(p *printer) { p.line("weir %s, commit %s, %s", b.Version, b.Commit, b.Go) })
		},
	}
	addJSON(c.Flags())
	return c
}
