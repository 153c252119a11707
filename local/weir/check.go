package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

func checkCommand() *cobra.Command {
	var against, store string
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Find all mistakes in a rules document",
		Long: "Find all mistakes in a rules document. The command prints one line for each mistake, with its place in the document. If there " +
			"are mistakes, the exit status is 1.\n\n" +
			"For a document without mistakes, the command prints notes.\n\n" +
			"With --against OLD, it prints the limits whose counts would restart if FILE replaced OLD, and the limits that are new, or have a " +
			"new name, a new tier or another mode. If FILE is -, it reads the standard input.\n\n" +
			"With --store, it also checks the server of a store.",
		Example: "  weir check functions/rules.json\n" +
			"  weir check --json - < my-rules.json\n" +
			"  git show HEAD:functions/rules.json > /tmp/before.json\n" +
			"  weir check --against /tmp/before.json functions/rules.json",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			notes, err := storeNotes(c.Context(), store)
			if err != nil {
				return err
			}
			return check(c, args[0], against, notes)
		},
	}
	c.Flags().StringVar(&against, "against", "", "the document in force; print the limits whose counts would restart")
	c.Flags().StringVar(&store, "store", "", "also check the server of a store: "+storeFlag)
	addJSON(c.Flags())
	return c
}

// storeNotes returns notes on the server of a store.
func storeNotes(ctx context.Context, url string) ([]rules.Problem, error) {
	if url == "" {
		return nil, nil
	}
	t := target{store: url, namespace: "check"}
	config, err := t.load()
	if err != nil {
		return nil, err
	}
	store, closeStore, err := config.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeStore() }()
	if err := config.Probe(ctx, store); err != nil {
		return nil, err
	}
	if warning := boot.Warning(ctx, store); warning != "" {
		return []rules.Problem{{Path: "--store", Message: warning}}, nil
	}
	return nil, nil
}

type checked struct {
	File     string          `json:"file"`
	OK       bool            `json:"ok"`
	Rules    int             `json:"rules"`
	Tiers    []string        `json:"tiers,omitempty"`
	Problems rules.Problems  `json:"problems,omitempty"`
	Notes    []rules.Problem `json:"notes,omitempty"`
	Items    int             `json:"items,omitempty"`    // the most that one request was found to write
	Path     string          `json:"path,omitempty"`     // of such a request
	Bound    int             `json:"bound,omitempty"`    // no request writes more items
	Restarts []string        `json:"restarts,omitempty"` // only with --against: limits whose counts restart
	Begins   []string        `json:"begins,omitempty"`   // only with --against: limits that the other document does not have
}

func check(c *cobra.Command, file, against string, notes []rules.Problem) error {
	ctx := c.Context()
	document, err := readDocument(ctx, c.InOrStdin(), file)
	if err != nil && (!isJSON(c) || ctx.Err() != nil) {
		return err
	}
	result := checked{File: file}
	var r *rules.Rules
	if err == nil {
		r, err = checkout.ParseRules(document)
	}
	if problems, ok := errors.AsType[rules.Problems](err); ok {
		result.Problems = problems
	} else if err != nil {
		result.Problems = rules.Problems{{Message: err.Error()}}
	} else {
		result.Items, result.Path, result.Bound = r.MostItems()
		result.OK, result.Rules, result.Tiers, result.Notes = true, r.Len(), r.Tiers(), slices.Concat(r.Notes(), notes)
		result.Restarts, result.Begins, err = moved(ctx, c.InOrStdin(), against, r)
		if err != nil {
			return err
		}
	}
	err = result.show(c)
	if err == nil && !result.OK {
		err = command.ExitError{Code: 1}
	}
	return err
}

// moved returns the limits whose counts would restart, and those whose counts would begin, if the rules r replaced the
// document in the file. It returns none if file is empty.
func moved(ctx context.Context, in io.Reader, file string, r *rules.Rules) (restarts, begins []string, err error) {
	if file == "" {
		return nil, nil, nil
	}
	document, err := readDocument(ctx, in, file)
	if err != nil {
		return nil, nil, err
	}
	before, err := checkout.ParseRules(document)
	if err != nil {
		return nil, nil, fmt.Errorf("--against: %s: %w", file, err)
	}
	restarts, begins = rules.Moved(before, r)
	return restarts, begins, nil
}

func (d checked) show(c *cobra.Command) error {
	return show(c, d, func(p *printer) {
		for _, problem := range d.Problems {
			p.line("%s", problem.In(d.File))
		}
		if d.OK {
			d.printRules(p)
		}
	})
}

func (d checked) printRules(p *printer) {
	summary := plural(d.Rules, "rule")
	if d.Rules == 0 {
		summary += ": nothing is limited"
	}
	if len(d.Tiers) > 0 {
		summary += ", tiers: " + strings.Join(d.Tiers, ", ")
	}
	p.line("%s: ok, %s", d.File, summary)
	switch {
	case d.Items == d.Bound && d.Items > 0:
		p.line("  a request writes at most %s of the store, for example a request to %s", plural(d.Items, "item"), d.Path)
	case d.Items > 0:
		p.line("  a request to %s writes %s; none is known to write more, and none can write more than %d", d.Path, plural(d.Items, "item"),
			d.Bound)
	}
	d.printNotes(p)
	if len(d.Restarts) > 0 {
		p.line("  %s", restartText(d.Restarts))
	}
	if len(d.Begins) > 0 {
		p.line("  new limits, whose counts start at zero: %s", some(d.Begins))
	}
}

// printNotes prints each note once, with all its places.
func (d checked) printNotes(p *printer) {
	places := map[string][]string{}
	for _, n := range d.Notes {
		places[n.Message] = append(places[n.Message], n.Path)
	}
	for _, n := range d.Notes {
		paths := places[n.Message]
		delete(places, n.Message)
		if len(paths) == 0 {
			continue
		}
		n.Path = some(paths)
		if len(paths) > 1 {
			n.Line = 0
		}
		p.line("  note: %s", n)
	}
}

// everyCount replaces the list of limits whose counts restart, if this version of weir cannot parse
// the document in force.
const everyCount = "every count may restart: the document in force is not valid for this version of weir"

func restartText(limits []string) string {
	if slices.Contains(limits, everyCount) {
		return everyCount
	}
	if len(limits) == 1 {
		return "1 count restarts, because it moves to another item: " + limits[0]
	}
	return plural(len(limits), "count") + " restart, because they move to other items: " + some(limits)
}

// some joins the first ten texts of a list, and says how many follow.
func some(list []string) string {
	const most = 10
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
