package boot_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oneRequest is a program that sends two requests of one caller to an authorizer whose table is in memory. It writes the
// coverage of the second to the folder of its argument. Only a program, and no test, can clear its coverage.
const oneRequest = `package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/coverage"
	"strings"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx, variables := context.Background(), map[string]string{"STORE": "memory:", "NAMESPACE": "n", "RULES_VERSION": "1"}
	c := must(boot.Load(func(name string) (string, bool) { value, ok := variables[name]; return value, ok }))
	store := must(dynamostore.New(&memtable.Table{}, dynamostore.Options{Table: "t", Namespace: "n"}))
	authorizer := lambdahttp.NewAuthorizer(must(c.Environment(ctx, store, boot.Options{Logger: slog.New(slog.DiscardHandler),
		Metrics: io.Discard})))
	event := must(events.Files.ReadFile("rest-authorizer-anonymous.json"))
	for range 2 {
		err := coverage.ClearCounters()
		if answer := must(authorizer.Invoke(ctx, event)); err != nil || !strings.Contains(string(answer), "Allow") {
			log.Fatalf("got %s and error %v, want an admission", answer, err)
		}
	}
	must(0, errors.Join(coverage.WriteMetaDir(os.Args[1]), coverage.WriteCountersDir(os.Args[1])))
}
`

// An allowed request of one caller enters few files and functions of this module: a reader of its path reads them.
func TestOneRequest(t *testing.T) {
	const mostFiles, mostFunctions = 58, 254 // today's 251, and some more in a window without a count
	const module = "github.com/weir-limits/weir/"
	folder := t.TempDir()
	source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "onerequest")
	output := func(name string, arguments ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: got error %v, want none: %s", name, arguments, err, out)
		}
		return string(out)
	}
	if err := os.WriteFile(source, []byte(oneRequest), 0o600); err != nil {
		t.Fatal(err)
	}
	output("go", "build", "-trimpath", "-cover", "-covermode=atomic", "-o", program,
		"-coverpkg="+module+"limiter/...,"+module+"functions/...,command-line-arguments", source)
	output(program, folder)
	files, functions := map[string]int{}, 0
	for line := range strings.Lines(output("go", "tool", "covdata", "func", "-i="+folder)) {
		fields := strings.Fields(line) // such as limiter/decide.go:68: decide 82.4%
		file, _, isFunction := strings.Cut(fields[0], ":")
		if !isFunction || fields[len(fields)-1] == "0.0%" || strings.Contains(file, "/memtable/") || !strings.HasPrefix(file, module) {
			continue
		}
		files[strings.TrimPrefix(file, module)]++
		functions++
	}
	t.Logf("one allowed request enters %d files and %d functions: %v", len(files), functions, files)
	if len(files) == 0 || len(files) > mostFiles || functions > mostFunctions {
		t.Errorf("got %d files and %d functions, want at most %d and %d", len(files), functions, mostFiles, mostFunctions)
	}
}
