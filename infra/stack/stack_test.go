package stack_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// Every method except OPTIONS has the authorizer. Neither its results nor answers are cached.
func TestStack_authorizer(t *testing.T) {
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			made := templateOf(t, change)
			id, authorizer := made.one(t, "AWS::ApiGateway::Authorizer", "")
			if p := authorizer.Properties; p["AuthorizerResultTtlInSeconds"] != 0.0 || p["Type"] != "REQUEST" || p["IdentitySource"] != "" {
				t.Errorf("authorizer: got %s, want type REQUEST, no cache and no identity source", text(t, p))
			}
			ids, methods := made.of("AWS::ApiGateway::Method")
			limited := 0
			for i, m := range methods {
				p := m.Properties
				switch open := p["HttpMethod"] == "OPTIONS"; {
				case open && p["AuthorizationType"] != "NONE":
					t.Errorf("%s: got a limited preflight, want no limit", ids[i])
				case !open && (p["AuthorizationType"] != "CUSTOM" || text(t, p["AuthorizerId"]) != `{"Ref":"`+id+`"}`):
					t.Errorf("%s: got %s, want a limited method", ids[i], text(t, p))
				case !open:
					limited++
				}
			}
			if limited != 4 {
				t.Errorf("limited methods: got %d, want 4", limited)
			}
			_, stage := made.one(t, "AWS::ApiGateway::Stage", "")
			if cached := stage.Properties["CacheClusterEnabled"]; cached != nil && cached != false {
				t.Error("got a cache of the stage, want none, because all callers would share it")
			}
		})
	}
}

