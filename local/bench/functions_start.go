package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// trivialRow is the function that does nothing, which `make bench` builds beside this program.
const trivialRow = "a function that does nothing"

var startColumns = []column{{"first answer, ms", 1}, {"of nothing", 2}}

// startTable measures cold starts: from the start of a process to its first answer. ok is false if the
// functions are not built, or outside Linux.
func startTable(ctx context.Context, b *bench) (t table, ok bool, err error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	program, err := os.Executable()
	if err != nil {
		return table{}, false, err
	}
	names := []string{trivialRow, "authorizer", "authorizer-redis", "authorizer-events"}
	paths := []string{filepath.Join(filepath.Dir(program), "trivial")}
	for _, name := range names[1:] {
		paths = append(paths, filepath.Join("dist", arch, name, "bootstrap"))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil || runtime.GOOS != "linux" {
			b.progress.say("SKIPPED: starts of functions need Linux and %s; `make bench` builds it", path)
			return table{}, false, nil
		}
	}
	dynamodb := httptest.NewServer(http.HandlerFunc(answerAll))
	defer dynamodb.Close()
	var nothing figure // time of trivialRow in the same round
	rows, err := interleave(ctx, b, names, func(i, _ int) ([]figure, error) {
		first, err := firstAnswer(ctx, paths[i], dynamodb.URL)
		if names[i] == trivialRow {
			nothing = first
		}
		return []figure{first, first / nothing}, err
	})
	return table{
		Title: "Functions: from the start of a process to its first answer", Corner: "bundle", Columns: startColumns, Rows: rows,
		Note: "A server on this machine replaces DynamoDB. The column \"of nothing\" is the time as a multiple of the time of a function that does nothing, in the same round. The bundles with more clients use DynamoDB, too. The additional time has two parts of about " +
			"equal size: the initialization of packages, mostly for the schemas of DynamoDB's client, and the first calls of that client.",
	}, true, err
}

// startGoal is half of an earlier measurement: 4.1, when each function linked all clients.
func startGoal(t table) goal {
	return atMost("authorizer, first answer, of a function that does nothing", t.value("authorizer", "of nothing"), 2.05, 2)
}

// firstAnswer returns the median time of some starts, in milliseconds.
func firstAnswer(ctx context.Context, path, endpoint string) (figure, error) {
	var times []figure
	for range 9 {
		begun, output := time.Now(), new(bytes.Buffer)
		e, err := lambdaenv.Start(ctx, lambdaenv.Options{Bootstrap: path, Name: "bench", Output: output, Variables: []string{
			"STORE=dynamodb", "NAMESPACE=bench", "TABLE=bench", "RECORDS_TABLE=bench", "RULES_VERSION=1", "DYNAMODB_ENDPOINT=" + endpoint, "WEIR_LOCAL=true",
		}})
		if err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", path, err, output)
		}
		_, err = e.Invoke(ctx, must(events.Files.ReadFile("rest-authorizer-anonymous.json")))
		times = append(times, figure(time.Since(begun).Seconds()*1000))
		if err := errors.Join(err, e.Close()); err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", path, err, output)
		}
	}
	return median(times), nil
}

// answerAll answers every DynamoDB call with an empty result. A read finds no item, and a write
// succeeds.
func answerAll(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_, _ = io.WriteString(w, "{}")
}
