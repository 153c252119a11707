package ratelimit_test

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecr"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// newLayered returns a stack with limits and a function in Node.js. The function has its own
// variable TABLE.
func newLayered(t *testing.T, change func(*ratelimit.LimitsProps), changeFunction func(*awslambda.FunctionProps)) (awscdk.App,
	*ratelimit.Limits, awslambda.Function) {
	t.Helper()
	app, stack, _ := newAPI(t)
	p := props(t)
	for _, name := range []string{"extension"} {
		if err := os.CopyFS(filepath.Join(p.Bundles, name), os.DirFS(filepath.Join(p.Bundles, "authorizer"))); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(p)
	}
	f := &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("index.handler"),
		Code:        awslambda.Code_FromInline(jsii.String("exports.handler = async () => ({ statusCode: 200 })")),
		Environment: &map[string]*string{"TABLE": jsii.String("orders")},
	}
	if changeFunction != nil {
		changeFunction(f)
	}
	return app, ratelimit.NewLimits(stack, jsii.String("Limits"), p), awslambda.NewFunction(stack, jsii.String("Orders"), f)
}

func variablesOf(t *testing.T, stack awscdk.Stack) map[string]any {
	t.Helper()
	for id, r := range *assertions.Template_FromStack(stack, nil).FindResources(jsii.String("AWS::Lambda::Function"), nil) {
		if strings.HasPrefix(id, "Orders") {
			return (*r)["Properties"].(map[string]any)["Environment"].(map[string]any)["Variables"].(map[string]any)
		}
	}
	t.Fatal("got no function Orders")
	return nil
}

// AddLayer gives a function the wrapper script, the permissions of Equip, and the limits' variables
// under the layer's names. The function keeps its own variables.
func TestLimits_AddLayer(t *testing.T) {
	app, l, f := newLayered(t, func(p *ratelimit.LimitsProps) { p.Variables = map[string]string{"BASE_PATH": "/v1"} }, nil)
	l.AddLayer(f)
	app.Synth(nil)
	stack := awscdk.Stack_Of(f)
	got := variablesOf(t, stack)
	for name, want := range map[string]any{
		"TABLE": "orders", "WEIR_NAMESPACE": "test", "WEIR_BASE_PATH": "/v1",
		"WEIR_RULES_FILE": "/opt/weir-rules.json", "WEIR_RULES_FROM": "deployment", "AWS_LAMBDA_EXEC_WRAPPER": "/opt/weir",
	} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{
		"AWS_LAMBDA_EXEC_WRAPPER", "TABLE", "WEIR_BASE_PATH", "WEIR_CORS_ORIGINS", "WEIR_NAMESPACE", "WEIR_RECORDS_TABLE", "WEIR_RULES_FILE",
		"WEIR_RULES_FROM", "WEIR_STORE",
	}) {
		t.Errorf("got the variables %v, want none without the prefix", names)
	}
	if got, want := policyOf(t, stack, "OrdersServiceRole"), policyOf(t, stack, "LimitsAuthorizerRole"); got == "" ||
		!strings.HasSuffix(want, strings.TrimPrefix(got, "[")) {
		t.Errorf("got the statements %s, want those of the authorizer except its log group: %s", got, want)
	}
	assertions.Template_FromStack(stack, nil).ResourceCountIs(jsii.String("Custom::LogRetention"), jsii.Number(0))
}

// The policy and the variables for functions outside the app equal those that AddLayer gives a
// function.
func TestLimits_NewLayerPolicy(t *testing.T) {
	for _, store := range []ratelimit.Store{ratelimit.DynamoDB, ratelimit.ElastiCache} {
		app, l, f := newLayered(t, func(p *ratelimit.LimitsProps) { p.Store, p.RulesFrom = store, "table" }, nil)
		l.AddLayer(f)
		l.NewLayerPolicy()
		app.Synth(nil)
		stack := awscdk.Stack_Of(f)
		for _, policy := range *assertions.Template_FromStack(stack, nil).FindResources(jsii.String("AWS::IAM::ManagedPolicy"), nil) {
			got, err := json.Marshal((*policy)["Properties"].(map[string]any)["PolicyDocument"].(map[string]any)["Statement"])
			if want := policyOf(t, stack, "OrdersServiceRole"); err != nil || string(got) != want {
				t.Errorf("%s: got the statements %s (%v), want %s", store, got, err, want)
			}
		}
		got, made := slices.Sorted(maps.Keys(l.LayerVariables())), variablesOf(t, stack)
		delete(made, "TABLE")
		delete(made, "AWS_LAMBDA_EXEC_WRAPPER")
		if want := slices.Sorted(maps.Keys(made)); !slices.Equal(got, want) {
			t.Errorf("%s: got the variables %v, want %v", store, got, want)
		}
	}
}

