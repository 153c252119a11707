package main

import (
	"bytes"
	"encoding/json"
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
	"github.com/weir-limits/weir/local/servers"
)

// layered is a function with the layer.
type layered struct {
	name, path, runtime, handler string
	code                         string // folder
	image                        servers.Runtime
}

const dailyRequests = 20

// The SAM CLI runs functions in Node.js and Python with the layer, in containers with the real runtime interface
// clients. Of each function, 20 requests a day pass with the fields of the decision. The next one gets the 429 of
// Weir, and the function does not run.
func TestSAM_layer(t *testing.T) {
	dynamo, docker, tools := storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), storetest.Server(t, "docker", "DOCKER_HOST"), storetest.Server(t, "tools", "WEIR_TOOLS")
	functions := []layered{nodeFunction(t, storetest.Server(t, "clients", "WEIR_CLIENTS")), pythonFunction(t, tools)}
	dir := t.TempDir()
	var log bytes.Buffer
	cli, err := servers.NewSAM(t.Context(), tools, docker, dir, &log)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range functions {
		if err := cli.UseRuntime(t.Context(), f.name, f.image); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "template.json")
	writeJSON(t, path, layeredTemplate(t, dynamo, layerFolder(t, dir, functions), functions))
	if _, err := checkout.MakeTable(t.Context(), dynamo, checkout.Table); err != nil {
		t.Fatal(err)
	}
	server, err := cli.StartAPI(t.Context(), path, commandtest.FreePorts(t), io.MultiWriter(&log, t.Output()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) { checkDaily(t, server.URL+f.path+"/orders", f.name) })
	}
}

// checkDaily sends one request more than the limit of a day.
func checkDaily(t *testing.T, url, name string) {
	t.Helper()
	for i := range dailyRequests {
		r := commandtest.Send(t, http.MethodGet, url, "")
		if r.StatusCode != http.StatusOK || !strings.Contains(r.Text, name) || r.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(dailyRequests-1-i) || r.Header.Get("RateLimit-Policy") != `"daily";q=20;w=86400` {
			t.Fatalf("request %d: got %s %v %s, want 200 of the function with the fields of the decision", i+1, r.Status, r.Header, r.Text)
		}
	}
	r := commandtest.Send(t, http.MethodGet, url, "")
	var problem httplimit.Problem
	if err := json.Unmarshal([]byte(r.Text), &problem); err != nil || r.StatusCode != http.StatusTooManyRequests || problem.Error != "rate_limit_exceeded" ||
		r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") == "" || r.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("request %d: got %s %v %s (%v), want the 429 of Weir", dailyRequests+1, r.Status, r.Header, r.Text, err)
	}
}

// layerFolder writes the files of the layer, with a limit for each function.
func layerFolder(t *testing.T, dir string, functions []layered) string {
	t.Helper()
	layer := filepath.Join(dir, "layer")
	program, err := os.ReadFile(filepath.Join("../../dist", servers.Architecture(), contract.Extension, "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	var limits []map[string]any
	for _, f := range functions {
		limits = append(limits, map[string]any{"endpoint": f.path + "/*", "limits": map[string]any{"*": map[string]any{"name": "daily", "requests": dailyRequests, "window": "24h"}}})
	}
	rules, err := json.Marshal(map[string]any{"version": 1, "rules": limits})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		contract.LayerExtension: program, contract.LayerWrapper: []byte(contract.LayerScript()), contract.LayerRules: rules,
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

// layeredTemplate returns a SAM template with the functions behind an HTTP API.
func layeredTemplate(t *testing.T, dynamo, layer string, functions []layered) map[string]any {
	t.Helper()
	inside, err := servers.FromContainer(dynamo)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{contract.VariableWrapper: contract.LayerRoot + contract.LayerWrapper}
	for name, value := range map[string]string{
		"NAMESPACE": checkouttest.Namespace(), "STORE": contract.StoreDynamoDB, "TABLE": checkout.Table, "DYNAMODB_ENDPOINT": inside, contract.VariableLocal: "true",
		"RULES_FILE": contract.LayerRoot + contract.LayerRules, "SUBJECT_KEY_FILE": contract.LayerRoot + subjectKeyFile,
		"STORE_TIMEOUT": "900ms", // the machine may be busy
	} {
		variables[contract.LayerVariable(name)] = value
	}
	resources := map[string]any{"Layer": map[string]any{
		"Type": "AWS::Serverless::LayerVersion", "Properties": map[string]any{"ContentUri": layer, "CompatibleArchitectures": []string{servers.Architecture()}},
	}}
	for _, f := range functions {
		resources[f.name] = map[string]any{"Type": "AWS::Serverless::Function", "Properties": map[string]any{
			"Runtime": f.runtime, "Handler": f.handler, "CodeUri": f.code, "Architectures": []string{servers.Architecture()}, "Timeout": 30,
			"Layers": []any{map[string]string{"Ref": "Layer"}}, "Environment": map[string]any{"Variables": variables},
			"Events": map[string]any{"Any": map[string]any{"Type": "HttpApi", "Properties": map[string]string{"Path": f.path + "/{proxy+}", "Method": "ANY"}}},
		}}
	}
	return map[string]any{"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31", "Resources": resources}
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

func nodeFunction(t *testing.T, clients string) layered {
	t.Helper()
	code := t.TempDir()
	if err := os.WriteFile(filepath.Join(code, "index.js"), []byte(`exports.handler = async () => ({ statusCode: 200, body: "Node" });`), 0o600); err != nil {
		t.Fatal(err)
	}
	node := servers.NodeRuntimeIn(clients)
	return layered{name: "Node", path: "/node", runtime: "nodejs22.x", handler: "index.handler", code: code, image: servers.Runtime{
		Image: "nodejs:22", Command: []string{node.Node, node.Client}, Files: node.Files,
	}}
}

func pythonFunction(t *testing.T, tools string) layered {
	t.Helper()
	code := t.TempDir()
	if err := os.WriteFile(filepath.Join(code, "app.py"), []byte("def handler(event, context):\n    return {\"statusCode\": 200, \"body\": \"Python\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(tools, "python"), "-c", `
import awslambdaric, json, os, runtime_client, simplejson, snapshot_restore_py, sys, sysconfig
packages = os.path.dirname(os.path.dirname(awslambdaric.__file__))
print(json.dumps({
    "program": os.path.realpath(sys.executable), "packages": packages, "version": "%d.%d" % sys.version_info[:2],
    "files": sorted({sysconfig.get_path("stdlib"), os.path.dirname(awslambdaric.__file__), runtime_client.__file__, os.path.dirname(simplejson.__file__), snapshot_restore_py.__file__}),
}))`).Output()
	var python struct {
		Program, Packages, Version string
		Files                      []string
	}
	if err == nil {
		err = json.Unmarshal(out, &python)
	}
	if err != nil {
		t.Fatal(err)
	}
	return layered{name: "Python", path: "/python", runtime: "python" + python.Version, handler: "app.handler", code: code, image: servers.Runtime{
		Image: "python:" + python.Version, Command: []string{python.Program, "-m", "awslambdaric"}, Files: python.Files, Environment: []string{"PYTHONPATH=" + python.Packages},
	}}
}
