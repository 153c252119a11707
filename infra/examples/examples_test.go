package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/weir-limits/weir/limiter/storetest"
)

// released is the template that the examples deploy.
const released = "../standalone/weir.template.json"

// template is a CloudFormation template.
type template struct {
	Parameters map[string]any
	Resources  map[string]map[string]any
	Outputs    map[string]any
}

func read(t *testing.T, path string) (made template) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// run runs a program and fails the test with its output if the program fails.
func run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, bytes.TrimSpace(out))
	}
}

// checkSynthesized synthesizes an app, and compares its resources with those of the released template.
func checkSynthesized(t *testing.T, app *exec.Cmd) {
	t.Helper()
	path, err := filepath.Abs(released)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	app.Env = append(app.Environ(), "WEIR_TEMPLATE="+path, "CDK_OUTDIR="+out)
	run(t, app)
	got, want := read(t, filepath.Join(out, "Orders.template.json")), read(t, released)
	api := node{"Ref": apiOf(t, got)}
	given := node{"Namespace": "orders", "CodePrefix": "weir/v1.0.0/", "CodeBucket": node{"Ref": "ReleaseBucket"}, "RestApiId": api}
	for id, resource := range want.Resources {
		resource = replaced(resource, given).(node)
		found := got.Resources[id]
		delete(resource, "DependsOn") // the CDK writes one dependency as text, and several as a list
		delete(found, "DependsOn")
		if !reflect.DeepEqual(found, resource) {
			t.Errorf("%s: got %v, want %v", id, found, resource)
		}
	}
	limited := false
	for _, r := range got.Resources {
		properties, _ := r["Properties"].(node)
		limited = limited || r["Type"] == "AWS::ApiGateway::Method" && reflect.DeepEqual(properties["AuthorizerId"], node{"Ref": "Authorizer"}) && properties["AuthorizationType"] == "CUSTOM"
	}
	if !limited {
		t.Error("got no method with the authorizer, want one")
	}
}

type node = map[string]any

// apiOf returns the id of the REST API of an example.
func apiOf(t *testing.T, made template) string {
	t.Helper()
	for id, r := range made.Resources {
		if r["Type"] == "AWS::ApiGateway::RestApi" {
			return id
		}
	}
	t.Fatal("got no REST API")
	return ""
}

// replaced returns v with the values of parameters.
func replaced(v any, given node) any {
	switch v := v.(type) {
	case node:
		if name, ok := v["Ref"].(string); ok && given[name] != nil {
			return given[name]
		}
		made := node{}
		for k, each := range v {
			made[k] = replaced(each, given)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = replaced(v[i], given)
		}
		return made
	}
	return v
}

// checkNames checks that the released template has the parameters and the output that an example uses.
func checkNames(t *testing.T, parameters []string) {
	t.Helper()
	made := read(t, released)
	for _, name := range parameters {
		if made.Parameters[name] == nil {
			t.Errorf("got the parameter %s, want one of %v", name, slices.Sorted(maps.Keys(made.Parameters)))
		}
	}
	for _, name := range []string{"CodeBucket", "RestApiId"} {
		if !slices.Contains(parameters, name) {
			t.Errorf("got the parameters %v, want %s too", parameters, name)
		}
	}
	if made.Outputs["AuthorizerId"] == nil {
		t.Error("got no output AuthorizerId, want one")
	}
}

func TestExamples_typescript(t *testing.T) {
	storetest.Program(t, "node")
	if _, err := os.Stat("typescript/node_modules/aws-cdk-lib"); errors.Is(err, fs.ErrNotExist) {
		storetest.Unfetched(t, "node", "make test-examples", err)
	}
	compiled := filepath.Join("typescript", "app.js")
	t.Cleanup(func() { _ = os.Remove(compiled) })
	build := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc")
	build.Dir = "typescript"
	run(t, build)
	checkSynthesized(t, exec.CommandContext(t.Context(), "node", compiled))
}

func TestExamples_python(t *testing.T) {
	tools := storetest.Server(t, "tools", "WEIR_TOOLS")
	checkSynthesized(t, exec.CommandContext(t.Context(), filepath.Join(tools, "python"), "python/app.py"))
}

func TestExamples_sam(t *testing.T) {
	tools := storetest.Server(t, "tools", "WEIR_TOOLS")
	run(t, exec.CommandContext(t.Context(), filepath.Join(tools, "cfn-lint"), "sam/template.yaml"))
	// cfn-lint reads the short forms of YAML, such as !Ref.
	out, err := exec.CommandContext(t.Context(), filepath.Join(tools, "python"), "-c", `import json, cfnlint.decode; print(json.dumps(cfnlint.decode.decode("sam/template.yaml")[0]))`).Output()
	if err != nil {
		t.Fatal(err)
	}
	var made template
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatal(err)
	}
	limits, properties := made.Resources["Limits"], func(id string) node { n, _ := made.Resources[id]["Properties"].(node); return n }
	if limits["Type"] != "AWS::Serverless::Application" || properties("Limits")["Location"] != filepath.Base(released) {
		t.Errorf("got %v, want a nested application with the released template", limits)
	}
	if method := properties("Get"); method["AuthorizationType"] != "CUSTOM" || !reflect.DeepEqual(method["AuthorizerId"], node{"Fn::GetAtt": []any{"Limits", "Outputs.AuthorizerId"}}) {
		t.Errorf("got the method %v, want the authorizer of the limits", method)
	}
	parameters, _ := properties("Limits")["Parameters"].(node)
	checkNames(t, slices.Collect(maps.Keys(parameters)))
}

func TestExamples_terraform(t *testing.T) {
	file, problems := hclparse.NewParser().ParseHCLFile("terraform/main.tf")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	resources := map[string]hclsyntax.Attributes{}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		if block.Type == "resource" {
			resources[block.Labels[0]] = block.Body.Attributes
		}
	}
	parameters, problems := hcl.ExprMap(resources["aws_cloudformation_stack"]["parameters"].Expr)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	var names []string
	for _, p := range parameters {
		names = append(names, hcl.ExprAsKeyword(p.Key))
	}
	checkNames(t, names)
	for _, v := range resources["aws_api_gateway_method"]["authorizer_id"].Expr.Variables() {
		if v.RootName() != "aws_cloudformation_stack" {
			t.Errorf("got the authorizer of %s, want that of the limits", v.RootName())
		}
	}
	if resources["aws_cloudformation_stack"]["template_url"] == nil || resources["aws_cloudformation_stack"]["template_body"] != nil {
		t.Error("got no template_url, want one, because the template is too long for template_body")
	}
}
