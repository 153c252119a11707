// Command size prints how large the bootstrap of each function is, by itself and as the
// zip file that Lambda gets, and how long it takes from its start until it asks for its
// first event.
//
//	size [-json] [-starts 11] [dist]
//
// The time is the median over several starts of the bootstraps that were built for this
// machine's architecture, on this machine: with a stand-in of
// DynamoDB that answers at once, so that the client is built, its connection opened and
// one question asked, and nobody waited for; and with the DynamoDB Local at
// DYNAMODB_ENDPOINT, if that is set.
//
// Exit statuses: 0 done, 1 a zip file is over its goal or a bootstrap did not start, 2 the
// command line is wrong. A time over its goal is only said: it is another one on
// another machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// The goals.
const (
	maxZipped = 8_000_000 // bytes
	maxInit   = 60 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("size", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print JSON instead of a table")
	starts := flags.Int("starts", 11, "how often each bootstrap is started on each store")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *starts < 1 || flags.NArg() > 1 {
		fmt.Fprintln(stderr, "size: want at least one start, and at most one folder")
		return 2
	}
	dist := "dist"
	if flags.NArg() == 1 {
		dist = flags.Arg(0)
	}
	r, err := measure(ctx, dist, *starts)
	if err != nil {
		fmt.Fprintln(stderr, "size:", err)
		return 1
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err != nil || !r.good() {
		return 1
	}
	return 0
}
