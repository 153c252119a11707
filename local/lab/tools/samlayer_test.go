package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/lab/testservers"
	"github.com/weir-limits/weir/local/servers"
)

// layered is an API with the layer.
type layered struct {
	runtime string // such as nodejs22.x
	code    string // folder
	image   testservers.Runtime
}

const dailyRequests = 20

// The SAM CLI runs the examples in Express and Flask, with the layer, in containers with the real runtime
// interface clients. Each API admits 20 requests a day and adds the fields of the decision. The next
// request gets the 429 of Weir, and the function does not run.
func TestSAM_layer(t *testing.T) {
	dynamo, docker := storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), storetest.Server(t, "docker", "DOCKER_HOST")
	tools, clients := storetest.Server(t, "tools", "WEIR_TOOLS"), storetest.Server(t, "clients", "WEIR_CLIENTS")
	if _, err := checkout.MakeTable(t.Context(), dynamo, checkout.Table); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]layered{"express": expressAPI(t, clients), "flask": flaskAPI(t, tools)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cli, err := testservers.NewSAM(t.Context(), tools, docker, dir, io.Discard)
			if err == nil {
				err = cli.UseRuntime(t.Context(), apiID, f.image)
			}
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "template.json")
			writeJSON(t, path, layeredTemplate(t, dynamo, layerFolder(t, dir), f))
			server, err := cli.StartAPI(t.Context(), path, commandtest.FreePorts(t), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			checkDaily(t, server.URL+"/orders")
		})
	}
}

// checkDaily sends one request more than the daily limit. The API numbers the orders, so the test sees that
// the function runs once for each admitted request.
func checkDaily(t *testing.T, url string) {
	t.Helper()
	order := func() commandtest.Reply {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"item": "tea"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		return commandtest.Do(t, request)
	}
	for i := range dailyRequests {
		r := order()
		var made struct{ ID int }
		if err := json.Unmarshal([]byte(r.Text), &made); err != nil || r.StatusCode != http.StatusCreated || made.ID != i+1 ||
			r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(dailyRequests-1-i) || r.Header.Get("RateLimit-Policy") != `"daily";q=20;w=86400` {
			t.Fatalf("request %d: got %s %v %s (%v), want 201 of the API with the fields of the decision", i+1, r.Status, r.Header, r.Text, err)
		}
	}
	r := order()
	var problem httplimit.Problem
	if err := json.Unmarshal([]byte(r.Text), &problem); err != nil || r.StatusCode != http.StatusTooManyRequests ||
		problem.Error != "rate_limit_exceeded" ||
		r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") == "" ||
		r.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("request %d: got %s %v %s (%v), want the 429 of Weir", dailyRequests+1, r.Status, r.Header, r.Text, err)
	}
}

// layerFolder writes the files of the layer.
func layerFolder(t *testing.T, dir string) string {
	t.Helper()
	layer := filepath.Join(dir, "layer")
	program, err := os.ReadFile(filepath.Join("../../../dist", checkout.HostArch(), contract.Extension, "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	rules := fmt.Sprintf(`{"version": 1, "rules": [{"endpoint": "/orders", "limits": {"*": {"name": "daily", "requests": %d, "window": `+
		`"24h"}}}]}`, dailyRequests)
	for name, content := range map[string][]byte{
		contract.LayerExtension: program, contract.LayerWrapper: []byte(contract.LayerScript()), contract.LayerRules: []byte(rules),
		subjectKeyFile: []byte(strings.Repeat("0123456789abcdef", 2)),
	} {
		path := filepath.Join(layer, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return layer
}

const apiID = "Api" // logical id of the function in layeredTemplate

// layeredTemplate returns a SAM template with a function behind an HTTP API.
func layeredTemplate(t *testing.T, dynamo, layer string, f layered) map[string]any {
	t.Helper()
	inside, err := testservers.FromContainer(dynamo)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{contract.VariableWrapper: contract.LayerRoot + contract.LayerWrapper}
	for name, value := range map[string]string{
		"NAMESPACE": checkouttest.Namespace(), "STORE": contract.StoreDynamoDB, "TABLE": checkout.Table, "DYNAMODB_ENDPOINT": inside,
		contract.VariableLocal: "true",
		"RULES_FILE":           contract.LayerRoot + contract.LayerRules, "SUBJECT_KEY_FILE": contract.LayerRoot + subjectKeyFile,
		"STORE_TIMEOUT": "900ms", // the machine may be busy
	} {
		variables[contract.LayerVariable(name)] = value
	}
	architectures := []string{checkout.HostArch()}
	return map[string]any{"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31", "Resources": map[string]any{
		"Layer": map[string]any{"Type": "AWS::Serverless::LayerVersion", "Properties": map[string]any{"ContentUri": layer,
			"CompatibleArchitectures": architectures}},
		apiID: map[string]any{"Type": "AWS::Serverless::Function", "Properties": map[string]any{
			"Runtime": f.runtime, "Handler": "app.handler", "CodeUri": f.code, "Architectures": architectures, "Timeout": 30,
			"Layers": []any{map[string]string{"Ref": "Layer"}}, "Environment": map[string]any{"Variables": variables},
			"Events": map[string]any{"Any": map[string]string{"Type": "HttpApi"}},
		}},
	}}
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	content, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expressAPI returns the example in Express. Its runtime is in the folder clients.
func expressAPI(t *testing.T, clients string) layered {
	t.Helper()
	code, err := filepath.Abs("../../../infra/examples/express")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(code, "node_modules")); err != nil {
		storetest.Unfetched(t, "node", "make -C local/lab modules", err)
	}
	node := servers.NodeRuntimeIn(clients)
	return layered{runtime: "nodejs22.x", code: code, image: testservers.Runtime{Image: "nodejs:22", Command: []string{node.Node, node.Client},
		Files: node.Files}}
}

// pythonPaths prints the Python of the tools and the files of its library, of the runtime interface client, and
// of the packages of the example in Flask.
const pythonPaths = `
import importlib.util, json, os, sys, sysconfig
def path(module):
    origin = importlib.util.find_spec(module).origin
    return os.path.dirname(origin) if origin.endswith("__init__.py") else origin
client = [path(m) for m in ("awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py")]
print(json.dumps({
    "program": os.path.realpath(sys.executable), "version": "%d.%d" % sys.version_info[:2], "packages": os.path.dirname(client[0]),
    "files": [sysconfig.get_path("stdlib"), *client],
    "flask": [path(m) for m in ("flask", "apig_wsgi", "blinker", "click", "itsdangerous", "jinja2", "markupsafe", "werkzeug")],
}))`

// flaskAPI returns the example in Flask with its packages. The folder tools has them and the runtime.
func flaskAPI(t *testing.T, tools string) layered {
	t.Helper()
	var python struct {
		Program, Version, Packages string
		Files, Flask               []string
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(tools, "python"), "-c", pythonPaths).Output()
	if err == nil {
		err = json.Unmarshal(out, &python)
	}
	if err != nil {
		t.Fatal(err)
	}
	code := t.TempDir()
	err = os.CopyFS(code, os.DirFS("../../../infra/examples/flask"))
	for _, path := range python.Flask {
		err = errors.Join(err, os.CopyFS(filepath.Join(code, filepath.Base(path)), os.DirFS(path)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return layered{runtime: "python" + python.Version, code: code, image: testservers.Runtime{
		Image: "python:" + python.Version, Command: []string{python.Program, "-m", "awslambdaric"}, Files: python.Files,
		Environment: []string{"PYTHONPATH=" + python.Packages},
	}}
}