// The settings of paths and API keys are variables of the functions that decide.
func TestStack_variables(t *testing.T) {
	given := map[string]string{"basePath": "/v1,/orders/v2", "apiKeyHeader": "x-partner-key", "foreignApiKeys": "refuse"}
	read, err := stack.Read([]byte("{}"), given)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(read.Variables, settings(t, several).Variables) {
		t.Fatalf("got the variables %v, want those of several", read.Variables)
	}
	made := templateOf(t, several)
	for _, name := range []string{"LimitsAuthorizer", "LimitsHandler"} {
		_, function := made.one(t, "AWS::Lambda::Function", name)
		variables := function.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
		if got, want := []any{variables["BASE_PATH"], variables["API_KEY_HEADER"], variables["FOREIGN_API_KEYS"]},
			[]any{"/v1,/orders/v2", "x-partner-key", "refuse"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// The 429 has the values of the authorizer's context.
func TestStack_refusal(t *testing.T) {
	made := templateOf(t, everything)
	_, responses := made.of("AWS::ApiGateway::GatewayResponse")
	statuses := map[string]any{}
	for _, r := range responses {
		statuses[r.Properties["ResponseType"].(string)] = r.Properties["StatusCode"]
		parameters := r.Properties["ResponseParameters"].(map[string]any)
		if origin := parameters["gatewayresponse.header.Access-Control-Allow-Origin"]; origin != "'*'" {
			t.Errorf("%s: got the allowed origin %v, want '*'", r.Properties["ResponseType"], origin)
		}
		if r.Properties["ResponseType"] != "ACCESS_DENIED" {
			continue
		}
		for field, key := range contract.FieldKeys() {
			if got := parameters["gatewayresponse.header."+field]; got != "context.authorizer."+key {
				t.Errorf("%s: got %v, want the value of %s in the context", field, got, key)
			}
		}
		body := r.Properties["ResponseTemplates"].(map[string]any)["application/json"].(string)
		for part := range strings.SplitSeq(body, "$context.authorizer.") {
			key, _, _ := strings.Cut(part, `"`)
			key, _, _ = strings.Cut(key, ",")
			if !strings.HasPrefix(part, "{") && !slices.Contains(contract.BodyKeys(), key) {
				t.Errorf("body: got the value of %s, want only values of contract.BodyKeys", key)
			}
		}
	}
	want := map[string]any{
		"ACCESS_DENIED": "429", "UNAUTHORIZED": "401", "AUTHORIZER_FAILURE": "503", "AUTHORIZER_CONFIGURATION_ERROR": "503",
		"THROTTLED": "429", "QUOTA_EXCEEDED": "429", "DEFAULT_4XX": nil, "DEFAULT_5XX": nil,
	}
	if text(t, statuses) != text(t, want) {
		t.Errorf("got %s\nwant %s", text(t, statuses), text(t, want))
	}
}

func TestStack_table(t *testing.T) {
	made := templateOf(t)
	_, counters := made.one(t, "AWS::DynamoDB::Table", "LimitsCounters")
	if got, want := text(t, counters.Properties["TimeToLiveSpecification"]), fmt.Sprintf(`{"AttributeName":%q,"Enabled":true}`,
		dynamostore.TTLAttribute); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, prefix := range []string{"LimitsCounters", "LimitsRecords"} {
		_, table := made.one(t, "AWS::DynamoDB::Table", prefix)
		if got, want := text(t, table.Properties["KeySchema"]), fmt.Sprintf(`[{"AttributeName":%q,"KeyType":"HASH"}]`,
			contract.KeyAttribute); got != want || table.Properties["BillingMode"] != "PAY_PER_REQUEST" {
			t.Errorf("%s: got %s, want %s with on-demand capacity", prefix, got, want)
		}
	}
}

// API Gateway serves a snapshot: a change of the authorizer or of a gateway response creates a new
// deployment. Other changes create none.
func TestStack_deployment(t *testing.T) {
	deployment := func(change func(*stack.Settings)) string {
		id, _ := templateOf(t, change).one(t, "AWS::ApiGateway::Deployment", "")
		return id
	}
	first := deployment(variants["dynamodb"])
	if again := deployment(several); again != first {
		t.Errorf("unchanged API: got the deployments %s and %s, want the same", first, again)
	}
	seen := map[string]string{first: "nothing"}
	for name, change := range map[string]func(*stack.Settings){
		"gateway responses": func(s *stack.Settings) { s.CORSOrigins = []string{"https://one.example"} },
		"other origin":      func(s *stack.Settings) { s.CORSOrigins = []string{"https://two.example"} },
	} {
		id := deployment(change)
		if twin, taken := seen[id]; taken {
			t.Errorf("%s: got the deployment of %s, want a new one", name, twin)
		}
		seen[id] = name
	}
}

// By default, the stack does not replace the account's role for API Gateway's logs. The role outlives the stack, because
// other APIs of the account use it.
func TestStack_logRole(t *testing.T) {
	for role, change := range map[string]func(*stack.Settings){"": variants["dynamodb"], "true": several} {
		read, err := stack.Read([]byte("{}"), map[string]string{"logRole": role})
		if set := settings(t, change).LogRole; err != nil || read.LogRole != set {
			t.Fatalf("logRole=%s: got %t and error %v, want %t", role, read.LogRole, err, set)
		}
		made, want := templateOf(t, change), map[string]int{"true": 1}[role]
		ids, _ := made.of("AWS::ApiGateway::Account")
		retained := 0
		for id, r := range made.Resources {
			if (r.Type == "AWS::ApiGateway::Account" || strings.HasPrefix(id, "RestCloudWatchRole")) && r.DeletionPolicy == "Retain" &&
				r.UpdateReplacePolicy == "Retain" {
				retained++
			}
		}
		if len(ids) != want || retained != 2*want {
			t.Errorf("logRole=%s: got the accounts %v and %d retained resources, want %d and %d", role, ids, retained, want, 2*want)
		}
	}
}

// Only CloudWatch may publish to the alarm topic, and only with TLS.
func TestStack_topic(t *testing.T) {
	_, policy := templateOf(t).one(t, "AWS::SNS::TopicPolicy", "")
	effects := map[string]string{}
	for _, each := range policy.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		statement := each.(map[string]any)
		effects[statement["Effect"].(string)] = text(t, statement["Principal"])
	}
	if want := map[string]string{"Allow": `{"Service":"cloudwatch.amazonaws.com"}`, "Deny": `"*"`}; !maps.Equal(effects, want) {
		t.Errorf("got %v, want %v", effects, want)
	}
}

// Two stages can be in one account: the names of their resources differ.
func TestStack_stages(t *testing.T) {
	a := cdkApp(t)
	names := map[string]string{}
	for _, stageName := range []string{"dev", "prod"} {
		stack.New(a, settings(t, everything, func(s *stack.Settings) { s.Namespace = stageName }))
	}
	assembly := a.Synth(nil)
	for _, made := range *assembly.Stacks() {
		for id, r := range parse(t, []byte(text(t, made.Template()))).Resources {
			for _, property := range []string{"TableName", "FunctionName", "LogGroupName", "RoleName", "TopicName", "AlarmName", "DashboardName",
				"RuleName", "ServerlessCacheName", "UserId", "UserGroupId", "Name"} {
				name, ok := r.Properties[property].(string)
				// such a name need be unique only within its API or function
				if !ok || r.Type == "AWS::ApiGateway::Authorizer" || r.Type == "AWS::Lambda::Alias" {
					continue
				}
				if twin, taken := names[r.Type+" "+name]; taken {
					t.Errorf("%s %s: %s and %s: got the same name %q, want different names", r.Type, property, twin, id, name)
				}
				names[r.Type+" "+name] = id
			}
		}
	}
	if len(names) < 20 {
		t.Errorf("names: got %d, want at least 20", len(names))
	}
}

func TestRead(t *testing.T) {
	for want, context := range map[string]map[string]string{
		"-c arch=riscv: want arm64 or x86_64":                                           {"arch": "riscv"},
		"-c throttle=many: want a whole number of at least 1":                           {"throttle": "many"},
		"-c logRole=yes: want false or true":                                            {"logRole": "yes"},
		"-c maxDelay=2: want a time such as 2s":                                         {"maxDelay": "2"},
		"-c waf=5: want 0, or at least 10":                                              {"waf": "5"},
		"-c stagee=prod: want a setting: ":                                              {"stagee": "prod"},
		"-c stage=My_Stage: want lower-case letters":                                    {"stage": "My_Stage"},
		"-c throttle=0: want a whole number of at least 1":                              {"throttle": "0"},
		"-c cloudfront=true: want nothing; it is no longer a setting; set waf, and put": {"cloudfront": "true"},
		"-c warmWrites=many: want nothing; it is no longer a setting; raise the warm":   {"warmWrites": "many"},
		"stages: stores=dynamodb: want a setting: ":                                     {"stage": "prod"},
		"stages: arch: not a setting of a stage; run make":                              {"stage": "built"},
		"stages: stage: not a setting of a stage; run make":                             {"stage": "test"},
	} {
		_, err := stack.Read([]byte(`{"prod": {"stores": "dynamodb"}, "test": {"stage": "other"}, "built": {"arch": "x86_64"}}`),
			context)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: got %v, want %s", context, err, want)
		}
	}
	if _, err := stack.Read([]byte(`{"prod": {"throttle": 5}}`), nil); err == nil ||
		!strings.Contains(err.Error(), "each setting in quotes") {
		t.Errorf("number without quotes: got error %v, want each setting in quotes", err)
	}
	both := `{"prod": {"throttle": "5", "corsOrigins": "https://a.example,https://b.example"}, "dev": {"throttle": "6"}}`
	s, err := stack.Read([]byte(both), map[string]string{"stage": "prod", "throttle": "7"})
	if err != nil || s.Throttle != 7 || len(s.CORSOrigins) != 2 {
		t.Errorf("got %+v, %v: want the command line to override the stage", s, err)
	}
}

// The CDK's command writes context of its own into cdk.context.json, which is no setting.
func TestRead_contextOfCDK(t *testing.T) {
	given := map[string]string{
		"@aws-cdk/core:checkSecretUsage": "true", "aws:cdk:bundling-stacks": "[]", "aws-cdk:enableDiffNoFail": "true", "cli-telemetry": "false",
		"acknowledged-issue-numbers": "[1]", "availability-zones:account=123456789012:region=eu-central-1": "[]",
		"vpc-provider:account=123456789012:filter.vpc-id=vpc-1:region=eu-central-1:returnAsymmetricSubnets=true": "{}",
	}
	if _, err := stack.Read([]byte(`{}`), given); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// A stage that stages.json does not list gets a warning, no error. Without a stage, there is no
// warning.
func TestRead_unlistedStage(t *testing.T) {
	for stage, want := range map[string]string{
		"prd":  "stages: no settings of stage prd, so the stack has the defaults; want one of dev, prod, or your own stage",
		"prod": "", "": "",
	} {
		s, err := stack.Read([]byte(`{"prod": {}, "dev": {}}`), map[string]string{"stage": stage})
		if err != nil || s.Warning != want {
			t.Errorf("stage %q: got warning %q, error %v, want %q", stage, s.Warning, err, want)
		}
	}
	if s, err := stack.Read([]byte(`{}`), nil); err != nil || s.Warning != "" {
		t.Errorf("no stage: got warning %q, error %v, want none", s.Warning, err)
	}
}
