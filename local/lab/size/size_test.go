// Package size tests the size and the start time of the functions' bootstraps. It also tests that the
// builds are reproducible. `make size` prints the results of all functions.
package size

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// maxZipped returns the maximum size of the zip file that Lambda receives, in bytes. The pipelines of the
// Redis client implement an interface with all commands of Redis, so the linker keeps all commands.
func maxZipped(function string) int {
	switch {
	case function == contract.Extension: // links the server of net/http, too
		return 4_550_000
	case function == contract.Extension+"-redis":
		return 5_300_000
	case function == contract.Extension+"-events":
		return 7_100_000
	case strings.HasSuffix(function, "-events"):
		return 6_950_000
	case strings.HasSuffix(function, "-redis"):
		return 5_150_000
	}
	switch function {
	case contract.Handler, // also reads the paths and settles the receipts of a REST API
		contract.Forward: // has the clients of EventBridge and of the list of a distribution
		return 4_450_000
	}
	return 4_400_000
}

// starts is the number of starts of a function, of which the log shows the median.
const starts = 5

// arch is Lambda's name of this machine's architecture.
var arch = map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]

// build builds the handler with `make functions` in a copy of the source. It returns the folder with
// the result.
func build(t *testing.T, environment ...string) (dist string) {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"functions", "limiter"} {
		if err := os.CopyFS(filepath.Join(copied, name), os.DirFS(filepath.Join("../../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Makefile", "go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("../../..", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "make", "-C", copied, "dist/"+arch+"/handler/bootstrap", "ARCH="+arch)
	c.Env = append(append(os.Environ(), "MAKEFLAGS="), environment...) // ignores the flags of a make that runs the tests
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("make functions: got error %v, want none: %s", err, out)
	}
	return filepath.Join(copied, "dist")
}

// Builds of the same source in different folders and with different settings have the same bytes. All
// builds share one cache. The shared cache cannot hide a difference, because the key of a cached result
// contains each path and flag that changes the result.
func TestBuild(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(settings, []byte("GOFLAGS=-gcflags=-N\nGOAMD64=v2\nGOARM64=v8.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dist := build(t)
	bootstrap, err := os.ReadFile(filepath.Join(dist, arch, "handler", "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(bootstrap, []byte(filepath.Dir(dist))) {
		t.Error("bootstrap: got the path of the build in its bytes, want no path")
	}
	for name, environment := range map[string][]string{
		"another folder":   nil,
		"variables":        {"GOFLAGS=-tags=other", "GOAMD64=v3", "GOARM64=v8.2", "GOEXPERIMENT=jsonv2", "CGO_ENABLED=1", "GOFIPS140=latest"},
		"a file of go env": {"GOENV=" + settings},
	} {
		other, err := os.ReadFile(filepath.Join(build(t, environment...), arch, "handler", "bootstrap"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bootstrap, other) {
			t.Errorf("%s: got bytes that differ from the first build, want the same bytes", name)
		}
	}
	t.Run("size", func(t *testing.T) { measure(t, dist) })
}

// Each function that `make functions` built in dist is small enough and starts.
func TestFunctions(t *testing.T) {
	if found, _ := filepath.Glob("../../../dist/*/*/bootstrap"); len(found) == 0 {
		t.Skip("SKIPPED: dist is empty; make size builds the functions")
	}
	measure(t, "../../../dist")
}

// measure logs the size and the median start time of each bootstrap below dist. It starts only the
// bootstraps for this machine's architecture.
func measure(t *testing.T, dist string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dist, "*", "*", "bootstrap"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: got no bootstraps (error %v), want at least one", dist, err)
	}
	for _, path := range paths {
		function := filepath.Base(filepath.Dir(path))
		built := filepath.Base(filepath.Dir(filepath.Dir(path)))
		binary, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := zipped(t, binary)
		line := fmt.Sprintf("%-28s %6.2f MB  %5.2f MB zipped", built+"/"+function, float64(len(binary))/1e6, float64(n)/1e6)
		if n > maxZipped(function) {
			t.Errorf("%s/%s: got %d bytes zipped, want at most %d", built, function, n, maxZipped(function))
		}
		if runtime.GOOS == "linux" && built == arch {
			median, err := start(t, path, starts)
			if err != nil {
				t.Error(err)
			}
			line += fmt.Sprintf("  %.1f ms", median.Seconds()*1000)
		}
		t.Log(line)
	}
}

func zipped(t *testing.T, content []byte) int {
	t.Helper()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	w, err := z.Create("bootstrap")
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Len()
}

// start starts a bootstrap n times. It returns the median time until the bootstrap first requests an
// event. A local server replaces DynamoDB and answers at once. A start with output is an error,
// because a function writes output if it cannot reach its store.
func start(t *testing.T, path string, n int) (time.Duration, error) {
	t.Helper()
	dynamodb := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body) // read the body, because a client reuses a connection only after that
		answer := "{}"
		if bytes.Contains(request, []byte("subjectkey")) { // a function logs a warning if the table lacks this key
			answer = `{"Item":{"pk":{"S":"subjectkey"},"key":{"B":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}}}`
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, answer)
	}))
	defer dynamodb.Close()
	function, store := filepath.Base(filepath.Dir(path)), contract.StoreDynamoDB
	if strings.HasSuffix(function, "-redis") {
		store = "memory" // the bundle does not link the store of DynamoDB
	}
	variables := []string{
		"STORE=" + store, "NAMESPACE=size", "TABLE=size", "RECORDS_TABLE=size", "DYNAMODB_ENDPOINT=" + dynamodb.URL, "RULES_VERSION=1",
		"JWKS=https://issuer.example/keys", "JWT_ISSUER=https://issuer.example", "JWT_AUDIENCE=size",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_SESSION_TOKEN=local",
	}
	o := lambdaenv.Options{Bootstrap: path, Name: "size", Variables: variables}
	if strings.HasPrefix(function, contract.Extension) {
		o = layered(t, o)
	}
	var times []time.Duration
	for range n {
		var output bytes.Buffer
		o.Output = &output
		e, err := lambdaenv.Start(t.Context(), o)
		if err == nil {
			times = append(times, e.Init)
			err = e.Close()
		}
		if err == nil && output.Len() > 0 {
			err = errors.New("want no output at the start")
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", path, err, output.String())
		}
	}
	slices.Sort(times)
	return times[n/2], nil
}

// layered returns the options of a function whose extension is the bootstrap of o. The function itself is
// this program (see TestMain).
func layered(t *testing.T, o lambdaenv.Options) lambdaenv.Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	extension, err := filepath.Abs(o.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	variables := []string{contract.VariableWrapper + "=" + contract.LayerRoot + contract.LayerWrapper}
	for _, v := range o.Variables {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			variables = append(variables, v)
		} else {
			variables = append(variables, contract.LayerVariable(name)+"="+value)
		}
	}
	variables = append(variables, runtimeVariable+"=true")
	o.Extensions, o.Bootstrap, o.Variables = []string{extension}, program, variables
	return o
}

