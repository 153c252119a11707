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
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/weir-limits/weir/limiter/storetest"
)

// folder has the examples, and released is the template that they deploy.
const (
	folder   = "../../../infra/examples/"
	released = "../../../infra/standalone/weir.template.json"
)

type template struct {
	Parameters, Conditions, Rules, Outputs map[string]any

	Resources map[string]map[string]any
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

func run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, bytes.TrimSpace(out))
	}
}

// checkSynthesized synthesizes an app and checks that its nested stack is the released template
// without changes.
func checkSynthesized(t *testing.T, app *exec.Cmd) {
	t.Helper()
	path, err := filepath.Abs(released)
	if err != nil {
		t.Fatal(err)
	}
	checkMissing(t, app)
	out := t.TempDir()
	app.Env = append(app.Environ(), "WEIR_TEMPLATE="+path, "CDK_OUTDIR="+out)
	run(t, app)
	templates, err := filepath.Glob(filepath.Join(out, "*.template.json"))
	if err != nil || len(templates) != 2 {
		t.Fatalf("got the templates %q (%v), want that of the API and that of the limits", templates, err)
	}
	// CloudFormation finds some mistakes only during the deployment, such as a condition that
	// refers to a resource. cfn-lint finds them here.
	run(t, exec.CommandContext(t.Context(), filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "cfn-lint"),
		append([]string{"--non-zero-exit-code", "error"}, templates...)...))
	got, limits, want := read(t, templates[0]), read(t, templates[1]), read(t, released)
	if !reflect.DeepEqual(normal(limits.Resources), normal(want.Resources)) || !reflect.DeepEqual(limits.Conditions, want.Conditions) ||
		!reflect.DeepEqual(limits.Rules, want.Rules) {
		t.Error("the template of the limits: got other resources, conditions or rules, want those of the release")
	}
	checkDeployment(t, got, limits)
}

// checkMissing checks that an app without the template says in one line where it comes from.
func checkMissing(t *testing.T, app *exec.Cmd) {
	t.Helper()
	bare := exec.CommandContext(t.Context(), app.Path, app.Args[1:]...) //nolint:gosec // the test made the command
	bare.Env = append(bare.Environ(), "WEIR_TEMPLATE=none.json")
	out, err := bare.CombinedOutput()
	// jsii first warns of old versions of Node.js
	if want := "none.json: not found; copy weir.template.json of the release into this folder\n"; err == nil || !strings.HasSuffix(string(out),
		want) {
		t.Errorf("without the template: got error %v and %q, want an error and the last line %q", err, out, want)
	}
}

// normal sorts DependsOn and makes it a list: the CDK writes one dependency as text and several as
// a list.
func normal(resources map[string]node) map[string]node {
	made := map[string]node{}
	for id, r := range resources {
		r = maps.Clone(r)
		delete(r, "DependsOn")
		made[id] = r
	}
	return made
}

type node = map[string]any

// checkDeployment checks an example's API: a nested stack with the limits, a limited method that
// answers 200, a function with the layer, and a deployment that follows the limits and the method.
func checkDeployment(t *testing.T, got, nested template) {
	t.Helper()
	of := func(resourceType string) (id string, properties node) {
		for id, r := range got.Resources {
			if r["Type"] == resourceType {
				properties, _ := r["Properties"].(node)
				return id, properties
			}
		}
		t.Fatalf("got no %s, want one", resourceType)
		return "", nil
	}
	limits, stack := of("AWS::CloudFormation::Stack")
	api, _ := of("AWS::ApiGateway::RestApi")
	wantParameters := node{"Namespace": "orders", "CodePrefix": "weir/v1.0.0/", "CodeBucket": node{"Ref": "ReleaseBucket"},
		"RestApiId": node{"Ref": api}}
	if !reflect.DeepEqual(stack["Parameters"], wantParameters) {
		t.Errorf("got the parameters %v, want %v", stack["Parameters"], wantParameters)
	}
	methodID, method := of("AWS::ApiGateway::Method")
	id, _ := method["AuthorizerId"].(node)
	from, _ := id["Fn::GetAtt"].([]any)
	if method["AuthorizationType"] != "CUSTOM" || len(from) == 0 || from[0] != limits {
		t.Errorf("got the method %v, want the authorizer of the limits", method)
	}
	checkAnswers(t, method)
	_, function := of("AWS::Lambda::Function")
	role, _ := got.Resources[function["Role"].(node)["Fn::GetAtt"].([]any)[0].(string)]["Properties"].(node)
	policies, _ := role["ManagedPolicyArns"].([]any)
	checkLayered(t, function, policies, func(name string) any {
		value := nested.Outputs[name].(node)["Value"].(node)
		joined, ok := value["Fn::Join"].([]any)
		if !ok {
			return node{"Fn::GetAtt": []any{limits, "Outputs." + generated(t, nested, name, value)}}
		}
		parts := joined[1].([]any) // the name of the table crosses the stacks, without its scheme
		return node{"Fn::Join": []any{"", []any{parts[0], node{"Fn::GetAtt": []any{limits, "Outputs." + generated(t, nested, name, parts[1])}}}}}
	})
	deployment, _ := of("AWS::ApiGateway::Deployment")
	if after, _ := got.Resources[deployment]["DependsOn"].([]any); !slices.Contains(after, any(limits)) ||
		!slices.Contains(after, any(methodID)) {
		t.Errorf("got a deployment after %v, want one after %s and %s", after, limits, methodID)
	}
}

