package lambdaenv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// guard is an extension that is a proxy of the Runtime API, like that of Datadog. It listens at GUARD, and its
// wrapper script gives this address to the runtime. With GUARD_FILE, its script writes the address before into
// this file, and the proxy sends the requests there. Otherwise it sends them to Lambda.
func guard() {
	listener, err := net.Listen("tcp", os.Getenv("GUARD")) //nolint:noctx // a test
	if err != nil {
		panic(err)
	}
	id := register("guard", `{"events":[]}`)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", os.Getenv("AWS_LAMBDA_RUNTIME_API")
		if before, err := os.ReadFile(os.Getenv("GUARD_FILE")); err == nil {
			r.Out.URL.Host = strings.TrimSpace(string(before))
		}
		fmt.Println("guard:", r.In.Method, r.In.URL.Path)
	}}
	go func() { panic(http.Serve(listener, proxy)) }() //nolint:gosec // a test
	r := callExtension("GET", "event/next", "", "Lambda-Extension-Identifier", id)
	_, _ = io.ReadAll(r.Body)
}

const guardScript = `#!/bin/sh
[ -z "$GUARD_FILE" ] || echo "$AWS_LAMBDA_RUNTIME_API" >"$GUARD_FILE"
AWS_LAMBDA_RUNTIME_API=$GUARD exec "$@"
`

// buildExtension builds the extension of the layer in .bin, where the go command keeps an earlier build of the same source.
// It returns the path.
func buildExtension(t *testing.T) string {
	t.Helper()
	path := filepath.Join(checkouttest.Find(t).Path(".bin", "test"), contract.LayerExtension)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "../../functions/extension").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// twoProxies starts a function with the layer and the guard. The wrapper scripts run in the given order.
func twoProxies(ctx context.Context, t *testing.T, o *output, extension string, order []string, variables ...string) (*lambdaenv.Environment, error) {
	t.Helper()
	folder := t.TempDir()
	var err error
	for name, text := range map[string]string{
		"weir.sh": contract.LayerScript(), "guard.sh": guardScript,
		contract.LayerRules: `{"rules":[{"endpoint":"*","limits":{"global":{"name":"few","requests":2,"window":"24h","per":["ip"]}}}]}`,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	options := lambdaenv.Options{
		Bootstrap: filepath.Join(folder, order[0]), Arguments: []string{filepath.Join(folder, order[1]), storetest.Must(os.Executable())},
		Extensions: []string{extension, link(t, "guard")}, Name: "proxied", Output: o,
		Variables: append(variables, "WEIR_TEST_FUNCTION=ok", "GUARD=127.0.0.1:"+strconv.Itoa(commandtest.FreePorts(t)), contract.VariableWrapper+"=/opt/both",
			"WEIR_STORE=memory", "WEIR_NAMESPACE=test", "WEIR_RULES_FILE="+filepath.Join(folder, contract.LayerRules), "WEIR_RULES_VERSION=1"),
	}
	e, err := lambdaenv.Start(ctx, options)
	if err == nil {
		t.Cleanup(func() { _ = e.Close() })
	}
	return e, err
}

// sendThree sends three requests. It returns the number of those that Weir has admitted and refused.
func sendThree(t *testing.T, e *lambdaenv.Environment) (admitted, refused int) {
	t.Helper()
	for range 3 {
		answer, err := e.Invoke(t.Context(), storetest.Must(events.Files.ReadFile("http-api-anonymous.json")))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(answer), `"statusCode":429`) {
			refused++
		} else if strings.Contains(string(answer), "RateLimit") {
			admitted++
		}
	}
	return admitted, refused
}

// The layer limits behind and before another proxy of the Runtime API, if the proxies can form a chain. The other
// proxy sees all events. If it takes the place of the layer, the init does not end, and the log has the reason.
func TestStart_proxies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments are frozen only on Linux")
	}
	extension, file := buildExtension(t), "GUARD_FILE="+filepath.Join(t.TempDir(), "address")
	first, last := []string{"guard.sh", "weir.sh"}, []string{"weir.sh", "guard.sh"}
	for name, c := range map[string]struct {
		order     []string
		variables []string
		decisions int
	}{
		"first":               {first, nil, 3},
		"first, in a chain":   {first, []string{file}, 3},
		"last, in a chain":    {last, []string{file}, 3},
		"last, with a bypass": {last, []string{"WEIR_ALLOW_BYPASS=true"}, 0},
	} {
		var o output
		e, err := twoProxies(t.Context(), t, &o, extension, c.order, c.variables...)
		if err != nil {
			t.Errorf("%s: got error %v, want none\n%s", name, err, &o)
			continue
		}
		if admitted, refused := sendThree(t, e); admitted != c.decisions*2/3 || refused != c.decisions/3 || !strings.Contains(o.String(), "guard: GET") {
			t.Errorf("%s: got %d admitted and %d refused requests, want %d decisions, and requests to the guard\n%s", name, admitted, refused, c.decisions, &o)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := output{written: func(text string) {
		if strings.Contains(text, "it uses another proxy of the Runtime API") {
			cancel()
		}
	}}
	if e, err := twoProxies(ctx, t, &o, extension, last); err == nil {
		admitted, refused := sendThree(t, e)
		t.Errorf("last: got no error, and %d admitted and %d refused requests of 3, want an init that does not end\n%s", admitted, refused, &o)
	} else if ctx.Err() == nil {
		t.Errorf("last: got error %v, want a line about the other proxy\n%s", err, &o)
	}
}

// On Lambda Managed Instances, the layer adds the fields to the answers of events that run at once. Only the
// function gets the number of events, so the layer uses the kind of the init.
func TestStart_concurrentLayer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments are frozen only on Linux")
	}
	folder := t.TempDir()
	wrapper, rules := filepath.Join(folder, contract.LayerWrapper), filepath.Join(folder, contract.LayerRules)
	err := errors.Join(os.WriteFile(wrapper, []byte(contract.LayerScript()), 0o700),
		os.WriteFile(rules, []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"many","requests":1000,"window":"24h","per":["ip"]}}}]}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var o output
	e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{
		Bootstrap: wrapper, Arguments: []string{storetest.Must(os.Executable())}, Extensions: []string{buildExtension(t)}, Name: "meet", Output: &o, Concurrency: pollers,
		Variables: []string{"WEIR_TEST_FUNCTION=meet", contract.VariableWrapper + "=" + wrapper, "WEIR_STORE=memory", "WEIR_NAMESPACE=test", "WEIR_RULES_FILE=" + rules, "WEIR_RULES_VERSION=1"},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &o)
	}
	t.Cleanup(func() { _ = e.Close() })
	event := bytes.Replace(storetest.Must(events.Files.ReadFile("http-api-anonymous.json")), []byte("{"), []byte(`{"statusCode":200,`), 1) // the function answers with its event
	var wg sync.WaitGroup
	for range pollers {
		wg.Go(func() {
			if answer, err := e.Invoke(t.Context(), event); err != nil || !bytes.Contains(answer, []byte("RateLimit")) {
				t.Errorf("answer: got %s, %v, want the fields of the decision", answer, err)
			}
		})
	}
	wg.Wait()
}
