package stack_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// The tests in this file compare important properties with values written by hand. Golden templates
// do not protect them, because -update accepts every change.

func TestStack_network(t *testing.T) {
	made := templateOf(t, everything)
	_, policy := made.one(t, "AWS::IAM::Policy", "LimitsAuthorizerRole")
	if got, want := statement(t, policy, "Deny"), `{"Action":["ec2:AssignPrivateIpAddresses","ec2:CreateNetworkInterface",`+
		`"ec2:DeleteNetworkInterface","ec2:DescribeNetworkInterfaces","ec2:DescribeSubnets","ec2:UnassignPrivateIpAddresses"],`+
		`"Condition":{"Null":{"lambda:SourceFunctionArn":"false"}},"Effect":"Deny","Resource":"*"}`; got != want {
		t.Errorf("statement about network calls of the code:\n got %s\nwant %s", got, want)
	}
	_, endpoint := made.one(t, "AWS::EC2::VPCEndpoint", "LimitsVpcDynamoDB")
	records, _ := made.one(t, "AWS::DynamoDB::Table", "LimitsRecords")
	if got, want := text(t, endpoint.Properties["PolicyDocument"]),
		`{"Statement":[{"Action":"dynamodb:GetItem","Condition":{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["subjectkey",`+
			`"rules#interventions","secrets","apikey#*","rules","signingkeys"]},"Null":{"dynamodb:LeadingKeys":"false"}},"Effect":"Allow",`+
			`"Principal":"*",`+
			`"Resource":{"Fn::GetAtt":["`+records+`","Arn"]}},`+
			`{"Action":"dynamodb:PutItem","Condition":{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["subjectkey"]},`+
			`"Null":{"dynamodb:LeadingKeys":"false"}},"Effect":"Allow","Principal":"*","Resource":{"Fn::GetAtt":["`+records+
			`","Arn"]}}],"Version":"2012-10-17"}`; got != want {
		t.Errorf("route to DynamoDB:\n got %s\nwant %s", got, want)
	}
	_, user := made.one(t, "AWS::ElastiCache::User", "")
	if got, want := user.Properties["AccessString"], contract.CacheAccess; got != want ||
		text(t, user.Properties["AuthenticationMode"]) != `{"Type":"iam"}` {
		t.Errorf("the cache's user: got %s, want a login by IAM and only the commands of the store", text(t, user.Properties))
	}
	for kind, from := range map[string]string{"AWS::EC2::SecurityGroupIngress": "SourceSecurityGroupId",
		"AWS::EC2::SecurityGroupEgress": "DestinationSecurityGroupId"} {
		_, rule := made.one(t, kind, "")
		if p := rule.Properties; p["FromPort"] != 6379.0 || p["ToPort"] != 6380.0 || p[from] == nil || p["CidrIp"] != nil {
			t.Errorf("%s: got %s, want ports 6379 to 6380 for one security group only", kind, text(t, p))
		}
	}
	if ids, _ := made.of("AWS::EC2::NatGateway"); ids != nil {
		t.Error("got a NAT gateway, want no route to the internet")
	}
}

// Only the function Log is in the network. It can connect only to DynamoDB and to the ports of the brokers.
func TestStack_network_kafka(t *testing.T) {
	made := templateOf(t, toKafka)
	clients, _ := made.one(t, "AWS::EC2::SecurityGroup", "LimitsClients")
	_, in := made.one(t, "AWS::EC2::SecurityGroupIngress", "")
	if p := in.Properties; p["GroupId"] != "sg-0123456789abcdef0" || p["FromPort"] != 9098.0 || p["ToPort"] != 9098.0 ||
		!strings.Contains(text(t, p["SourceSecurityGroupId"]), clients) {
		t.Errorf("rule into the brokers' group: got %s, want port 9098 for the functions only", text(t, p))
	}
	_, group := made.one(t, "AWS::EC2::SecurityGroup", "LimitsClients")
	var ports []any
	for _, rule := range group.Properties["SecurityGroupEgress"].([]any) {
		ports = append(ports, rule.(map[string]any)["ToPort"])
	}
	ids, egress := made.of("AWS::EC2::SecurityGroupEgress")
	for i := range ids {
		ports = append(ports, egress[i].Properties["ToPort"])
	}
	if got := fmt.Sprint(ports); got != "[443 9098]" {
		t.Errorf("rules out of the functions: got ports %s, want [443 9098]", got)
	}
	for _, name := range []string{"LimitsAuthorizer", "LimitsHandler"} {
		if _, f := made.one(t, "AWS::Lambda::Function", name); f.Properties["VpcConfig"] != nil {
			t.Errorf("%s: got the network %s, want none", name, text(t, f.Properties["VpcConfig"]))
		}
		logs, _ := made.one(t, "AWS::Logs::LogGroup", name)
		if _, lines := made.one(t, "AWS::Logs::SubscriptionFilter", strings.Replace(name, "Limits", "LimitsKafka",
			1)); lines.Properties["FilterPattern"] != `{ $.weir = "*" }` || !strings.Contains(text(t, lines.Properties["LogGroupName"]), logs) {
			t.Errorf("%s: got the subscription %s, want all lines of Weir", name, text(t, lines.Properties))
		}
	}
	for _, name := range []string{"LimitsLog"} {
		_, f := made.one(t, "AWS::Lambda::Function", name)
		vpc := text(t, f.Properties["VpcConfig"])
		if !strings.Contains(vpc, "subnet-0123456789abcdef0") || !strings.Contains(vpc, "subnet-0123456789abcdef1") ||
			!strings.Contains(vpc, clients) {
			t.Errorf("%s: got the network %s, want both subnets of the brokers and the security group of the functions", name, vpc)
		}
	}
}

