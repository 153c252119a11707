package serve

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main is weir serve for an API of another module: it runs the API with its rules behind the local gateway, with the
// console, until it is interrupted. It reads the flags -store, -rules and -port, and ends the program. A program is
//
//	func main() { serve.Main(serve.Options{API: api.New, Console: console.New, Rules: "rules.json"}) }
//
// where api.New returns a lambdahttp.Mux with the routes. Main sets the fields of o that are required and empty. Its files are
// in .weir of the working directory. The module has the command weir as a tool (go get -tool). DYNAMODB_ENDPOINT names a server
// for -store dynamodb.
func Main(o Options) {
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	flag.StringVar(&o.Store, "store", o.Store, "memory, dynamodb, redis, or a URL such as redis://HOST:6379")
	flag.StringVar(&o.Rules, "rules", o.Rules, "the rules document")
	flag.IntVar(&o.Port, "port", o.Port, "the port of the first API")
	flag.Parse()
	o.Command, o.Out, o.Log, o.Clock = "go tool weir", os.Stdout, os.Stderr, time.Now
	o.Logger = slog.New(slog.NewTextHandler(o.Log, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := New(o).Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}
