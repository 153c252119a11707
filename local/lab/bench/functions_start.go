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

var startColumns = []column{{"first answer, ms", 1}, {"MB zipped", 2}}

// startTable measures cold starts: from the start of a process to its first answer. ok is false if the
// functions are not built, or outside Linux.
func startTable(ctx context.Context, b *bench) (t table, ok bool, err error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	program, err := os.Executable()
	if err != nil {
		return table{}, false, err
	}
	// `make bench` builds the first two beside this program. They are the minimum for a function, and for a function
	// that calls DynamoDB.
	names := []string{"a function that does nothing", "a function that reads one item", "authorizer", "authorizer-redis", "authorizer-events"}
	paths := []string{filepath.Join(filepath.Dir(program), "trivial"), filepath.Join(filepath.Dir(program), "oneread")}
	for _, name := range names[2:] {
		paths = append(paths, filepath.Join("dist", arch, name, "bootstrap"))
	}
	dynamodb := httptest.NewServer(http.HandlerFunc(answerAll))
	defer dynamodb.Close()
	var contenders []contender
	for i, path := range paths {
		size, err := zippedSize(path)
		if err != nil || runtime.GOOS != "linux" {
			b.say("SKIPPED: starts of functions need Linux and %s; `make bench` builds it", path)
			return table{}, false, nil
		}
		contenders = append(contenders, contender{names[i], func() ([]figure, error) {
			first, err := firstAnswer(ctx, path, dynamodb.URL)
			return []figure{first, size}, err
		}})
	}
	rows, err := b.interleave(ctx, contenders)
	return table{
		Title: "Functions: from the start of a process to its first answer", Corner: "bundle", Columns: startColumns, Rows: rows,
		Note: "A server on this machine replaces DynamoDB. The bundle authorizer-redis has its counters in memory; all bundles read DynamoDB.",
	}, true, err
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
			return 0, fmt.Errorf("%w\n%s", err, output)
		}
		_, err = e.Invoke(ctx, must(events.Files.ReadFile("rest-authorizer-anonymous.json")))
		times = append(times, figure(time.Since(begun).Seconds()*1000))
		if err := errors.Join(err, e.Close()); err != nil {
			return 0, fmt.Errorf("%w\n%s", err, output)
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