// statement returns, as JSON, the statements of a policy that have this Effect.
func statement(t *testing.T, policy resource, effect string) (found string) {
	t.Helper()
	for _, each := range policy.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		if s := each.(map[string]any); s["Effect"] == effect {
			found += text(t, s)
		}
	}
	return found
}

// The VPC has the chosen zones, or else the first two of the region.
func TestStack_network_zones(t *testing.T) {
	for want, change := range map[string]func(*stack.Settings){
		`["eu-central-1b","eu-central-1c"]`:                                           inZones,
		`[{"Fn::Select":[0,{"Fn::GetAZs":""}]},{"Fn::Select":[1,{"Fn::GetAZs":""}]}]`: elasticache,
	} {
		_, subnets := templateOf(t, change).of("AWS::EC2::Subnet")
		var zones []any
		for _, s := range subnets {
			zones = append(zones, s.Properties["AvailabilityZone"])
		}
		if got := text(t, zones); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// newTableWrites is the number of write units a second that a new on-demand table accepts:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html
const newTableWrites = 4000

// With the default throttle, even a flood of the most expensive requests to all APIs writes no more
// than a new table accepts. The documents name the default.
func TestStack_throughput(t *testing.T) {
	_, stage := templateOf(t).one(t, "AWS::ApiGateway::Stage", "")
	throttle := stage.Properties["MethodSettings"].([]any)[0].(map[string]any)["ThrottlingRateLimit"].(float64)
	if got := throttle * 2 * dearest(t); got > newTableWrites {
		t.Errorf("writes a second that the throttles admit: got %v, want at most the %d of a new table", got, newTableWrites)
	}
	for _, file := range []string{"../README.md", "../OPERATIONS.md", "../../local/weir/serve.go"} {
		if want := fmt.Sprintf("%v requests a second", throttle); !strings.Contains(read(t, file), want) {
			t.Errorf("%s: got no text %q, want it", file, want)
		}
	}
}

// dearest returns the number of writes of the most expensive request under the repository's rules:
// one per subject.
func dearest(t *testing.T) float64 {
	t.Helper()
	r, err := rules.Parse([]byte(read(t, "../../functions/rules.json")), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, caller := range []caller.Caller{{User: "u", APIKey: "k"}, {User: "u"}, {}, {Rejected: true}} {
		for _, tier := range append(r.Tiers(), "") {
			for i := range r.Len() {
				pattern, method := r.Endpoint(i)
				caller.IP, caller.Tier = netip.MustParsePrefix("192.0.2.1/32"), tier
				subjects := map[string]bool{}
				for _, c := range r.Charges(nil, method, rules.EncodedPath("/"+strings.Trim(strings.ReplaceAll(pattern, "{id}", "7"), "/*")), caller) {
					subjects[c.Subject.String()] = true
				}
				if pattern == "/api/v1/login" {
					subjects["the name"] = true // the handler also charges the login's user name
				}
				most = max(most, len(subjects))
			}
		}
	}
	return float64(most)
}

// When the stack is deleted, the records table stays and the counter table is deleted.
func TestStack_removalPolicies(t *testing.T) {
	ids, tables := templateOf(t).of("AWS::DynamoDB::Table")
	kept := map[string]string{}
	for i, r := range tables {
		kept[ids[i][:len(ids[i])-8]] = r.DeletionPolicy + " " + r.UpdateReplacePolicy
	}
	if text(t, kept) != `{"LimitsCounters":"Delete Delete","LimitsRecords":"Retain Retain"}` {
		t.Errorf("removal policies: got %v, want Retain for the records and Delete for the counters", kept)
	}
	_, records := templateOf(t).one(t, "AWS::DynamoDB::Table", "LimitsRecords")
	if p := records.Properties; p["DeletionProtectionEnabled"] != true ||
		text(t, p["PointInTimeRecoverySpecification"]) != `{"PointInTimeRecoveryEnabled":true}` {
		t.Errorf("records table: got %s, want deletion protection and point-in-time recovery", text(t, p))
	}
	made := templateOf(t, withRecords)
	if ids, _ := made.of("AWS::DynamoDB::Table"); len(ids) != 1 || !strings.Contains(text(t, made.Resources), ":table/weir-dev-records") {
		t.Errorf("with an existing records table: got the new tables %v, want only the table of counters", ids)
	}
}

// Metric filters and saved queries match the log lines that functions write.
func TestStack_logs(t *testing.T) {
	made := templateOf(t)
	_, filter := made.one(t, "AWS::Logs::MetricFilter", "")
	_, stage := made.one(t, "AWS::ApiGateway::Stage", "")
	var line map[string]string
	if err := json.Unmarshal([]byte(stage.Properties["AccessLogSetting"].(map[string]any)["Format"].(string)), &line); err != nil {
		t.Fatal(err)
	}
	if got := filter.Properties["FilterPattern"]; got != `{ $.responseType = "AUTHORIZER_*" }` ||
		line["responseType"] != "$context.error.responseType" {
		t.Errorf("metric filter: got %s, want one that matches the access log %v", got, line)
	}
	for _, value := range line {
		if strings.Contains(value, "identity") || strings.Contains(value, "principal") {
			t.Errorf("access log: got the field %s, want none that identifies the caller", value)
		}
	}
	_, query := made.one(t, "AWS::Logs::QueryDefinition", "LimitsQuerywhoislimited")
	for _, want := range []string{`filter weir = \"refused\"`, "sum(`count`) as requests", "by subject, rule, `limit`", "LimitsAuthorizerLogs",
		"LimitsHandlerLogs"} {
		if body := text(t, query.Properties); !strings.Contains(body, want) {
			t.Errorf("query of refused callers: got %s, want %s in it", body, want)
		}
	}
}

// The deployment publishes the document of the bundles: it is a property of the custom resource, so an update
// that changes it invokes the function, and so does the rollback of the update. The function can write
// only this item, and an event that waits for longer than CloudFormation publishes nothing.
func TestStack_publisher(t *testing.T) {
	content := synthesize(t).template
	made := parse(t, content)
	function, _ := made.one(t, "AWS::Lambda::Function", "LimitsPublisher")
	authorizer, f := made.one(t, "AWS::Lambda::Function", "LimitsAuthorizer")
	handler, _ := made.one(t, "AWS::Lambda::Function", "LimitsHandler")
	records, _ := made.one(t, "AWS::DynamoDB::Table", "LimitsRecords")
	_, published := made.one(t, "Custom::WeirRules", "")
	packed, err := base64.StdEncoding.DecodeString(published.Properties[contract.PropertyDocument].(string))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if document, err := io.ReadAll(r); err != nil || string(document) != read(t, "testdata/rules.json") {
		t.Errorf("document: got %s, error %v, want testdata/rules.json", document, err)
	}
	delete(published.Properties, contract.PropertyDocument)
	if got, want := text(t, published.Properties), `{"Namespace":"dev","ServiceTimeout":"300","ServiceToken":{"Fn::GetAtt":["`+function+
		`","Arn"]},"Table":{"Ref":"`+records+`"}}`; got != want {
		t.Errorf("other properties: got %s, want %s", got, want)
	}
	if !strings.Contains(string(content), `"DependsOn": [
    "`+authorizer+`",
    "`+handler+`"
   ]`) {
		t.Errorf("publication: want it after the updates of %s and %s", authorizer, handler)
	}
	_, policy := made.one(t, "AWS::IAM::Policy", "LimitsPublisherRole")
	if got, want := text(t, policy.Properties), onlyRecord("dynamodb:PutItem", contract.DeployedRulesKey("dev")); !strings.Contains(got,
		want) || strings.Count(got, "dynamodb:") != 3 {
		t.Errorf("policy: got %s, want only %s", got, want)
	}
	_, invoked := made.one(t, "AWS::Lambda::EventInvokeConfig", "LimitsPublisher")
	if got := invoked.Properties["MaximumEventAgeInSeconds"]; got != 300.0 {
		t.Errorf("age of an event: got at most %v seconds, want 300, the timeout of the resource", got)
	}
	if got := f.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)["RULES_FROM"]; got != contract.RulesDeployment {
		t.Errorf("RULES_FROM: got %v, want %s", got, contract.RulesDeployment)
	}
	if ids, _ := templateOf(t, everything).of("Custom::WeirRules"); len(ids) > 0 {
		t.Errorf("rules from the table: got the resources %v, want none", ids)
	}
}

// Functions read the rules in the records table if the settings say so.
func TestStack_rulesFrom(t *testing.T) {
	made := templateOf(t, fromTable)
	_, f := made.one(t, "AWS::Lambda::Function", "LimitsAuthorizer")
	if variables := f.Properties["Environment"].(map[string]any)["Variables"].(map[string]any); variables["RULES_FROM"] != "table" ||
		f.Properties["Layers"] != nil {
		t.Errorf("rules from the table: got variables %v and layers %v, want RULES_FROM=table and no layers", variables, f.Properties["Layers"])
	}
}

func TestStack_waf(t *testing.T) {
	_, acl := templateOf(t, everything).one(t, "AWS::WAFv2::WebACL", "")
	if got, want := text(t, acl.Properties["Rules"].([]any)[0].(map[string]any)["Statement"]),
		`{"RateBasedStatement":{"AggregateKeyType":"IP","EvaluationWindowSec":300,"Limit":2000}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