// Only functions of limits with an attached API believe the decision of an authorizer, whenever they got the limits.
func TestLimits_behindAuthorizer(t *testing.T) {
	const behind = "WEIR_BEHIND_AUTHORIZER"
	app, l, f := newLayered(t, nil, nil)
	l.AddLayer(f)
	before := l.LayerVariables()[behind]
	l.Attach(awscdk.Stack_Of(f).Node().FindChild(jsii.String("Api")).(awsapigateway.RestApi))
	app.Synth(nil)
	if after := l.LayerVariables()[behind]; before != nil || after == nil || *after != "true" {
		t.Errorf("%s: got %v, then %v, want none, then true", behind, before, after)
	}
	if got := variablesOf(t, awscdk.Stack_Of(f))[behind]; got != "true" {
		t.Errorf("%s of the earlier function: got %v, want true", behind, got)
	}
}

// policyOf returns, as JSON, the policy statements of the role whose id begins with prefix.
func policyOf(t *testing.T, stack awscdk.Stack, prefix string) string {
	t.Helper()
	for id, r := range *assertions.Template_FromStack(stack, nil).FindResources(jsii.String("AWS::IAM::Policy"), nil) {
		if strings.HasPrefix(id, prefix) {
			content, err := json.Marshal((*r)["Properties"].(map[string]any)["PolicyDocument"].(map[string]any)["Statement"])
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
	}
	return ""
}

// The layer contains the extension, the wrapper script (both executable) and the rules. Functions
// share one layer. An update keeps the previous version; only the deletion of the stack deletes it.
func TestLimits_Layer(t *testing.T) {
	app, l, f := newLayered(t, nil, nil)
	l.AddLayer(f)
	second := awslambda.NewFunction(awscdk.Stack_Of(f), jsii.String("Second"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PYTHON_3_13(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("index.handler"),
		Code: awslambda.Code_FromInline(jsii.String("x")),
	})
	l.AddLayer(second)
	out := *app.Synth(nil).Directory()
	made := assertions.Template_FromStack(awscdk.Stack_Of(f), nil)
	made.ResourceCountIs(jsii.String("AWS::Lambda::LayerVersion"), jsii.Number(1))
	made.HasResource(jsii.String("AWS::Lambda::LayerVersion"), map[string]any{"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Retain",
		"Properties": map[string]any{"CompatibleArchitectures": []string{"arm64"}}})
	wrappers, err := filepath.Glob(filepath.Join(out, "asset.*", contract.LayerWrapper))
	if err != nil || len(wrappers) != 1 {
		t.Fatalf("got the assets %v (%v), want one with a wrapper", wrappers, err)
	}
	layer := os.DirFS(filepath.Dir(wrappers[0]))
	for name, want := range map[string]struct {
		mode    fs.FileMode
		content string
	}{
		"extensions/weir": {0o755, string(program(elf.EM_AARCH64))}, "weir": {0o755, contract.LayerScript()},
		"weir-rules.json": {0o755, document},
	} {
		info, err := fs.Stat(layer, name)
		content, readErr := fs.ReadFile(layer, name)
		if err != nil || readErr != nil || info.Mode().Perm() != want.mode || string(content) != want.content {
			t.Errorf("%s: got %v, %v and %d bytes (%v), want %v and %d bytes", name, err, info.Mode(), len(content), readErr, want.mode,
				len(want.content))
		}
	}
}

// With ElastiCache, the function joins the cache's VPC and its layer links the Redis client. A log
// group that the app created is in the saved queries.
func TestLimits_AddLayer_elasticache(t *testing.T) {
	app, l, f := newLayered(t, func(p *ratelimit.LimitsProps) { p.Store = ratelimit.ElastiCache }, nil)
	stack := awscdk.Stack_Of(f)
	logged := awslambda.NewFunction(stack, jsii.String("Logged"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("index.handler"),
		Code:     awslambda.Code_FromInline(jsii.String("x")),
		LogGroup: awslogs.NewLogGroup(stack, jsii.String("OwnLogs"), nil),
	})
	l.AddLayer(f)
	l.AddLayer(logged)
	app.Synth(nil)
	if f.Node().DefaultChild().(awslambda.CfnFunction).VpcConfig() == nil || !strings.Contains(policyOf(t, stack, "OrdersServiceRole"),
		"elasticache:Connect") {
		t.Error("got no way from the function to the cache, want one")
	}
	if got := fmt.Sprint(variablesOf(t, stack)["WEIR_STORE"]); !strings.Contains(got, "rediss://weir-test@") ||
		!strings.HasSuffix(got, "?iam_cache=weir-test]]]") {
		t.Errorf("WEIR_STORE: got %v, want the URL of the cache", got)
	}
	made := assertions.Template_FromStack(stack, nil)
	for _, query := range *made.FindResources(jsii.String("AWS::Logs::QueryDefinition"), nil) {
		groups, err := json.Marshal((*query)["Properties"].(map[string]any)["LogGroupNames"])
		if err != nil || !strings.Contains(string(groups), "OwnLogs") {
			t.Errorf("got a query of the log groups %s (%v), want OwnLogs too", groups, err)
		}
	}
	made.ResourceCountIs(jsii.String("Custom::LogRetention"), jsii.Number(0))
}

func setLogLevel(f awslambda.Function, level string) {
	f.Node().DefaultChild().(awslambda.CfnFunction).SetLoggingConfig(&awslambda.CfnFunction_LoggingConfigProperty{
		LogFormat: jsii.String("JSON"), ApplicationLogLevel: jsii.String(level),
	})
}

// The synthesis rejects a log level at which Lambda drops metrics, for each function that writes some.
func TestLimits_logLevel(t *testing.T) {
	app, l, _ := newLayered(t, func(p *ratelimit.LimitsProps) { p.Reports = true }, nil)
	setLogLevel(l.ReportFunction().(awslambda.Function), "WARN")
	levels := map[string]bool{"TRACE": true, "DEBUG": true, "INFO": true, "WARN": false, "ERROR": false, "FATAL": false}
	for level := range levels {
		l.Equip(awslambda.NewFunction(awscdk.Stack_Of(l), jsii.String("Orders"+level), &awslambda.FunctionProps{
			Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("x")),
			LoggingFormat: awslambda.LoggingFormat_JSON, ApplicationLogLevelV2: awslambda.ApplicationLogLevel(level),
		}))
		setLogLevel(l.NewFunction("Own"+level, ratelimit.FunctionProps{Bundle: l.Bundle(contract.Authorizer), Role: contract.Authorizer,
			Timeout: time.Second}), level)
	}
	got := panicked(func() { app.Synth(nil) })
	if want := "Shop/Limits/Log: LoggingConfig.ApplicationLogLevel: got WARN"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for level, accepted := range levels {
		for _, name := range []string{"Shop/Orders", "Shop/Limits/Own"} {
			if strings.Contains(got, name+level+": LoggingConfig.ApplicationLogLevel: got "+level) == accepted {
				t.Errorf("%s: got %q, want a problem of %s: %t", level, got, name, !accepted)
			}
		}
	}
}

// The synthesis rejects hops behind a function URL, where no entry of X-Forwarded-For can be believed.
func TestLimits_functionURL(t *testing.T) {
	for who, want := range map[string]string{"cloudfront": "", "hops:2": "Shop/Orders/FunctionUrl: Address: got hops:2, want none behind a " +
		"function URL"} {
		app, l, f := newLayered(t, func(p *ratelimit.LimitsProps) { p.Address, p.OriginSecret = who, *awscdk.Aws_STACK_NAME() }, nil)
		l.Equip(f)
		other := awslambda.NewFunction(awscdk.Stack_Of(f), jsii.String("Unlimited"),
			&awslambda.FunctionProps{Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"),
				Code: awslambda.Code_FromInline(jsii.String("x"))})
		for _, each := range []awslambda.Function{f, other} {
			each.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE})
		}
		if got := panicked(func() { app.Synth(nil) }); (got == "") != (want == "") || !strings.Contains(got, want) ||
			strings.Contains(got, "Unlimited") {
			t.Errorf("%q: got %q, want %q", who, got, want)
		}
	}
}

