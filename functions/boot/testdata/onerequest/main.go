// Command onerequest is an authorizer that answers two requests of one caller. The store is a table in memory. It writes
// the coverage of the second request to the folder of its argument.
package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/coverage"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	variables := map[string]string{"STORE": "memory", "NAMESPACE": "n", "RULES_VERSION": "1"}
	c, err := boot.Load(func(name string) (string, bool) { value, ok := variables[name]; return value, ok })
	if err != nil {
		return err
	}
	store, err := dynamostore.New(&memtable.Table{}, dynamostore.Options{Table: "t", Namespace: "n"})
	if err != nil {
		return err
	}
	e, err := c.Environment(context.Background(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Metrics: io.Discard})
	if err != nil {
		return err
	}
	event, err := events.Files.ReadFile("rest-authorizer-anonymous.json")
	if err != nil {
		return err
	}
	authorizer := lambdahttp.NewAuthorizer(e)
	for range 2 {
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		answer, err := authorizer.Invoke(context.Background(), event)
		if err != nil || !bytes.Contains(answer, []byte(`"Effect":"Allow"`)) {
			log.Fatalf("got %s and error %v, want an admission", answer, err)
		}
	}
	if err := coverage.WriteMetaDir(folder); err != nil {
		return err
	}
	return coverage.WriteCountersDir(folder)
}
