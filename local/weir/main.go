// Command weir runs the limiter on this machine and looks after its documents, keys
// and tables.
//
// Exit statuses are those of exitStatuses; README.md beside this has a table of the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// exitStatuses are of all commands.
const exitStatuses = "Exit statuses: 0 done; 1 it did not work, the document has mistakes, or there is no such thing; 2 the command line is wrong. " +
	"130 it was interrupted before it was done; weir serve, weir sam and a table of weir top that is renewed are done when they are interrupted. " +
	"weir with has that of its command. That a request would be refused is an answer, and 0."

// interrupted is the exit status of a command that an interrupt has ended, as shells have it.
const interrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends this at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	var exit exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage), command == root:
		fmt.Fprintf(stderr, "weir: %v\nTry: %s --help\n", err, command.CommandPath())
		return 2
	case ctx.Err() != nil:
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(stderr, "weir: %v\n", err)
		}
		return interrupted
	}
	fmt.Fprintf(stderr, "weir: %v\n", err)
	return 1
}

// rootCommand returns weir with all its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Rate limits for APIs on API Gateway, on this machine",
		Long: "Run the limiter on this machine, and look after its documents, keys, limits and tables, here and at AWS.\n\n" +
			"Results go to the standard output, with --json as one JSON object or list; what is for people beside them, and errors, to the standard error. " +
			"Colours are for terminals alone, and for none with NO_COLOR set.\n\n" + exitStatuses,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		serveCommand(),
		checkCommand(),
		explainCommand(),
		inspectCommand(),
		resetCommand(),
		topCommand(),
		hashCommand(),
		loadCommand(),
		simulateCommand(),
		tokenCommand(),
		seedCommand(),
		keysCommand(),
		rulesCommand(),
		withCommand(),
		samCommand(),
	)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	return root
}

// version returns the version that the go command has stamped: of the module or, built
// in a checkout, of the commit.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// await returns what read does, or that ctx has ended: who reads from a terminal may never
// be done.
func await[T any](ctx context.Context, read func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		got, failed = read()
		close(done)
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// usageError is a command line that is wrong.
type usageError struct{ error }

// exitError ends the command with a status; what there was to say has been said.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// exactly is cobra.ExactArgs as a usage error.
func exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(c, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
