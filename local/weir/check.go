package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/limiter/rules"
)

func checkCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Find all mistakes in a rules document",
		Long:  "Find all mistakes in a rules document: one line each, with its path in the document. The exit status is 1 if there are any.",
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return check(c.OutOrStdout(), args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// checked is the result of a check, as --json prints it.
type checked struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Rules    int            `json:"rules"`
	Tiers    []string       `json:"tiers,omitempty"`
	Problems rules.Problems `json:"problems,omitempty"`
}

func check(out io.Writer, file string, asJSON bool) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	result := checked{File: file}
	r, err := rules.Parse(document, rules.Options{})
	if problems, ok := errors.AsType[rules.Problems](err); ok {
		result.Problems = problems
	} else if err != nil {
		return err
	} else {
		result.OK, result.Rules, result.Tiers = true, r.Len(), r.Tiers()
	}
	if err := result.print(out, asJSON); err != nil {
		return err
	}
	if !result.OK {
		return exitError{1}
	}
	return nil
}

func (c checked) print(out io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(c)
	}
	for _, p := range c.Problems {
		if _, err := fmt.Fprintf(out, "%s: %s\n", c.File, p); err != nil {
			return err
		}
	}
	if !c.OK {
		return nil
	}
	_, err := fmt.Fprintf(out, "%s: ok, %d rules, tiers: %s\n", c.File, c.Rules, strings.Join(c.Tiers, ", "))
	return err
}
