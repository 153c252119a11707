package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/lab/testservers"
	"github.com/weir-limits/weir/local/servers"
)

func withCommand() *cobra.Command {
	var install bool
	c := &cobra.Command{
		Use:   "with SERVER[,SERVER] -- COMMAND [ARG...]",
		Short: "Start servers, run a command, stop the servers",
		Long: "Start servers, run a command, stop the servers. The servers are DynamoDB Local, Redis, Apache Kafka and a Docker engine " +
			"(dynamodb, redis, kafka, docker). " +
			"The command gets their addresses in DYNAMODB_ENDPOINT, REDIS_URL, KAFKA_BROKERS and DOCKER_HOST. The command does not start a " +
			"server whose variable is set. It uses a Docker engine that already runs. " +
			"tools sets WEIR_TOOLS to the folder of the SAM CLI, cfn-lint and the CDK for Python, in pinned versions. browser sets WEIR_BROWSER " +
			"to a Chromium or Chrome. " +
			"clients sets WEIR_CLIENTS to the folder of Lambda's runtime interface client for Node.js, and njs sets " +
			"WEIR_NJS to the program. " +
			"If a server or a tool is not available, the command runs without it and weir-tools prints a warning. If WEIR_REQUIRE is all or " +
			"lists the missing name, this is an error.",
		Example: "  weir-tools with redis -- go test ./limiter/redisstore\n  weir-tools with --install dynamodb,redis -- make soak",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return command.Usage("arguments: want the servers, --, and a command")
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
	c.Flags().BoolVar(&install, "install", false, "install missing packages; works only as root on Debian")
	return c
}

const withNames = "browser,clients,docker,dynamodb,kafka,njs,redis,tools"

// needs are the valid names in WEIR_REQUIRE: the servers and tools that this command can provide, and
// programs that only tests use.
var needs = append(strings.Split(withNames, ","), "node", "python3")

// with is one run of `weir-tools with`, which starts servers and runs a command while they run.
type with struct {
	stdout, stderr io.Writer
	install        bool
	require        []string // servers and tools whose absence is an error
	skipped        []string
}

// parseRequire reads the list in WEIR_REQUIRE. An unknown name is an error. If parseRequire ignored it,
// the tests of a misspelled server would be skipped silently.
func parseRequire(list string) (names []string, err error) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case item == "all":
			names = append(names, needs...)
		case slices.Contains(needs, item):
			names = append(names, item)
		default:
			return nil, command.Usage("WEIR_REQUIRE: got %q, want all, or some of %s", item, strings.Join(needs, ","))
		}
	}
	return names, nil
}

func (w *with) run(ctx context.Context, names, argv []string) error {
	for _, name := range names {
		if testservers.Provisions[name].Variable == "" {
			return command.Usage("servers: got %q, want some of %s", name, withNames)
		}
	}
	all := w.provideAll(ctx, names)
	for i, p := range all {
		if p.server != nil {
			p.server.Watch(ctx, func(err error) { fmt.Fprintf(w.stderr, "weir: %s ended before the command: %v\n", names[i], err) })
			defer p.server.Stop()
		}
	}
	// The command gets WEIR_REQUIRE with the parsed names, so "all" is replaced by the names.
	environment := append(os.Environ(), "WEIR_REQUIRE="+strings.Join(w.require, ","))
	for i, name := range names {
		switch p := all[i]; {
		case p.err != nil && slices.Contains(w.require, name):
			return fmt.Errorf("%s is required: %w", name, p.err)
		case p.err != nil:
			w.skipped = append(w.skipped, fmt.Sprintf("SKIPPED: %s: %v", name, p.err))
		case p.value != "":
			environment = append(environment, testservers.Provisions[name].Variable+"="+p.value)
		}
	}
	w.warn()
	defer w.warn()
	return w.execute(ctx, argv, environment)
}

type provision struct {
	value  string
	server *servers.Server
	err    error
}

// provideAll provides the servers and tools whose variables are not set. It provides them concurrently,
// because most of them wait for downloads and for the start of a process.
func (w *with) provideAll(ctx context.Context, names []string) []provision {
	all := make([]provision, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		if os.Getenv(testservers.Provisions[name].Variable) == "" {
			group.Go(func() { all[i].value, all[i].server, all[i].err = w.provide(ctx, name) })
		}
	}
	group.Wait()
	return all
}

// provide returns the value of the variable for a server or tool. server is nil unless provide
// started one.
func (w *with) provide(ctx context.Context, name string) (value string, server *servers.Server, err error) {
	c, err := checkout.Find()
	if err != nil {
		return "", nil, err
	}
	return testservers.Provisions[name].Provide(ctx, c.Root, w.install, w.stderr)
}

// warn prints the missing servers and tools. run calls warn before the command and again after it.
func (w *with) warn() {
	for _, line := range w.skipped {
		fmt.Fprintln(w.stderr, line)
	}
}

func (w *with) execute(ctx context.Context, argv, environment []string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.Env, c.Stdin, c.Stdout, c.Stderr = environment, os.Stdin, w.stdout, w.stderr
	err := c.Run()
	if status, ok := errors.AsType[*exec.ExitError](err); ok {
		return command.ExitError{Code: max(1, status.ExitCode())}
	}
	if c.ProcessState != nil && c.ProcessState.Success() {
		return nil // after the interrupt, the command exited with status 0, so this is no failure
	}
	return err
}
