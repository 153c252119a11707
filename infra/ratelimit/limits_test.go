package ratelimit_test

import (
	"bytes"
	"crypto/rand"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The tests run in testdata/shop, a project with rules and built functions.
func TestMain(m *testing.M) {
	if _, err := exec.LookPath("node"); err != nil {
		_ = flag.Set("test.skip", "^Example") // an example cannot skip itself
	}
	if err := enterShop(); err != nil {
		panic(err)
	}
	code := m.Run()
	jsii.Close()
	_ = os.RemoveAll("dist")
	os.Exit(code)
}

func enterShop() error {
	if err := os.Chdir("testdata/shop"); err != nil {
		return err
	}
	for _, name := range []string{"authorizer", "log", "extension", "deploy", "orders"} {
		bundle := filepath.Join("dist", "arm64", name)
		if err := os.MkdirAll(bundle, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(bundle, "bootstrap"), program(elf.EM_AARCH64), 0o755); err != nil {
			return err
		}
	}
	return nil
}

const document = `{"version": 1, "rules": [{"endpoint": "/orders", "limits": {"*": {"requests": 10, "window": "1m"}}}]}`

func props(t *testing.T) *ratelimit.LimitsProps {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"authorizer", "log", "deploy"} {
		write(name+"/bootstrap", string(program(elf.EM_AARCH64)))
	}
	write("no/deploy/bootstrap", "no program")
	write("no/authorizer/bootstrap", string(program(elf.EM_AARCH64)))
	write("orders/bootstrap", "orders")
	write("rules.json", document)
	return &ratelimit.LimitsProps{Namespace: "test", Bundles: folder, Rules: filepath.Join(folder, "rules.json")}
}

// program returns the header of a Linux executable for a machine, which is all that checkBundle
// reads.
func program(machine elf.Machine) []byte {
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	var content bytes.Buffer
	_ = binary.Write(&content, binary.LittleEndian, header) // a write to memory never fails
	return content.Bytes()
}

