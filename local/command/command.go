package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// Interrupted is the exit status of a command that an interrupt ended. Shells use the same number.
const Interrupted = 130

// UsageError is a mistake in the command line. The exit status is 2.
type UsageError struct{ error }

// firstDate is the first version that is taken for a time, in seconds: September 2001.
const firstDate = 1_000_000_000

// RulesVersion returns the text of a version of the rules, such as "version 7". A document without a field version has
// a version in Unix seconds or, from a file on this machine, in milliseconds. RulesVersion adds its date.
func RulesVersion(version int64) string {
	date := time.Unix(version, 0)
	switch {
	case version < firstDate:
		return fmt.Sprintf("version %d", version)
	case version >= 1000*firstDate:
		date = time.UnixMilli(version)
	}
	return fmt.Sprintf("version %d (%s)", version, date.UTC().Format(time.RFC3339))
}

// Usage returns a UsageError.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.error }

// AsUsage returns err as a UsageError. It returns nil if err is nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}

// ExitError ends a command with an exit status and prints nothing. The command has already printed
// its message.
type ExitError struct{ Code int }

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// Root completes the root command of a program. It sets the version and leaves the printing of errors
// to [Execute].
func Root(root *cobra.Command) *cobra.Command {
	root.Version, root.SilenceErrors, root.SilenceUsage = Built().Version, true, true
	wrapHelp(root)
	root.SetFlagErrorFunc(flagError)
	return root
}

// flagError returns a usage error. It replaces the library's errors for the types of Go, and suggests a flag instead of one
// that is probably misspelled.
func flagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return Usage("%w%s", err, document.DidYouMean(unknown.GetSpecifiedName(), names))
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return UsageError{err}
	}
	var want string
	switch invalid.GetFlag().Value.Type() {
	case "bool":
		want = "true or false"
	case "duration":
		want = "a duration with a unit, such as 10m"
		if n, err := strconv.Atoi(invalid.GetValue()); err == nil && n > 0 {
			want = fmt.Sprintf("a duration with a unit, such as %dm", n)
		}
	default:
		return UsageError{err}
	}
	return Usage("invalid argument %q for \"--%s\" flag: want %s", invalid.GetValue(), invalid.GetFlag().Name, want)
}

// Build describes a program.
type Build struct {
	Version string `json:"version"` // version of the module, or of the commit in a checkout
	Commit  string `json:"commit"`  // hash of the commit, with +dirty if the checkout had changes; "unknown" outside a checkout
	Go      string `json:"go"`      // version of Go that built the program
}

// version is the version of a release. The linker sets it, because the go command knows only the version of a tag:
// -ldflags "-X github.com/weir-limits/weir/local/command.version=v1.0.0".
var version string

// Built returns the version data that the linker and the go command have put into this program.
func Built() Build {
	b := Build{Version: cmp.Or(version, "unknown"), Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(version, info.Main.Version, "unknown")
	var dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	b.Commit += dirty
	return b
}

// Main runs the command line of this process and then exits. The first interrupt, or the end of the
// terminal, cancels the context of the command. The second interrupt ends the process at once.
func Main(root *cobra.Command) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	code := Execute(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Execute runs a command line and returns its exit status. It prints an error to stderr as one line.
// For a UsageError, a second line names the command that prints the help. The annotations of root are removed commands and
// flags, with what to do instead; the error of a command line with one of them says it.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	if name, instead := wasRemoved(root, args); err != nil && name != "" {
		err = Usage("%s: no longer exists; %s", name, instead)
	}
	var exit ExitError
	var usage UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage), c == root:
		fmt.Fprintf(stderr, "%s: %v\nTry: %s --help\n", root.Name(), err, c.CommandPath())
		return 2
	case ctx.Err() != nil:
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		}
		return Interrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	return 1
}

// wasRemoved returns the removed command or flag that a command line has, and what to do instead. The annotations of the
// root command list them, such as "rules publish --after", and "--edge" for a flag of any command.
func wasRemoved(root *cobra.Command, args []string) (name, instead string) {
	for name, instead := range root.Annotations {
		path, flag, _ := strings.Cut(" "+name, " --")
		called := strings.HasPrefix(" "+strings.Join(args, " ")+" ", path+" ")
		given := func(arg string) bool { word, _, _ := strings.Cut(arg, "="); return word == "--"+flag }
		if called && (flag == "" || slices.ContainsFunc(args, given)) {
			return name, instead
		}
	}
	return "", ""
}

// Exactly requires n arguments. The Use line of the command must name them.
func Exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		_, want, _ := strings.Cut(c.Use, " ")
		switch {
		case n == 0:
			return Usage("arguments: got %q, want none", args)
		case len(args) == 0:
			return Usage("arguments: got none, want %s", want)
		}
		return Usage("arguments: got %q, want %s", args, want)
	}
}

// Group makes c a command that only has subcommands. Without a subcommand it prints its help. An
// unknown subcommand is a usage error that lists the subcommands.
func Group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		return Usage("subcommand: got %q, want one of %s", args[0], strings.Join(names, ", "))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// PrintJSON prints a value as indented JSON.
func PrintJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