// generated returns the CDK's name for another output of the nested stack with a value of the output name.
func generated(t *testing.T, nested template, name string, value any) string {
	t.Helper()
	for each, output := range nested.Outputs {
		if n, _ := output.(node); each != name && reflect.DeepEqual(n["Value"], value) {
			return each
		}
	}
	t.Fatalf("got no output with the value of %s, want one", name)
	return ""
}

// checkAnswers checks that a mock method has an integration response and a method response. Without
// either, API Gateway answers 500.
func checkAnswers(t *testing.T, method node) {
	t.Helper()
	integration, _ := method["Integration"].(node)
	integrated, _ := integration["IntegrationResponses"].([]any)
	responses, _ := method["MethodResponses"].([]any)
	if len(integrated) != 1 || len(responses) != 1 || integrated[0].(node)["StatusCode"] != "200" ||
		responses[0].(node)["StatusCode"] != "200" {
		t.Errorf("got the responses %v and %v, want 200", integrated, responses)
	}
}

// checkLayered checks a function with the layer. output returns the value of an output of the
// nested stack, as the function refers to it.
func checkLayered(t *testing.T, function node, policies []any, output func(name string) any) {
	t.Helper()
	if !reflect.DeepEqual(function["Layers"], []any{output("LayerArn")}) || !slices.ContainsFunc(policies,
		func(p any) bool { return reflect.DeepEqual(p, output("LayerPolicyArn")) }) {
		t.Errorf("got the layers %v and the policies %v, want those of the limits", function["Layers"], policies)
	}
	environment, _ := function["Environment"].(node)
	got, _ := environment["Variables"].(node)
	want := node{"AWS_LAMBDA_EXEC_WRAPPER": "/opt/weir", "WEIR_NAMESPACE": "orders", "WEIR_STORE": output("Store"),
		"WEIR_RECORDS_TABLE": output("RecordsTable")}
	for name, value := range layerVariables(t) {
		if want[name] == nil && value != "" {
			want[name] = value
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got the variables %v, want %v", got, want)
	}
	if architectures, _ := function["Architectures"].([]any); !slices.Equal(architectures, []any{"arm64"}) {
		t.Errorf("got the architectures %v, want arm64, the default of the layer", architectures)
	}
}

// layerVariables returns the output LayerVariables of a stack with DynamoDB and without tokens.
func layerVariables(t *testing.T) (variables map[string]string) {
	t.Helper()
	output, _ := read(t, released).Outputs["LayerVariables"].(node)
	value, _ := output["Value"].(node)
	for value["Fn::If"] != nil {
		value, _ = value["Fn::If"].([]any)[2].(node)
	}
	var text strings.Builder
	for _, part := range value["Fn::Join"].([]any)[1].([]any) {
		known, _ := part.(string)
		text.WriteString(known)
	}
	if err := json.Unmarshal([]byte(text.String()), &variables); err != nil {
		t.Fatalf("LayerVariables: got %s: %v", text.String(), err)
	}
	return variables
}

// checkNames checks that the released template has the parameters and outputs that an example uses.
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
	if _, err := os.Stat(folder + "typescript/node_modules/aws-cdk-lib"); errors.Is(err, fs.ErrNotExist) {
		storetest.Unfetched(t, "node", "make -C local/lab modules", err)
	}
	compiled := folder + "typescript/app.js"
	t.Cleanup(func() { _ = os.Remove(compiled) })
	build := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc")
	build.Dir = folder + "typescript"
	run(t, build)
	checkSynthesized(t, exec.CommandContext(t.Context(), "node", compiled))
}

