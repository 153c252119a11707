package policies_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
)

// released returns the policy of a person in a release, for the stack weir.
func released(t *testing.T, name string) policy {
	t.Helper()
	content, err := os.ReadFile("../../../infra/policies/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := json.Unmarshal([]byte(strings.NewReplacer("STACK", "weir", "BUCKET", "code").Replace(string(content))), &p); err != nil {
		t.Fatal(err)
	}
	if size := len(text(t, p)); size > maxPolicy {
		t.Errorf("%s: got %d characters, want at most %d, the limit of IAM for a managed policy", name, size, maxPolicy)
	}
	return p
}

const maxPolicy = 6144

// The operator's policy permits the commands on the tables of the stack, and nothing on others.
func TestPolicies_operator(t *testing.T) {
	requireSimulator(t)
	records, counters := tableARN("weir-LimitsRecords55B37E8D-1ABC"), tableARN("weir-LimitsCounters55B37E8D-1ABC")
	var calls, misses []call
	for _, action := range slices.Concat(contract.KeyActions(), contract.RulesActions()) {
		calls = append(calls, call{Action: action, Resource: records}, call{Action: action, Resource: tableARN("weir-Nested-1X-LimitsRecords5-1")})
		misses = append(misses, call{Action: action, Resource: tableARN("orders")})
	}
	for _, action := range []string{"dynamodb:DeleteItem", "dynamodb:GetItem"} { // weir usage and weir reset
		calls = append(calls, call{Action: action, Resource: counters})
	}
	misses = append(misses, call{Action: "dynamodb:DeleteTable", Resource: records}, call{Action: "dynamodb:UpdateItem", Resource: counters}, call{Action: "iam:CreateRole", Resource: "arn:aws:iam::123456789012:role/weir-x"})
	evaluate(t, "operator", []policy{released(t, "operator.json")}, map[string][]policy{}, calls, misses)
}

// The deployer's policy permits the work on resources of the stack. It reads no API keys, and changes no other
// resources.
func TestPolicies_deployer(t *testing.T) {
	requireSimulator(t)
	role := func(name string) string { return "arn:aws:iam::123456789012:role/" + name }
	calls := []call{
		{Action: "dynamodb:CreateTable", Resource: tableARN("weir-LimitsRecords5-1")}, {Action: "lambda:CreateFunction", Resource: arn("lambda", "function:weir-LimitsAuthorizer5-1")},
		{Action: "lambda:InvokeFunction", Resource: arn("lambda", "function:weir-ApiLimitsPrecheck5-1")}, {Action: "iam:CreateRole", Resource: role("weir-LimitsAuthorizerRole-1")},
		{Action: "elasticache:CreateServerlessCache", Resource: arn("elasticache", "serverlesscache:weir-main")}, {Action: "cloudformation:CreateStack", Resource: arn("cloudformation", "stack/weir/1")},
	}
	misses := []call{
		{Action: "dynamodb:Scan", Resource: tableARN("weir-LimitsRecords5-1")}, {Action: "dynamodb:GetItem", Resource: tableARN("weir-LimitsRecords5-1")}, {Action: "dynamodb:DeleteTable", Resource: tableARN("orders")},
		{Action: "lambda:UpdateFunctionCode", Resource: arn("lambda", "function:orders")}, {Action: "iam:CreateRole", Resource: role("admin")}, {Action: "iam:PassRole", Resource: role("admin")},
		{Action: "iam:PassRole", Resource: role("weir-LimitsAuthorizerRole-1")}, // to a service other than Lambda
		{Action: "cloudformation:DeleteStack", Resource: arn("cloudformation", "stack/orders/1")},
	}
	evaluate(t, "deployer", []policy{released(t, "deployer.json")}, map[string][]policy{}, calls, misses)
}

// unneeded are actions in CloudFormation's schemas for properties that the template does not set.
var unneeded = []string{
	"*:*DataProtectionPolicy", "*:*ResourcePolicy", "*:*ResourcePolicies", "dynamodb:*Item", "dynamodb:*KinesisStreamingDestination", "dynamodb:*Replica", "dynamodb:ImportTable", "dynamodb:Query", "dynamodb:Scan",
	"dynamodb:UpdateContributorInsights", "ec2:*VpcEncryptionControl", "ec2:ModifyVpcTenancy", "elasticache:ModifyReplicationGroup", "elasticfilesystem:*", "events:PutPermission", "firehose:*",
	"iam:*Group*Policy", "iam:*User*Policy", "kinesis:*", "kms:ListAliases", "lambda:AssociateRuntimeAlias", "lambda:PassCapacityProvider", "lambda:PublishVersion",
	"logs:*IndexPolic*", "logs:CreateLogDelivery", "logs:*LogStream", "logs:PutBearerTokenAuthentication", "logs:PutLogEvents", "logs:PutLogGroupDeletionProtection", "s3:GetObjectMetadata", "s3:REST.PUT.OBJECT", "s3files:*", "vpc-lattice:*", "vpce:*",
}

// The deployer's policy has each action that CloudFormation's schemas name for the template's resources, except the
// unneeded ones, and no other.
func TestPolicies_deployerActions(t *testing.T) {
	c := exec.CommandContext(t.Context(), filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python"), "../../../infra/tools/deployer_actions.py", "../../../infra/standalone/weir.template.json")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, s := range statements(t, []policy{released(t, "deployer.json")}) {
		allowed = append(allowed, s.Action)
	}
	matches := func(patterns []string, action string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := path.Match(pattern, action); return ok })
	}
	named := strings.Fields(string(out))
	for _, action := range named {
		if got, want := matches(allowed, action), !matches(unneeded, action); want && !got {
			t.Errorf("%s: got no statement that permits it, want one, or an entry in unneeded", action)
		}
	}
	named = append(named, "cloudformation:CreateStack", "s3:PutObject", "lambda:InvokeFunction") // the stack, its template, and its custom resources
	for _, pattern := range allowed {
		if !slices.ContainsFunc(named, func(action string) bool { ok, _ := path.Match(pattern, action); return ok }) {
			t.Errorf("%s: got no resource of the template that needs it, want one", pattern)
		}
	}
}
