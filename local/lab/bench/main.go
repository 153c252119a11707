package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// groups are the groups of measurements, in the order of the report.
var groups = []struct {
	name     string
	variable string // environment variable with the address of the server; "" if the group needs no server
	measure  func(context.Context, *bench) (group, error)
}{
	{"memory", "", memoryGroup},
	{"redis", "REDIS_URL", redisGroup},
	{"dynamodb", "DYNAMODB_ENDPOINT", dynamoGroup},
	{"leases", "REDIS_URL", leaseGroup},
	{"functions", "", functionGroup},
	{"layer", "", layerGroup},
}

type bench struct {
	rounds   int
	quick    bool
	address  string            // address of the server that the current group measures
	versions map[string]string // versions of the servers; each group adds its own
	progress io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", strings.Join(names, ","), "measure only these groups")
	rounds := flags.Int("rounds", 5, "number of rounds; each figure is the median of all rounds")
	quick := flags.Bool("quick", false, "run a smoke test: two short rounds, too short for exact figures")
	asJSON := flags.Bool("json", false, "print JSON")
	write := flags.String("write", "", "write the tables as Markdown to this file")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if flags.NArg() > 0 || *rounds < 1 {
		return fmt.Errorf("arguments: got %q and %d rounds, want no arguments and at least one round", flags.Args(), *rounds)
	}
	b := &bench{rounds: *rounds, quick: *quick, versions: map[string]string{}, progress: stderr}
	if b.quick {
		b.rounds = min(b.rounds, 2)
	}
	r, err := b.measure(ctx, strings.Split(*only, ","), names)
	if err != nil {
		return err
	}
	if *write != "" {
		if err := os.WriteFile(*write, []byte(r.markdown()), 0o644); err != nil { //nolint:gosec // every user may read the documentation
			return err
		}
		fmt.Fprintln(stderr, "wrote", *write)
	}
	if *asJSON {
		return r.json(stdout)
	}
	_, err = io.WriteString(stdout, r.markdown())
	return err
}

// measure runs the groups whose names are in the list only. If the server of a group is missing, measure
// skips the group and reports this.
func (b *bench) measure(ctx context.Context, only, names []string) (report, error) {
	for _, name := range only {
		if !slices.Contains(names, name) {
			return report{}, fmt.Errorf("-only: got %q, want one or more of %s", name, strings.Join(names, ","))
		}
	}
	r := report{Rounds: b.rounds, Quick: b.quick}
	for _, g := range groups {
		if !slices.Contains(only, g.name) {
			continue
		}
		if b.address = os.Getenv(g.variable); g.variable != "" && b.address == "" {
			b.say("SKIPPED: %s needs %s; `make bench` starts a server and sets it", g.name, g.variable)
			continue
		}
		measured, err := g.measure(ctx, b)
		if err != nil {
			return report{}, fmt.Errorf("%s: %w", g.name, err)
		}
		r.Groups = append(r.Groups, measured)
	}
	r.Machine = machine(ctx)
	r.Versions = b.versions
	addModules(r.Versions)
	return r, nil
}

// say prints a line about the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}