// With Identity host, the synthesis rejects what verifies no caller in front of a function with the limits.
func TestLimits_identity(t *testing.T) {
	app, l, f := newLayered(t, func(p *ratelimit.LimitsProps) {
		p.Identity, p.UserClaim, p.TierClaim, p.Claims = "host", "username", "cognito:groups", []string{"org=org.id", "a=b"}
	}, nil)
	l.AddLayer(f)
	stack := awscdk.Stack_Of(f)
	got := l.LayerVariables()
	for name, want := range map[string]string{"WEIR_IDENTITY": "host", "WEIR_USER_CLAIM": "username", "WEIR_TIER_CLAIM": "cognito:groups",
		"WEIR_CLAIMS": "org=org.id,a=b"} {
		if got[name] == nil || *got[name] != want {
			t.Errorf("%s: got %v, want %s", name, got[name], want)
		}
	}
	awslambda.NewFunctionUrl(stack, jsii.String("IAM"), &awslambda.FunctionUrlProps{Function: f})
	awslambda.NewFunctionUrl(stack, jsii.String("Open"), &awslambda.FunctionUrlProps{Function: f,
		AuthType: awslambda.FunctionUrlAuthType_NONE})
	awselasticloadbalancingv2.NewCfnTargetGroup(stack, jsii.String("Targets"), &awselasticloadbalancingv2.CfnTargetGroupProps{
		TargetType: jsii.String("lambda"), Targets: []any{map[string]any{"id": f.FunctionArn()}},
	})
	l.Attach(stack.Node().FindChild(jsii.String("Api")).(awsapigateway.RestApi))
	mistakes := panicked(func() { app.Synth(nil) })
	for place, want := range map[string]bool{"Shop/IAM/Resource: ": false, "Shop/Open/Resource: Identity: got host, want weir": true,
		"Shop/Targets: Identity: got host, want weir": true, "Shop/Api: got the authorizer of the limits with Identity host": true} {
		if strings.Contains(mistakes, place) != want {
			t.Errorf("got %s, want %q: %t", mistakes, place, want)
		}
	}
}

