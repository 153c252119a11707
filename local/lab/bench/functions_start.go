package main

import (
	"archive/zip"
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
	"strings"
	"time"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// The names of two functions that `make bench` builds beside this program. They are the minimum for a
// function, and for a function that calls DynamoDB.
const (
	trivialRow = "a function that does nothing"
	oneReadRow = "a function that reads one item"
)

var startColumns = []column{{"first answer, ms", 1}, {"of nothing", 2}, {"MB zipped", 2}}

// startTable measures cold starts: from the start of a process to its first answer. ok is false if the
// functions are not built, or outside Linux.
func startTable(ctx context.Context, b *bench) (t table, ok bool, err error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	program, err := os.Executable()
	if err != nil {
		return table{}, false, err
	}
	names := []string{trivialRow, oneReadRow, "authorizer", "authorizer-redis", "authorizer-events"}
	paths := []string{filepath.Join(filepath.Dir(program), "trivial"), filepath.Join(filepath.Dir(program), "oneread")}
	for _, name := range names[2:] {
		paths = append(paths, filepath.Join("dist", arch, name, "bootstrap"))
	}
	sizes := make([]figure, len(paths))
	for i, path := range paths {
		if sizes[i], err = zippedSize(path); err != nil || runtime.GOOS != "linux" {
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
		return []figure{first, first / nothing, sizes[i]}, err
	})
	return table{
		Title: "Functions: from the start of a process to its first answer", Corner: "bundle", Columns: startColumns, Rows: rows,
		Omitted: []string{"of nothing"},
		Note:    "A server on this machine replaces DynamoDB. The bundle authorizer-redis has its counters in memory; all bundles read DynamoDB.",
	}, true, err
}

// startGoals are the goals of the bundles. The goal of the first answer is half of an earlier ratio. That
// ratio was 4.1, when each function linked all clients.
func startGoals(t table) []goal {
	return []goal{
		atMost("authorizer, first answer, of a function that does nothing", t.value("authorizer", "of nothing"), 2.05, 2).because(fmt.Sprintf(
			"A function that only reads one item of DynamoDB takes %s. Before its first answer, the authorizer makes five calls of DynamoDB one after another, on one connection. The rest is about equally the initialization of packages and these calls.", t.value(oneReadRow, "of nothing").text(2))),
		atMost("authorizer, MB zipped", t.value("authorizer", "MB zipped"), 4.2, 2),
		atMost("authorizer-redis, MB zipped", t.value("authorizer-redis", "MB zipped"), 4.2, 2).because(fmt.Sprintf(
			"go-redis adds %s MB. Its pipelines implement an interface with all commands of Redis, so the linker keeps all commands. A build without the only method that go-redis calls by name is 0.03 MB smaller.",
			(t.value("authorizer-redis", "MB zipped") - t.value("authorizer", "MB zipped")).text(2))),
	}
}

// zippedSize returns the size of a program in the zip file that Lambda receives, in MB.
func zippedSize(path string) (figure, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	w, err := z.Create("bootstrap")
	if err == nil {
		_, err = w.Write(content)
	}
	err = errors.Join(err, z.Close())
	return figure(file.Len()) / 1e6, err
}

// firstAnswer returns the median time from the start of a process to its first answer, in milliseconds.
func firstAnswer(ctx context.Context, path, endpoint string) (figure, error) {
	store := "dynamodb"
	if strings.HasSuffix(filepath.Dir(path), "-redis") {
		store = "memory" // the bundle does not link the store of DynamoDB
	}
	var times []figure
	for range 9 {
		begun, output := time.Now(), new(bytes.Buffer)
		e, err := lambdaenv.Start(ctx, lambdaenv.Options{Bootstrap: path, Name: "bench", Output: output, Variables: []string{
			"STORE=" + store, "NAMESPACE=bench", "TABLE=bench", "RECORDS_TABLE=bench", "RULES_VERSION=1", "DYNAMODB_ENDPOINT=" + endpoint, "WEIR_LOCAL=true",
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