func newAPI(t *testing.T) (awscdk.App, awscdk.Stack, awsapigateway.RestApi) {
	t.Helper()
	storetest.Program(t, "node")
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	api := awsapigateway.NewRestApi(stack, jsii.String("Api"), &awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
	orders := api.Root().AddResource(jsii.String("orders"), nil)
	orders.AddMethod(jsii.String("GET"), nil, nil)
	orders.AddMethod(jsii.String("POST"), nil, nil)
	return app, stack, api
}

func panicked(f func()) (text string) {
	defer func() {
		if wrong := recover(); wrong != nil {
			text = fmt.Sprint(wrong)
		}
	}()
	f()
	return ""
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // rand.Read never fails
	return b
}

func TestNew_mistakes(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) (path string) {
		path = filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := write("bad.json", `{"rules":[{"endpoint":"x"}]}`)
	old := write("old.json", `{"rules":[{"endpoint":"/x","limits":{"*":{"requests":1,"window":"1m"}}}]}`)
	shared := write("shared.json", `{"version":1,"rules":[
		{"endpoint":"/x","on_error":"local","local_processes":30,"limits":{"*":{"requests":100,"window":"1m"}}},
		{"endpoint":"/y","on_error":"local","local_processes":20,"limits":{"*":{"requests":100,"window":"1m"}}},
		{"endpoint":"/z","limits":{"*":{"requests":100,"window":"1m"}}}]}`)
	large := write("large.json", strings.Replace(document, `"window": "1m"`, `"window": "1m", "note": "`+hex.EncodeToString(random(80<<10))+
		`"`, 1))
	_, stack, _ := newAPI(t)
	tried := 0
	for want, change := range map[string]func(*ratelimit.LimitsProps){
		"large.json: got ": func(p *ratelimit.LimitsProps) { p.Rules = large },
		"bootstrap: got open": func(p *ratelimit.LimitsProps) {
			if err := os.Remove(filepath.Join(p.Bundles, "deploy", "bootstrap")); err != nil {
				t.Error(err)
			}
		},
		`Namespace: got "a b"`:                func(p *ratelimit.LimitsProps) { p.Namespace = "a b" },
		`Store: got "etcd", want dynamodb or`: func(p *ratelimit.LimitsProps) { p.Store = "etcd" },
		"/authorizer/bootstrap: no such file or directory, want a program for Linux and EM_AARCH64; build it (make functions, or GOOS=linux " +
			"GOARCH=arm64": func(p *ratelimit.LimitsProps) { p.Bundles = folder },
		"authorizer: bootstrap: got built for EM_AARCH64, want a program for Linux and EM_X86_64": func(p *ratelimit.LimitsProps) {
			p.Architecture = "x86_64"
		},
		"deploy: bootstrap: got EOF": func(p *ratelimit.LimitsProps) {
			p.Bundles += "/no"
			p.Store, p.Tokens = ratelimit.ElastiCache, &ratelimit.Tokens{Issuer: "i", Audience: "a", JWKS: "https://i/k"}
		},
		"Rules: open nowhere.json":                          func(p *ratelimit.LimitsProps) { p.Rules = "nowhere.json" },
		"bad.json has mistakes:\nline 1: rules[0].endpoint": func(p *ratelimit.LimitsProps) { p.Rules = bad },
		"old.json has no version":                           func(p *ratelimit.LimitsProps) { p.Rules, p.RulesFrom = old, "table" },
		"MaxDelay: got 1m0s":                                func(p *ratelimit.LimitsProps) { p.MaxDelay = time.Minute },
		`CORS_ORIGINS: got "https://a.example/page"`: func(p *ratelimit.LimitsProps) {
			p.CORSOrigins = []string{"https://a.example/page"}
		},
		"Variables: got STORE, want no variable that the": func(p *ratelimit.LimitsProps) { p.Variables = map[string]string{"STORE": "mine"} },
		"would not start:\nIPV6_BITS: got 0":              func(p *ratelimit.LimitsProps) { p.Variables = map[string]string{"IPV6_BITS": "0"} },
		`issuer "i", audience ""`: func(p *ratelimit.LimitsProps) {
			p.Tokens = &ratelimit.Tokens{Issuer: "i",
				JWKS: "https://i/k"}
		},
		`JWKS "http://i/k", want all three, and an https URL`: func(p *ratelimit.LimitsProps) {
			p.Tokens = &ratelimit.Tokens{Issuer: "i", Audience: "a", JWKS: "http://i/k"}
		},
		"ReservedConcurrency: want at least 1": func(p *ratelimit.LimitsProps) { p.ReservedConcurrency = jsii.Number(0) },
		"Vpc, Zones: want none; only elasticache": func(p *ratelimit.LimitsProps) {
			p.Vpc = awsec2.NewVpc(stack, jsii.String("V"), nil)
		},
		`RULES_FROM: got "tables", want one of table, deployment`: func(p *ratelimit.LimitsProps) { p.RulesFrom = "tables" },
		`ADDRESS: got "proxy", want host`:                         func(p *ratelimit.LimitsProps) { p.Address = "proxy" },
		"ORIGIN_SECRET: got 0 characters":                         func(p *ratelimit.LimitsProps) { p.Address = "hops:1" },
		"OriginSecret: got a text, want": func(p *ratelimit.LimitsProps) {
			p.Address, p.OriginSecret = "hops:1",
				strings.Repeat("x", 32)
		},
		"DECISION_SAMPLE: got -1":                       func(p *ratelimit.LimitsProps) { p.DecisionSample = -1 },
		"Kafka: got {Brokers: Topic: Cluster:mine Vpc:": func(p *ratelimit.LimitsProps) { p.Kafka = &ratelimit.Kafka{Cluster: "mine"} },
		`Kafka.Brokers: got "b-1:9198", want host:9098`: func(p *ratelimit.LimitsProps) {
			p.Kafka = &ratelimit.Kafka{Brokers: "b:9098,b-1:9198"}
		},
		`Kafka.Topic: got "a/b", want the name`:  func(p *ratelimit.LimitsProps) { p.Kafka = &ratelimit.Kafka{Topic: "a/b"} },
		`Kafka.Cluster: got "mine", want an ARN`: func(p *ratelimit.LimitsProps) { p.Kafka = &ratelimit.Kafka{Cluster: "mine"} },
		"Vpc, Zones: want none; only":            func(p *ratelimit.LimitsProps) { p.Zones = []string{"eu-central-1a", "eu-central-1b"} },
		"EVENTS: no longer a setting":            func(p *ratelimit.LimitsProps) { p.Variables = map[string]string{"EVENTS": "kafka"} },
		"ReservedConcurrency: got 21, more than the local_processes 20 of": func(p *ratelimit.LimitsProps) {
			p.Rules,
				p.ReservedConcurrency = shared, jsii.Number(21)
		},
	} {
		p := props(t)
		change(p)
		tried++
		in := constructs.NewConstruct(stack, jsii.String(strconv.Itoa(tried)))
		if got := panicked(func() { ratelimit.NewLimits(in, jsii.String("Limits"), p) }); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The gateway responses have the form of the document's refusals, and the authorizer knows it.
func TestLimits_Attach_refusal(t *testing.T) {
	app, stack, api := newAPI(t)
	p := props(t)
	document, err := os.ReadFile(p.Rules)
	if err == nil {
		err = os.WriteFile(p.Rules, []byte(strings.Replace(string(document), "{", `{"refusal":"openai",`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ratelimit.NewLimits(stack, jsii.String("Limits"), p).Attach(api)
	text := fmt.Sprint(app.Synth(nil).GetStackByName(stack.StackName()).Template())
	for _, want := range []string{"REFUSAL:openai", "gatewayresponse.header.Content-Type:'application/json'",
		`{"error":{"message":"$context.authorizer.message","type":"rate_limit_error","param":null,` +
			`"code":"$context.authorizer.problemError","retry_after":$context.authorizer.wait}}`} {
		if !strings.Contains(text, want) {
			t.Errorf("got a template without %s", want)
		}
	}
}

// Synthesis reports each conflict in one line that names a remedy.
func TestLimits_Attach_conflicts(t *testing.T) {
	app, stack, api := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	other := awsapigateway.NewRestApi(stack, jsii.String("Other"), &awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
	method := func(api awsapigateway.RestApi, path string, o *awsapigateway.MethodOptions) {
		api.Root().AddResource(jsii.String(path), nil).AddMethod(jsii.String("GET"), nil, o)
	}
	gatewayResponse := func(api awsapigateway.RestApi, kind awsapigateway.ResponseType) {
		api.AddGatewayResponse(jsii.String("Mine"), &awsapigateway.GatewayResponseOptions{Type: kind})
	}
	method(api, "iam", &awsapigateway.MethodOptions{AuthorizationType: awsapigateway.AuthorizationType_IAM})
	l.Attach(api)
	l.Respond(other)
	method(api, "later", nil)
	awsapigateway.NewCfnMethod(stack, jsii.String("Raw"), &awsapigateway.CfnMethodProps{
		HttpMethod: jsii.String("PUT"), RestApiId: api.RestApiId(), ResourceId: api.Root().ResourceId(), AuthorizationType: jsii.String("NONE"),
	})
	gatewayResponse(api, awsapigateway.ResponseType_ACCESS_DENIED())
	gatewayResponse(other, awsapigateway.ResponseType_UNAUTHORIZED()) // beside Respond
	own := awslambda.NewFunction(stack, jsii.String("Own"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("x")),
	})
	l.Equip(own)
	method(other, "cached", &awsapigateway.MethodOptions{Authorizer: awsapigateway.NewRequestAuthorizer(stack, jsii.String("Cached"),
		&awsapigateway.RequestAuthorizerProps{
			Handler: l.Authorizer(), IdentitySources: jsii.Strings("method.request.header.Authorization"),
		})})
	method(other, "own", &awsapigateway.MethodOptions{Authorizer: awsapigateway.NewTokenAuthorizer(stack, jsii.String("OwnCached"),
		&awsapigateway.TokenAuthorizerProps{Handler: own})})
	newMapping(stack, "api.example", api, "v1")
	newDomain(stack).AddApiMapping(api.DeploymentStage(), &awsapigateway.ApiMappingOptions{BasePath: jsii.String("orders/v1")})
	awsapigateway.NewCfnBasePathMappingV2(stack, jsii.String("Private"), &awsapigateway.CfnBasePathMappingV2Props{
		DomainNameArn: jsii.String("arn:aws:apigateway:eu-central-1::/domainnames/api.example+1"), BasePath: jsii.String("v1"),
		RestApiId: api.RestApiId(), Stage: jsii.String("prod"),
	})
	newMapping(awscdk.NewStack(app, jsii.String("Domains"), nil), "api.example", api, "v1")
	got := panicked(func() { app.Synth(nil) })
	wants := []string{
		"method Shop/Api/Default/iam/GET already has an authorizer (AWS_IAM)",
		"method Shop/Api/Default/later/GET is not limited; attach the limits after",
		"method Shop/Raw is not limited",
		"Shop/Api has two gateway responses of type ACCESS_DENIED",
		"Shop/Other has two gateway responses of type UNAUTHORIZED",
		"authorizer Shop/Cached/Resource caches its results, but a cached result counts nothing",
		"authorizer Shop/OwnCached/Resource caches its results",
		"Shop/Mapping adds /v1 before every path",
		"adds /orders/v1 before every path",
		"Shop/Private adds /v1 before every path",
		"Domains/Mapping adds /v1 before every path",
	}
	for _, want := range wants {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %q, want %q once", got, want)
		}
	}
	if lines := strings.Count(got, "[Shop/"); lines != len(wants) {
		t.Errorf("got %d problems, want %d: %s", lines, len(wants), got)
	}
}

// Each of two deployments in one account and region reports that the other has its namespace.
func TestLimits_namespaces(t *testing.T) {
	app, stack, _ := newAPI(t)
	elsewhere := awscdk.NewStack(app, jsii.String("Elsewhere"), &awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String("us-east-1")}})
	for id, scope := range map[string]awscdk.Stack{"Limits": stack, "More": stack, "Far": elsewhere} {
		ratelimit.NewLimits(scope, jsii.String(id), props(t))
	}
	got := panicked(func() { app.Synth(nil) })
	for _, want := range []string{"[Shop/Limits] Namespace: Shop/More has test too", "[Shop/More] Namespace: Shop/Limits has test too"} {
		if !strings.Contains(got, want) || strings.Count(got, " has test too") != 2 {
			t.Errorf("got %q, want %q, one problem of two", got, want)
		}
	}
}

func newMapping(scope awscdk.Stack, domain string, api awsapigateway.RestApi, path string) {
	awsapigateway.NewCfnBasePathMapping(scope, jsii.String("Mapping"), &awsapigateway.CfnBasePathMappingProps{
		DomainName: jsii.String(domain), BasePath: jsii.String(path), RestApiId: api.RestApiId(),
	})
}

func newDomain(scope awscdk.Stack) awsapigateway.DomainName {
	certificate := awscertificatemanager.Certificate_FromCertificateArn(scope, jsii.String("Certificate"),
		jsii.String("arn:aws:acm:eu-central-1:123456789012:certificate/1"))
	return awsapigateway.NewDomainName(scope, jsii.String("Domain"), &awsapigateway.DomainNameProps{DomainName: jsii.String("api.example"),
		Certificate: certificate})
}

// A domain can add paths, if BASE_PATH lists them. If one adds a path, the list has / for the mappings that add none.
func TestLimits_Attach_basePaths(t *testing.T) {
	for list, want := range map[string]string{
		"/orders/v2":        `adds / before every path, so rules would not match; add it to the list LimitsProps.Variables["BASE_PATH"]`,
		"/v1,/, /orders/v2": "",
	} {
		app, stack, api := newAPI(t)
		p := props(t)
		p.Variables = map[string]string{"BASE_PATH": list}
		ratelimit.NewLimits(stack, jsii.String("Limits"), p).Attach(api)
		newMapping(stack, "other.example", api, "(none)")
		domain := newDomain(stack)
		domain.AddApiMapping(api.DeploymentStage(), &awsapigateway.ApiMappingOptions{BasePath: jsii.String("orders/v2")})
		other := awsapigateway.NewRestApi(stack, jsii.String("Other"), &awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
		other.Root().AddMethod(jsii.String("GET"), nil, nil)
		domain.AddApiMapping(other.DeploymentStage(), &awsapigateway.ApiMappingOptions{BasePath: jsii.String("other")})
		if got := panicked(func() { app.Synth(nil) }); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", list, got, want)
		}
	}
}

// If Attach is called with methods, it limits only these.
func TestLimits_Attach_methods(t *testing.T) {
	app, stack, api := newAPI(t)
	limited := api.Root().AddResource(jsii.String("search"), nil).AddMethod(jsii.String("GET"), nil, nil)
	ratelimit.NewLimits(stack, jsii.String("Limits"), props(t)).Attach(api, limited)
	app.Synth(nil)
	for _, m := range *api.Methods() {
		kind := *m.Node().DefaultChild().(awsapigateway.CfnMethod).AuthorizationType()
		if want := map[bool]string{true: "CUSTOM", false: "NONE"}[*m.Resource().Path() == "/search"]; kind != want {
			t.Errorf("%s %s: got %s, want %s", *m.HttpMethod(), *m.Resource().Path(), kind, want)
		}
	}
}

// Attach limits OPTIONS that a back end gets, and leaves preflights that API Gateway answers to browsers, which send no
// credential.
func TestLimits_Attach_options(t *testing.T) {
	app, stack, api := newAPI(t)
	preflights := api.Root().AddResource(jsii.String("preflights"), nil)
	preflights.AddCorsPreflight(&awsapigateway.CorsOptions{AllowOrigins: jsii.Strings("https://app.example")})
	passed := api.Root().AddResource(jsii.String("passed"), nil)
	passed.AddMethod(jsii.String("OPTIONS"), awsapigateway.NewHttpIntegration(jsii.String("https://back-end.example"), nil), nil)
	passed.AddMethod(jsii.String("GET"), awsapigateway.NewMockIntegration(nil), nil)
	f := awslambda.NewFunction(awscdk.NewStack(app, jsii.String("Other"), nil), jsii.String("F"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("x")),
	})
	api.Root().AddResource(jsii.String("elsewhere"), nil).AddMethod(jsii.String("OPTIONS"), awsapigateway.NewLambdaIntegration(f, nil), nil)
	awsapigateway.NewCfnMethod(stack, jsii.String("Raw"), &awsapigateway.CfnMethodProps{HttpMethod: jsii.String("OPTIONS"),
		RestApiId: api.RestApiId(), ResourceId: api.Root().ResourceId(), AuthorizationType: jsii.String("NONE"),
		Integration: &awsapigateway.CfnMethod_IntegrationProperty{Type: jsii.String("MOCK")}})
	ratelimit.NewLimits(stack, jsii.String("Limits"), props(t)).Attach(api)
	app.Synth(nil)
	want := map[string]string{"/preflights OPTIONS": "NONE", "/passed OPTIONS": "CUSTOM", "/passed GET": "CUSTOM",
		"/elsewhere OPTIONS": "CUSTOM",
		"/orders GET":        "CUSTOM", "/orders POST": "CUSTOM"}
	for _, m := range *api.Methods() {
		name := *m.Resource().Path() + " " + *m.HttpMethod()
		if kind := *m.Node().DefaultChild().(awsapigateway.CfnMethod).AuthorizationType(); kind != want[name] {
			t.Errorf("%s: got %s, want %s", name, kind, want[name])
		}
	}
}

// With a key and a permissions boundary, the tables have this key, every role may use it through DynamoDB, and has the
// boundary.
func TestNewLimits_key(t *testing.T) {
	_, stack, _ := newAPI(t)
	p := props(t)
	p.Key = awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String("arn:aws:kms:us-east-1:123456789012:key/k"))
	p.PermissionsBoundary = awsiam.ManagedPolicy_FromManagedPolicyName(stack, jsii.String("Boundary"), jsii.String("boundary"))
	ratelimit.NewLimits(stack, jsii.String("Limits"), p)
	template := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
	roles := strings.Count(template, `"Type":"AWS::IAM::Role"`)
	if n := strings.Count(template, `"PermissionsBoundary":`); n != roles || roles < 2 {
		t.Errorf("got %d boundaries of %d roles, want one of each", n, roles)
	}
	if n := strings.Count(template, `"kms:ViaService":`); n != roles {
		t.Errorf("got %d permissions for the key and %d roles, want one of each", n, roles)
	}
	if n := strings.Count(template, `"KMSMasterKeyId":"arn:aws:kms:us-east-1:123456789012:key/k"`); n != 2 {
		t.Errorf("got %d tables with the key, want 2", n)
	}
}

// Equip connects an existing function to the cache in the given VPC.
func TestLimits_Equip(t *testing.T) {
	app, stack, _ := newAPI(t)
	p := props(t)
	p.Store, p.Vpc = ratelimit.ElastiCache, awsec2.NewVpc(stack, jsii.String("Vpc"), nil)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), p)
	function := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String("bootstrap"),
		Code: awslambda.Code_FromAsset(jsii.String(filepath.Join(p.Bundles, "orders")), nil),
	})
	l.Equip(function)
	app.Synth(nil)
	network := function.Node().DefaultChild().(awslambda.CfnFunction).VpcConfig()
	if network == nil {
		t.Error("got no route from the function to the cache, want one")
	}
}