// Each mistake makes AddLayer panic with one line that names a remedy.
func TestLimits_AddLayer_mistakes(t *testing.T) {
	app, l, _ := newLayered(t, nil, nil)
	stack := awscdk.Stack_Of(l)
	function := func(id string, change func(*awslambda.FunctionProps)) awslambda.Function {
		p := &awslambda.FunctionProps{
			Runtime: awslambda.Runtime_NODEJS_22_X(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("index.handler"),
			Code: awslambda.Code_FromInline(jsii.String("x")),
		}
		change(p)
		return awslambda.NewFunction(stack, jsii.String(id), p)
	}
	valid := func(*awslambda.FunctionProps) {}
	twice, snapStart := function("Twice", valid), function("SnapStart", valid)
	l.AddLayer(twice)
	snapStart.Node().DefaultChild().(awslambda.CfnFunction).SetSnapStart(&awslambda.CfnFunction_SnapStartProperty{
		ApplyOn: jsii.String("PublishedVersions"),
	})
	for want, f := range map[string]awslambda.Function{
		"Shop/Provided: got the runtime provided.al2023, want a managed one": function("Provided", func(p *awslambda.FunctionProps) {
			p.Runtime, p.Code = awslambda.Runtime_PROVIDED_AL2023(), awslambda.Code_FromAsset(jsii.String("dist/arm64/orders"), nil)
		}),
		"Shop/Image: got the runtime FROM_IMAGE, want a managed one": function("Image", func(p *awslambda.FunctionProps) {
			p.Runtime, p.Handler = awslambda.Runtime_FROM_IMAGE(), awslambda.Handler_FROM_IMAGE()
			p.Code = awslambda.Code_FromEcrImage(awsecr.Repository_FromRepositoryName(stack, jsii.String("Images"), jsii.String("orders")), nil)
		}),
		"Shop/X86: got the architecture x86_64, want arm64": function("X86", func(p *awslambda.FunctionProps) { p.Architecture = nil }),
		"Shop/Wrapper: AWS_LAMBDA_EXEC_WRAPPER: got /opt/otel-handler, want none": function("Wrapper", func(p *awslambda.FunctionProps) {
			p.Environment = &map[string]*string{"AWS_LAMBDA_EXEC_WRAPPER": jsii.String("/opt/otel-handler")}
		}),
		"Shop/SnapStart: got SnapStart on PublishedVersions, want none": snapStart,
		"Shop/Twice: the function already has a layer of limits":        twice,
	} {
		if got := panicked(func() { l.AddLayer(f) }); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	p := props(t)
	p.Namespace = "other"
	without := ratelimit.NewLimits(awscdk.NewStack(app, jsii.String("Without"), nil), jsii.String("Limits"), p)
	if got, want := panicked(func() { without.AddLayer(function("Unlimited", valid)) }),
		"extension/bootstrap: no such file or directory, want a program"; !strings.Contains(got, want) {
		t.Errorf("no bundle: got %q, want %q", got, want)
	}
}

// The synthesis rejects what makes the layer useless, also if it is set after AddLayer.
func TestLimits_AddLayer_later(t *testing.T) {
	app, l, f := newLayered(t, nil, nil)
	l.AddLayer(f)
	f.AddEnvironment(jsii.String("AWS_LAMBDA_EXEC_WRAPPER"), jsii.String("/opt/otel-handler"), nil)
	setLogLevel(f, "WARN")
	got := panicked(func() { app.Synth(nil) })
	for _, want := range []string{"Shop/Orders: AWS_LAMBDA_EXEC_WRAPPER: got /opt/otel-handler, want none",
		"Shop/Orders: LoggingConfig.ApplicationLogLevel: got WARN, want INFO"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A deployment publishes the rules after all functions of the stack that decide have their new code, also behind an
// alias. Functions may depend on the limits: nothing depends on the publication.
func TestLimits_publishAfter(t *testing.T) {
	app, l, layered := newLayered(t, nil, nil)
	l.AddLayer(layered)
	stack := awscdk.Stack_Of(l)
	function := func(scope awscdk.Stack, id string) awslambda.Function {
		return awslambda.NewFunction(scope, jsii.String(id), &awslambda.FunctionProps{Runtime: awslambda.Runtime_NODEJS_22_X(),
			Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("x"))})
	}
	equipped := function(stack, "Equipped")
	equipped.AddAlias(jsii.String("live"), nil)
	equipped.Node().AddDependency(l)
	l.Equip(equipped)
	l.Equip(function(awscdk.NewStack(app, jsii.String("Elsewhere"), nil), "Other"))
	template := assertions.Template_FromStack(stack, nil)
	found := *template.FindResources(jsii.String("Custom::WeirRules"), nil)
	if len(found) != 1 {
		t.Fatalf("got %d publications, want one", len(found))
	}
	for id, r := range found {
		after, _ := (*r)["DependsOn"].([]any)
		for _, want := range []string{"LimitsAuthorizer", "Orders", "Equipped", "EquippedAliaslive"} {
			if !slices.ContainsFunc(after, func(each any) bool { return strings.HasPrefix(each.(string), want) }) {
				t.Errorf("publication: got it after %v, want it after %s", after, want)
			}
		}
		content, err := json.Marshal(template.ToJSON())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(content), `"`+id+`"`); n != 1 {
			t.Errorf("publication: got %s %d times in the template, want it only as a resource", id, n)
		}
	}
}