func TestExamples_python(t *testing.T) {
	tools := storetest.Server(t, "tools", "WEIR_TOOLS")
	checkSynthesized(t, exec.CommandContext(t.Context(), filepath.Join(tools, "python"), folder+"python/app.py"))
}

func TestExamples_sam(t *testing.T) {
	tools := storetest.Server(t, "tools", "WEIR_TOOLS")
	run(t, exec.CommandContext(t.Context(), filepath.Join(tools, "cfn-lint"), folder+"sam/template.yaml"))
	// cfn-lint can parse YAML tags such as !Ref; encoding/json cannot.
	out, err := exec.CommandContext(t.Context(), filepath.Join(tools, "python"), "-c",
		`import json, sys, cfnlint.decode; print(json.dumps(cfnlint.decode.decode(sys.argv[1])[0]))`, folder+"sam/template.yaml").Output()
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
	if method := properties("Get"); method["AuthorizationType"] != "CUSTOM" || !reflect.DeepEqual(method["AuthorizerId"],
		node{"Fn::GetAtt": []any{"Limits", "Outputs.AuthorizerId"}}) {
		t.Errorf("got the method %v, want the authorizer of the limits", method)
	}
	checkAnswers(t, properties("Get"))
	policies, _ := properties("Quotes")["Policies"].([]any)
	checkLayered(t, properties("Quotes"), policies, func(name string) any { return node{"Fn::GetAtt": []any{"Limits", "Outputs." + name}} })
	parameters, _ := properties("Limits")["Parameters"].(node)
	checkNames(t, slices.Collect(maps.Keys(parameters)))
}

func TestExamples_terraform(t *testing.T) {
	file, problems := hclparse.NewParser().ParseHCLFile(folder + "terraform/main.tf")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	declared, resources := map[string]bool{}, map[string]hclsyntax.Attributes{}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		switch block.Type {
		case "resource":
			resources[block.Labels[0]] = block.Body.Attributes
			declared[strings.Join(block.Labels, ".")] = true
		case "data":
			declared["data."+strings.Join(block.Labels, ".")] = true
		case "variable":
			declared["var."+block.Labels[0]] = true
		case "locals":
			for name := range block.Body.Attributes {
				declared["local."+name] = true
			}
		}
	}
	checkReferences(t, file.Body.(*hclsyntax.Body), declared)
	parameters, problems := hcl.ExprMap(resources["aws_cloudformation_stack"]["parameters"].Expr)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	var names []string
	for _, p := range parameters {
		names = append(names, hcl.ExprAsKeyword(p.Key))
	}
	checkNames(t, names)
	for attribute, want := range map[string]string{"aws_api_gateway_method.authorizer_id": "aws_cloudformation_stack.limits",
		"aws_api_gateway_deployment.triggers": "aws_api_gateway_integration_response.ok"} {
		resource, name, _ := strings.Cut(attribute, ".")
		if got := references(resources[resource][name].Expr); !slices.Contains(got, want) {
			t.Errorf("%s: got the references %q, want one to %s", attribute, got, want)
		}
	}
	if resources["aws_cloudformation_stack"]["template_url"] == nil || resources["aws_cloudformation_stack"]["template_body"] != nil {
		t.Error("got no template_url, want one, because the template is too long for template_body")
	}
}

// checkReferences checks that the Terraform file declares everything to which a body refers.
func checkReferences(t *testing.T, body *hclsyntax.Body, declared map[string]bool) {
	t.Helper()
	for name, attribute := range body.Attributes {
		for _, reference := range references(attribute.Expr) {
			if !declared[reference] && !strings.HasPrefix(reference, "each.") {
				t.Errorf("%s: got a reference to %s, want one of %v", name, reference, slices.Sorted(maps.Keys(declared)))
			}
		}
	}
	for _, block := range body.Blocks {
		checkReferences(t, block.Body, declared)
	}
}

// references returns the names to which an expression refers, such as var.bucket and
// aws_s3_object.release.
func references(e hcl.Expression) (all []string) {
	for _, v := range e.Variables() {
		length := 2
		if v.RootName() == "data" {
			length = 3
		}
		name := v.RootName()
		for _, step := range v[1:min(length, len(v))] {
			if attribute, ok := step.(hcl.TraverseAttr); ok {
				name += "." + attribute.Name
			}
		}
		all = append(all, name)
	}
	return all
}