// Equip panics if it cannot give a function what the limiter needs.
func TestLimits_Equip_mistakes(t *testing.T) {
	_, stack, _ := newAPI(t)
	p := props(t)
	p.Store = ratelimit.ElastiCache
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), p)
	newFunction := func(id string, vpc awsec2.IVpc, role awsiam.IRole) awslambda.Function {
		return awslambda.NewFunction(stack, jsii.String(id), &awslambda.FunctionProps{
			Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("x")),
			Vpc: vpc, Role: role,
		})
	}
	fixed := awsiam.Role_FromRoleArn(stack, jsii.String("Fixed"), jsii.String("arn:aws:iam::123456789012:role/fixed"),
		&awsiam.FromRoleArnOptions{Mutable: jsii.Bool(false)})
	for want, f := range map[string]awslambda.Function{
		"Shop/Elsewhere is in another network than the limits":     newFunction("Elsewhere", awsec2.NewVpc(stack, jsii.String("Vpc"), nil), nil),
		"Shop/Foreign: this app cannot change the function's role": newFunction("Foreign", nil, fixed),
	} {
		if got := panicked(func() { l.Equip(f) }); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// NewLimits rejects a Vpc without the subnets and zones that a cache needs.
func TestNew_vpc(t *testing.T) {
	_, stack, _ := newAPI(t)
	n := 0
	for want, vpc := range map[string]*awsec2.VpcProps{
		"There are no 'Private' subnet groups": {SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("p"),
			SubnetType: awsec2.SubnetType_PUBLIC}}},
		"in 1 zones, want 2 or 3": {MaxAzs: jsii.Number(1), NatGateways: jsii.Number(0),
			SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("i"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}}},
		"": {MaxAzs: jsii.Number(2), NatGateways: jsii.Number(0), SubnetConfiguration: &[]*awsec2.SubnetConfiguration{
			{Name: jsii.String("i"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED},
			{Name: jsii.String("j"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED},
		}},
	} {
		id := "Vpc" + strconv.Itoa(n)
		n++
		p := props(t)
		p.Store, p.Vpc = ratelimit.ElastiCache, awsec2.NewVpc(stack, jsii.String(id), vpc)
		if got := panicked(func() { ratelimit.NewLimits(stack, jsii.String("Limits"+id), p) }); !strings.Contains(got, want) ||
			(want == "") != (got == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// With a Vpc, Zones selects its subnets in these zones.
func TestNew_zones(t *testing.T) {
	_, stack, _ := newAPI(t)
	three := []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}
	vpc := awsec2.Vpc_FromVpcAttributes(stack, jsii.String("Vpc"), &awsec2.VpcAttributes{
		VpcId: jsii.String("vpc-1"), AvailabilityZones: jsii.Strings(three...), IsolatedSubnetIds: jsii.Strings("subnet-a", "subnet-b",
			"subnet-c"),
	})
	for i, c := range []struct {
		zones []string
		want  string
	}{{nil, "[subnet-a subnet-b subnet-c]"}, {three[1:], "[subnet-b subnet-c]"}, {[]string{"eu-central-1a", "eu-central-1d"},
		"in 1 zones, want 2 or 3"}, {[]string{"eu-central-1a", "eu-central-1a"}, "in 1 zones, want 2 or 3"}} {
		p := props(t)
		p.Store, p.Vpc, p.Zones = ratelimit.ElastiCache, vpc, c.zones
		var l *ratelimit.Limits
		got := panicked(func() { l = ratelimit.NewLimits(stack, jsii.String(fmt.Sprint("Limits", i)), p) })
		if got == "" {
			network := stack.Resolve(l.Authorizer().Node().DefaultChild().(awslambda.CfnFunction).VpcConfig()).(map[string]any)
			got = fmt.Sprint(network["subnetIds"])
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.zones, got, c.want)
		}
	}
}

// The subnets can be one parameter, whose number of subnets is unknown.
func TestNew_subnets(t *testing.T) {
	_, stack, _ := newAPI(t)
	subnets := awscdk.NewCfnParameter(stack, jsii.String("Subnets"), nil)
	p := props(t)
	p.Store = ratelimit.ElastiCache
	p.Vpc = awsec2.Vpc_FromVpcAttributes(stack, jsii.String("Vpc"), &awsec2.VpcAttributes{
		VpcId: jsii.String("vpc-1"), AvailabilityZones: jsii.Strings("any"), IsolatedSubnetIds: awscdk.Fn_Split(jsii.String(","),
			subnets.ValueAsString(), nil),
	})
	ratelimit.NewLimits(stack, jsii.String("Limits"), p)
	template := assertions.Template_FromStack(stack, nil)
	ids := map[string]any{"Fn::Split": []any{",", map[string]any{"Ref": "Subnets"}}}
	template.HasResourceProperties(jsii.String("AWS::Lambda::Function"), map[string]any{"VpcConfig": map[string]any{"SubnetIds": ids}})
	template.HasResourceProperties(jsii.String("AWS::ElastiCache::ServerlessCache"), map[string]any{"SubnetIds": ids})
}

// One construct can limit several APIs, in its stack and in others, and APIs in different stacks can have the same name.
// Limits is a construct: it can contain other constructs, and others can depend on it.
func TestLimits_Attach_stacks(t *testing.T) {
	app, stack, own := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	apis := []awsapigateway.RestApi{own}
	for _, scope := range []awscdk.Stack{stack, awscdk.NewStack(app, jsii.String("One"), nil), awscdk.NewStack(app, jsii.String("Two"), nil)} {
		api := awsapigateway.NewRestApi(scope, jsii.String("Second"), &awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
		api.Root().AddMethod(jsii.String("GET"), nil, nil)
		apis = append(apis, api)
	}
	for _, api := range apis {
		l.Attach(api)
		if got, want := panicked(func() { l.Attach(api) }), "are already attached to "+*api.Node().Path(); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	topic := awssns.NewTopic(l, jsii.String("Topic"), nil)
	topic.Node().AddDependency(l)
	if got := *topic.Node().Path(); got != "Shop/Limits/Topic" {
		t.Errorf("path of a construct below the limits: got %s, want Shop/Limits/Topic", got)
	}
	app.Synth(nil)
}

// For an imported API, Attach limits only the methods that this app adds.
func TestLimits_Attach_imported(t *testing.T) {
	app, stack, _ := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	imported := func(id string) awsapigateway.IRestApi {
		return awsapigateway.RestApi_FromRestApiAttributes(stack, jsii.String(id),
			&awsapigateway.RestApiAttributes{RestApiId: jsii.String("id" + id), RootResourceId: jsii.String("root")})
	}
	api, other := imported("Imported"), imported("Other")
	method := func(api awsapigateway.IRestApi) awsapigateway.CfnMethod {
		return api.Root().AddResource(jsii.String("added"), nil).AddMethod(jsii.String("GET"), nil,
			nil).Node().DefaultChild().(awsapigateway.CfnMethod)
	}
	added, unlimited := method(api), method(other)
	l.Attach(api)
	if got := *added.AuthorizationType(); got != "CUSTOM" {
		t.Errorf("method that this app adds: got %s, want CUSTOM", got)
	}
	if got := *unlimited.AuthorizationType(); got != "NONE" {
		t.Errorf("method that another app adds: got %s, want NONE", got)
	}
	app.Synth(nil)
	if len(*assertions.Annotations_FromStack(stack).FindWarning(jsii.String("/Shop/Imported"),
		assertions.Match_StringLikeRegexp(jsii.String("does not deploy this API")))) != 1 {
		t.Error("got no warning that the app does not deploy the API, want one")
	}
	l.Attach(imported("Empty"))
	if got, want := panicked(func() { app.Synth(&awscdk.StageSynthesisOptions{Force: jsii.Bool(true)}) }),
		"Shop/Empty: got no method of the API that this app can limit"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Respond warns if updates of a definition in OpenAPI would remove the gateway responses.
func TestLimits_Respond_mode(t *testing.T) {
	_, stack, _ := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	for mode, want := range map[awsapigateway.RestApiMode]int{
		"": 1, awsapigateway.RestApiMode_OVERWRITE: 1, awsapigateway.RestApiMode_MERGE: 0,
	} {
		id := "Spec" + string(mode)
		l.Respond(awsapigateway.NewSpecRestApi(stack, &id, &awsapigateway.SpecRestApiProps{Mode: mode,
			ApiDefinition: awsapigateway.ApiDefinition_FromInline(map[string]any{"openapi": "3.0.1", "paths": map[string]any{}})}))
		if got := len(*assertions.Annotations_FromStack(stack).FindWarning(jsii.String("/Shop/"+id),
			assertions.Match_StringLikeRegexp(jsii.String("set Mode to RestApiMode_MERGE")))); got != want {
			t.Errorf("mode %q: got %d warnings, want %d", mode, got, want)
		}
	}
}

// A grant allows only its own actions on the records table. GrantPublishRules
// allows them only on the items of rules, and the item of the deployment's rules only for reads.
func TestLimits_grants(t *testing.T) {
	app, stack, api := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	l.Attach(api)
	role := func(id string) awsiam.Role {
		return awsiam.NewRole(stack, jsii.String(id), &awsiam.RoleProps{AssumedBy: awsiam.NewAccountRootPrincipal()})
	}
	l.GrantManageKeys(role("Keys"))
	l.GrantPublishRules(role("Rules"))
	user := awsiam.NewArnPrincipal(jsii.String("arn:aws:iam::123456789012:user/alice"))
	if got := panicked(func() { l.GrantManageKeys(user) }); !strings.Contains(got, "the principal, which lacks dynamodb:DeleteItem") {
		t.Errorf("a principal outside the app: got the panic %q, want one", got)
	}
	resources := app.Synth(nil).GetStackByName(jsii.String("Shop")).Template().(map[string]any)["Resources"].(map[string]any)
	const items = `"Condition":{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":[%s]},"Null":{"dynamodb:LeadingKeys":"false"}},` +
		`"Effect":"Allow"`
	for prefix, statements := range map[string][]string{
		"KeysDefaultPolicy": {`"Action":["dynamodb:DeleteItem","dynamodb:GetItem","dynamodb:PutItem","dynamodb:Scan"],"Effect":"Allow"`},
		"RulesDefaultPolicy": {`"Action":["dynamodb:DeleteItem","dynamodb:GetItem","dynamodb:PutItem"],` + fmt.Sprintf(items,
			`"rules","rules#*"`), `"Action":"dynamodb:GetItem",` + fmt.Sprintf(items, `"deployedrules#test"`)},
	} {
		found := false
		for id, r := range resources {
			if strings.HasPrefix(id, prefix) {
				found = true
				got := text(t, r.(map[string]any)["Properties"].(map[string]any)["PolicyDocument"])
				for _, want := range statements {
					if n := len(statements); !strings.Contains(got, want) || strings.Count(got, "LimitsRecords") != n ||
						strings.Count(got, "Effect") != n {
						t.Errorf("%s: got %s, want %s on the records, one of %d statements", id, got, want, n)
					}
				}
			}
		}
		if !found {
			t.Errorf("policies: got none whose id begins with %s, want one", prefix)
		}
	}
}

// The function Log, its log subscription and its permissions exist only if a foreign back end has something to report.
func TestLimits_reports(t *testing.T) {
	for name, want := range map[string]struct {
		rules              string
		weir, reports, log bool
	}{
		"requests": {rules: "rules.json"}, "failures": {rules: "count.json", reports: true, log: true}, "cost": {rules: "cost.json",
			reports: true}, "Weir's handler": {rules: "count.json", weir: true},
	} {
		app, stack, _ := newAPI(t)
		p := props(t)
		p.Rules, p.WeirBehind = want.rules, want.weir
		limits := ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		limits.WatchAccessLog(stack, awslogs.NewLogGroup(stack, jsii.String("Access"), nil))
		if fields := limits.AccessLogFields(); len(fields) != map[bool]int{true: 4, false: 1}[want.log] || fields["responseType"] == "" {
			t.Errorf("%s: got the fields %v in the access log, want those of reports: %t", name, fields, want.log)
		}
		role := awsiam.NewRole(stack, jsii.String("BackEnd"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		})
		refused := panicked(func() { limits.ReportFunction().GrantInvoke(role) })
		if strings.Contains(refused, "nothing is reported") == want.reports {
			t.Errorf("%s: ReportFunction: got the panic %q, want one: %t", name, refused, !want.reports)
		}
		made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
		app.Synth(nil)
		for part, wanted := range map[string]bool{
			`"WEIR_FUNCTION":"log"`: want.reports, `["mackey"]`: want.reports,
			`{"Action":"lambda:InvokeFunction","Effect":"Allow","Resource":[{"Fn::GetAtt":["LimitsLog`: want.reports,
			`"AWS::Logs::SubscriptionFilter"`: want.log, `"Principal":"logs.amazonaws.com","SourceAccount":{"Ref":"AWS::AccountId"},` +
				`"SourceArn":{"Fn::GetAtt":["Access`: want.log,
			`"FilterPattern":"{ $.report != \"-\" }"`: want.log, `"BACK_END":"weir"`: want.weir,
		} {
			if strings.Contains(made, part) != wanted {
				t.Errorf("%s: got a template with %s: %t, want %t", name, part, !wanted, wanted)
			}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
