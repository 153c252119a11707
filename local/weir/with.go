package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/servers"
)

func withCommand() *cobra.Command {
	var install bool
	c := &cobra.Command{
		Use:   "with SERVER[,SERVER] -- COMMAND [ARG...]",
		Short: "Run a command beside servers that are started for it",
		Long: "Run a command beside DynamoDB Local and Redis (dynamodb, redis), which are started on free ports and end with it. " +
			"The command finds them in DYNAMODB_ENDPOINT and REDIS_URL; one that is set already is not started. " +
			"A server that cannot be started is left out with a warning, unless WEIR_REQUIRE lists it, or says all.",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usageError{errors.New("want the servers, --, and a command")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			require, err := parseRequire(os.Getenv("WEIR_REQUIRE"))
			if err != nil {
				return err
			}
			w := with{require: require, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr(), install: install}
			return w.run(c.Context(), strings.Split(args[0], ","), args[1:])
		},
	}
	c.Flags().BoolVar(&install, "install", false, "install what is missing, where that needs no question: on Debian, as root")
	return c
}

// serverVariables are the variables by which a server is found.
var serverVariables = map[string]string{"dynamodb": "DYNAMODB_ENDPOINT", "redis": "REDIS_URL"}

// with runs a command beside servers.
type with struct {
	stdout, stderr io.Writer
	install        bool
	require        []string // servers that must not be left out
	skipped        []string
}

// parseRequire reads the list of servers in WEIR_REQUIRE. What it does not know is an
// error: who misspells a server means to have it.
func parseRequire(list string) (servers []string, err error) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case item == "all":
			servers = append(servers, slices.Sorted(maps.Keys(serverVariables))...)
		case serverVariables[item] != "":
			servers = append(servers, item)
		default:
			return nil, usageError{fmt.Errorf("WEIR_REQUIRE: got %q, want all, or some of dynamodb,redis", item)}
		}
	}
	return servers, nil
}

func (w *with) run(ctx context.Context, names, command []string) error {
	// The command finds the list as it was understood here.
	environment := append(os.Environ(), "WEIR_REQUIRE="+strings.Join(w.require, ","))
	for _, name := range names {
		variable, known := serverVariables[name]
		if !known {
			return usageError{fmt.Errorf("got server %q, want dynamodb or redis", name)}
		}
		if os.Getenv(variable) != "" {
			continue
		}
		server, err := w.start(ctx, name)
		if err != nil {
			if slices.Contains(w.require, name) {
				return fmt.Errorf("%s is required: %w", name, err)
			}
			w.skipped = append(w.skipped, fmt.Sprintf("SKIPPED: %s: %v", name, err))
			continue
		}
		server.Watch(ctx, func(err error) { fmt.Fprintf(w.stderr, "weir: %s has ended before the command: %v\n", name, err) })
		defer server.Stop()
		environment = append(environment, variable+"="+server.URL)
	}
	w.warn()
	defer w.warn()
	return w.execute(ctx, command, environment)
}

func (w *with) start(ctx context.Context, name string) (*servers.Server, error) {
	if name == "redis" {
		if w.install {
			if err := servers.InstallRedis(ctx, w.stderr); err != nil {
				return nil, err
			}
		}
		return servers.StartRedis(ctx)
	}
	c, err := findCheckout()
	if err != nil {
		return nil, err
	}
	return servers.StartDynamoDB(ctx, c.root, w.stderr)
}

// warn says loudly what is left out: before the command, and again after it, where it
// is still seen.
func (w *with) warn() {
	for _, line := range w.skipped {
		fmt.Fprintln(w.stderr, line)
	}
}

func (w *with) execute(ctx context.Context, command, environment []string) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.Env, c.Stdin, c.Stdout, c.Stderr = environment, os.Stdin, w.stdout, w.stderr
	err := c.Run()
	if status, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitError{max(1, status.ExitCode())}
	}
	return err
}
