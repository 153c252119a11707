package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/lab/release"
)

func releaseCommand() *cobra.Command {
	p := release.Programs{}
	var out string
	c := &cobra.Command{
		Use:   "release VERSION",
		Short: "Pack the built programs for a release",
		Long: "Pack the programs that make release has built. A release has the functions and the layer as zip files, weir as tar files, and the template with its page, examples and IAM policies. " +
			"It also has the licenses of the modules, a list of them as a CycloneDX document, the section of the changelog, and the digests of all files. " +
			"The same programs give the same bytes.",
		Example: "  make release VERSION=v1.0.0",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			p.Version = args[0]
			folders, err := exec.CommandContext(c.Context(), "go", "env", "GOMODCACHE", "GOROOT").Output()
			if err != nil {
				return fmt.Errorf("go env: %w", err)
			}
			p.Modules, p.Toolchain, _ = strings.Cut(strings.TrimSpace(string(folders)), "\n")
			names, err := release.Write(out, p)
			for _, name := range names {
				fmt.Fprintln(c.OutOrStdout(), filepath.Join(out, name))
			}
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "dist/release", "folder of the release; the command replaces it")
	c.Flags().StringVar(&p.Functions, "functions", "dist", "folder with ARCH/FUNCTION/bootstrap")
	c.Flags().StringVar(&p.Commands, "commands", "dist/weir", "folder with OS_ARCH/weir")
	c.Flags().StringVar(&p.Rules, "rules", "infra/standalone/rules.json", "path of the rules document in the functions")
	c.Flags().StringVar(&p.Template, "template", "infra/standalone/weir.template.json", "path of the CloudFormation template")
	c.Flags().StringVar(&p.Page, "page", "infra/TEMPLATE.md", "path of the page of the template")
	c.Flags().StringVar(&p.Examples, "examples", "infra/examples", "folder of the examples")
	c.Flags().StringVar(&p.Policies, "policies", "infra/policies", "folder of the IAM policies")
	c.Flags().StringVar(&p.License, "license", "LICENSE", "path of the license")
	c.Flags().StringVar(&p.Chart, "chart", "local/console/web/uplot", "folder with uPlot and its license")
	c.Flags().StringVar(&p.Changelog, "changelog", "CHANGELOG.md", "path of the changelog")
	return c
}
