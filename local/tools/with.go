package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/servers"
)

func withCommand() *cobra.Command {
	var install bool
	c := &cobra.Command{
		Use:   "with SERVER[,SERVER] -- COMMAND [ARG...]",
		Short: "Run a command beside servers that are started for it",
		Long: "Run a command beside DynamoDB Local, Redis, Apache Kafka and a Docker engine (dynamodb, redis, kafka, docker), which are started for it and end with it. " +
			"The command finds them in DYNAMODB_ENDPOINT, REDIS_URL, KAFKA_BROKERS and DOCKER_HOST; one that is set already is not started, nor is a Docker engine where one runs. " +
			"Likewise tools, the folder of the SAM CLI and cfn-lint in the versions that are pinned, is in WEIR_TOOLS, and browser, a Chromium or Chrome, in WEIR_BROWSER. " +
			"What cannot be had is left out with a warning, unless WEIR_REQUIRE lists it, or says all.",
		Example: "  weir-tools with redis -- go test ./limiter/redisstore\n  weir-tools with --install dynamodb,redis -- make soak",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return command.Usage("want the servers, --, and a command")
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
	c.Flags().BoolVar(&install, "install", false, "install what is missing; works on Debian, as root")
	return c
}

// toolVariables name the other tools of a command.
var toolVariables = map[string]string{"browser": "WEIR_BROWSER", "docker": "DOCKER_HOST", "kafka": "KAFKA_BROKERS", "tools": "WEIR_TOOLS"}

// variableOf returns the variable for a name that with knows, or "" for an unknown name.
func variableOf(name string) string { return cmp.Or(servers.Variables[name], toolVariables[name]) }

const withNames = "browser,docker,dynamodb,kafka,redis,tools"

// needs are the valid names in WEIR_REQUIRE: servers and tools of with, and programs that tests
// look for.
var needs = append(strings.Split(withNames, ","), "node", "python3")

// with runs a command beside servers.
type with struct {
	stdout, stderr io.Writer
	install        bool
	require        []string // these must not be missing
	skipped        []string
}

// parseRequire reads the list in WEIR_REQUIRE. An unknown name is an error, because a misspelled
// server would be skipped silently.
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
	// The command reads the parsed list from here.
	environment := append(os.Environ(), "WEIR_REQUIRE="+strings.Join(w.require, ","))
	for _, name := range names {
		variable := variableOf(name)
		if variable == "" {
			return command.Usage("got server %q, want some of %s", name, withNames)
		}
		if os.Getenv(variable) != "" {
			continue
		}
		value, server, err := w.provide(ctx, name)
		if err != nil {
			if slices.Contains(w.require, name) {
				return fmt.Errorf("%s is required: %w", name, err)
			}
			w.skipped = append(w.skipped, fmt.Sprintf("SKIPPED: %s: %v", name, err))
			continue
		}
		environment = append(environment, variable+"="+value)
		if server != nil {
			server.Watch(ctx, func(err error) { fmt.Fprintf(w.stderr, "weir: %s has ended before the command: %v\n", name, err) })
			defer server.Stop()
		}
	}
	w.warn()
	defer w.warn()
	return w.execute(ctx, argv, environment)
}

// provide returns the value of the variable for a name, and the server if provide started one.
func (w *with) provide(ctx context.Context, name string) (value string, server *servers.Server, err error) {
	if name == "docker" {
		if value = servers.RunningDocker(ctx); value != "" {
			return value, nil, nil
		}
	}
	if w.install {
		if err := servers.Install(ctx, name, w.stderr); err != nil {
			return "", nil, err
		}
	}
	switch name {
	case "browser":
		value, err = servers.Browser()
		return value, nil, err
	case "docker":
		if value = servers.RunningDocker(ctx); value != "" { // with systemd, the installation starts it
			return value, nil, nil
		}
		server, err = servers.StartDocker(ctx, w.stderr)
	case "redis":
		server, err = servers.StartRedis(ctx)
	case "tools":
		value, err = w.fetchTools(ctx)
		return value, nil, err
	case "kafka":
		server, err = w.startInCheckout(ctx, servers.StartKafka)
	default:
		server, err = w.startInCheckout(ctx, servers.StartDynamoDB)
	}
	if err != nil {
		return "", nil, err
	}
	return server.URL, server, nil
}

func (w *with) fetchTools(ctx context.Context) (string, error) {
	c, err := checkout.Find()
	if err != nil {
		return "", err
	}
	return servers.FetchTools(ctx, c.Root, w.stderr)
}

// startInCheckout starts a server that a checkout pins.
func (w *with) startInCheckout(ctx context.Context, start func(context.Context, string, io.Writer) (*servers.Server, error)) (*servers.Server, error) {
	c, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	return start(ctx, c.Root, w.stderr)
}

// warn prints what is missing, before the command and again after it.
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
		return nil // the interrupt ended the command, so this is a success
	}
	return err
}
