package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/top"
)

func topCommand() *cobra.Command {
	o := &topOptions{}
	c := &cobra.Command{
		Use:   "top [FILE]",
		Short: "List the callers with the most refusals",
		Long: "List the callers with the most refusals. The command reads the lines of FILE (- for the standard input): events, the metrics log, or an export of CloudWatch Logs. " +
			"Without FILE it reads .weir/metrics.log, which make run writes. weir-tools events prints the events of a topic or a stream.\n\n" +
			"On a terminal, the command updates the table with new lines until Ctrl-C. Otherwise it prints the table once, after the last line.\n\n" +
			"Callers are hashes; weir hash SUBJECT prints the hash of a caller. Counts are approximate, because memory is bounded: a count is too high by at most the number in the column OVER.",
		Example: "  weir top\n" +
			"  weir top --last 5m --json .weir/metrics.log\n" +
			"  weir-tools events --stream weir-prod-events | weir top -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("arguments: got %q, want one FILE, or none", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.in, o.out = c.InOrStdin(), c.OutOrStdout()
			return o.run(c.Context(), strings.Join(args, ""))
		},
	}
	c.Flags().DurationVar(&o.last, "last", 0, "count only refusals of this period before the newest line (precise to a tenth of the period); 0: count all")
	c.Flags().IntVarP(&o.n, "number", "n", 10, "maximum number of callers in the table")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

type topOptions struct {
	last time.Duration
	n    int
	json bool

	in  io.Reader
	out io.Writer
}

// source sends lines until its input ends. A source that follows a growing file sends lines until
// ctx ends.
type source interface {
	read(ctx context.Context, follow bool, lines chan<- []byte) error
}

// maxShown is the maximum number of callers in the table.
const maxShown = 1000

func (o *topOptions) run(ctx context.Context, file string) error {
	if o.n < 1 || o.n > maxShown {
		return command.Usage("--number: got %d, want 1 to %d", o.n, maxShown)
	}
	if o.last < 0 {
		return command.Usage("--last: got %s, want a time such as 5m, or 0 for all lines", o.last)
	}
	from, err := o.source(file)
	if err != nil {
		return err
	}
	terminal, ok := o.out.(*os.File)
	follow := ok && !o.json && isatty.IsTerminal(terminal.Fd())
	lines, ended := make(chan []byte, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(lines)
		ended <- from.read(ctx, follow, lines)
	}()
	t := top.New(o.last, time.Now)
	renew := (<-chan time.Time)(nil)
	if follow {
		ticker := time.NewTicker(renewal)
		defer ticker.Stop()
		renew = ticker.C
	}
	for {
		select {
		case line, more := <-lines:
			if more {
				t.Line(line)
				continue
			}
			if err := <-ended; err != nil && ctx.Err() == nil {
				return err
			}
			return o.finish(ctx, follow, t)
		case <-ctx.Done(): // do not wait for the source: a read from a terminal may never return
			return o.finish(ctx, follow, t)
		case <-renew:
			fmt.Fprint(o.out, "\x1b[H\x1b[2J") // this sequence moves the cursor home and clears the screen
			if err := o.print(o.out, t.Table(o.n)); err != nil {
				return err
			}
		}
	}
}

// finish prints the result. It returns an error if ctx ended before all lines were read, because
// the result is then incomplete. With follow there is no last line, so the end of ctx is no error.
func (o *topOptions) finish(ctx context.Context, follow bool, t *top.Top) error {
	if err := o.print(o.out, t.Table(o.n)); err != nil {
		return err
	}
	if ctx.Err() != nil && !follow {
		return command.ExitError{Code: command.Interrupted}
	}
	return nil
}

func (o *topOptions) source(file string) (source, error) {
	switch file {
	case "-":
		return reader{o.in}, nil
	case "":
		c, err := checkout.FindKeys()
		if err != nil {
			return nil, fmt.Errorf("%w; name a FILE", err)
		}
		if file = c.MetricsFile(); !checkout.Exists(file) {
			return nil, fmt.Errorf("%s: not found; make run writes it, or name a FILE", file)
		}
	}
	return logFile{file}, nil
}

func (o *topOptions) print(out io.Writer, t top.Table) error {
	if o.json {
		return command.PrintJSON(out, t)
	}
	fmt.Fprintf(out, "%d refused", t.Refused)
	if o.last > 0 {
		fmt.Fprintf(out, " within %s", o.last)
	}
	if t.Others > 0 {
		fmt.Fprintf(out, ", %d of them without a caller in the log", t.Others)
	}
	if t.Skipped > 0 {
		fmt.Fprintf(out, "; %d lines are neither events nor metrics", t.Skipped)
	}
	fmt.Fprintln(out)
	if len(t.Most) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REFUSED\tOVER\t%\tCALLER\tLIMIT")
	for _, r := range t.Most {
		fmt.Fprintf(table, "%d\t%d\t%.1f\t%s\t%s\n", r.Count, r.Error, 100*float64(r.Count)/float64(t.Refused), printable(r.Subject), cmp.Or(printable(r.Limit), "-"))
	}
	return table.Flush()
}

// printable removes control characters, which a terminal would execute.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}
