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

// dist is the folder of the release and of its programs.
const dist = "dist"

func releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release VERSION",
		Short: "Pack the built programs for a release",
		Long: "Pack the programs that make release has built into dist/release. A release has the functions and the layer as zip files, weir " +
			"as tar files, and the template with its page, examples and IAM policies. " +
			"It also has the licenses of the modules, a list of them as a CycloneDX document, the section of the changelog, and the digests of " +
			"all files. " +
			"The same programs give the same bytes.",
		Example: "  make release VERSION=v1.0.0",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			folders, err := exec.CommandContext(c.Context(), "go", "env", "GOMODCACHE", "GOROOT").Output()
			if err != nil {
				return fmt.Errorf("go env: %w", err)
			}
			modules, toolchain, _ := strings.Cut(strings.TrimSpace(string(folders)), "\n")
			out := filepath.Join(dist, "release")
			names, err := release.Write(out, release.Programs{
				Version: args[0], Functions: dist, Commands: filepath.Join(dist, "weir"), Modules: modules, Toolchain: toolchain,
				Rules: "infra/standalone/rules.json", Templates: []string{"infra/standalone/weir.template.json",
					"infra/standalone/weir-elasticache.template.json"}, Page: "infra/TEMPLATE.md",
				Examples: "infra/examples", Policies: "infra/policies", License: "LICENSE", Changelog: "CHANGELOG.md", Chart: "local/console/web/uplot",
			})
			for _, name := range names {
				fmt.Fprintln(c.OutOrStdout(), filepath.Join(out, name))
			}
			return err
		},
	}
}