// runtimeVariable makes this program a runtime that requests one event from the extension.
const runtimeVariable = "SIZE_RUNTIME"

func TestMain(m *testing.M) {
	if os.Getenv(runtimeVariable) == "" {
		os.Exit(m.Run())
	}
	_, port, _ := strings.Cut(os.Getenv(contract.VariableRuntimeAPI), ":")
	_, err := http.Get("http://" + contract.LayerHost + ":" + port + "/2018-06-01/runtime/invocation/next") //nolint:noctx // the program ends here
	fmt.Fprintln(os.Stderr, "request for an event: got error", err)
	os.Exit(1)
}

// start returns an error with the output of a bootstrap that ends early or writes output.
func TestStart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: bootstraps are for Linux, and cannot be started here")
	}
	path := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"STORE: got $STORE\"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, path, 1); err == nil || !strings.Contains(err.Error(), "exit status 1\nSTORE: got dynamodb\n") {
		t.Errorf("error: got %v, want the exit status and the output of the bootstrap", err)
	}
}

// A function links only the clients that its deployment uses.
func TestLinks(t *testing.T) {
	const (
		redis       = "github.com/redis/go-redis/v9"
		kafka       = "github.com/twmb/franz-go/pkg/kgo"
		kinesis     = "github.com/aws/aws-sdk-go-v2/service/kinesis"
		eventbridge = "github.com/aws/aws-sdk-go-v2/service/eventbridge"
		keyvalues   = "github.com/aws/aws-sdk-go-v2/service/cloudfrontkeyvaluestore"
		config      = "github.com/aws/aws-sdk-go-v2/config"
		otel        = "go.opentelemetry.io/otel"
	)
	linked := map[string][]string{
		"authorizer": nil, "handler": nil, "forward": {eventbridge, keyvalues}, "signingkeys": nil, "publisher": {keyvalues}, "extension": nil,
		"authorizer-redis": {redis}, "handler-redis": {redis}, "forward-redis": {redis}, "extension-redis": {redis},
		"authorizer-events": {redis, kafka, kinesis}, "handler-events": {redis, kafka, kinesis}, "extension-events": {redis, kafka, kinesis},
	}
	arguments := []string{"-C", "../../..", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "-tags", "lambda.norpc,nethttpomithttp2"}
	for function := range linked {
		arguments = append(arguments, "./functions/"+function)
	}
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(out), "\n"); got != len(linked) {
		t.Fatalf("go list: got %d lines, want one for each of %d functions", got, len(linked))
	}
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		function := path.Base(packages[0])
		for _, name := range []string{redis, kafka, kinesis, eventbridge, keyvalues, config, otel} {
			if got, want := slices.Contains(packages, name), slices.Contains(linked[function], name); got != want {
				t.Errorf("%s links %s: got %t, want %t", function, name, got, want)
			}
		}
	}
}
