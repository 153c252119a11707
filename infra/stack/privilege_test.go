package stack_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// Each function may make only its own calls, on its own resources. Tests of the packages that call
// AWS compare these lists with the SDK's calls.
func TestStack_privilege(t *testing.T) {
	logs := []string{"logs:CreateLogStream", "logs:PutLogEvents"}
	network := []string{"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses"}
	records := slices.Concat(contract.RecordActions(), contract.CreateActions())
	publisher := map[string][]string{"LimitsPublisherLogs": logs, "LimitsRecords": contract.CreateActions()}
	for name, want := range map[string]map[string]map[string][]string{
		"dynamodb": {
			"Authorizer": {"LimitsAuthorizerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsRecords": records},
			"Publisher":  publisher,
			"Handler":    {"LimitsHandlerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsRecords": records},
		},
		"regions": {
			"Authorizer": {"LimitsAuthorizerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsGlobalRecords": records,
				otherCounters("eu-central-1"): dynamostore.Actions(), otherCounters("ap-southeast-1"): dynamostore.Actions()},
			"Handler": {"LimitsHandlerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsGlobalRecords": records,
				otherCounters("eu-central-1"): dynamostore.Actions(), otherCounters("ap-southeast-1"): dynamostore.Actions()},
		},
		"regions-two": {
			"Authorizer": {"LimitsAuthorizerLogs": logs, "LimitsCounters": dynamostore.Actions(), recordsIn("us-east-1"): contract.RecordActions(),
				recordsIn("eu-central-1"): contract.CreateActions(), otherCounters("eu-central-1"): dynamostore.Actions(),
				otherCounters("ap-southeast-1"): dynamostore.Actions()},
		},
		"everything": {
			"Authorizer": {"LimitsAuthorizerLogs": logs, "LimitsCache": {"elasticache:Connect"}, "LimitsUser": {"elasticache:Connect"},
				"LimitsRecords": records, "*": network},
			"Handler": {"LimitsHandlerLogs": logs, "LimitsCache": {"elasticache:Connect"}, "LimitsUser": {"elasticache:Connect"},
				"LimitsRecords": records, "*": network},
			"SigningKeys": {"LimitsSigningKeysLogs": logs, "LimitsRecords": contract.CreateActions()},
		},
		"kafka": {
			"Authorizer": {"LimitsAuthorizerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsRecords": records},
			"Publisher":  publisher,
			"Log": {"LimitsLogLogs": logs, "LimitsRecords": contract.RecordActions(), kafkaCluster: contract.KafkaClusterActions(),
				kafkaTopic: contract.KafkaTopicActions(), "*": network},
			"Handler": {"LimitsHandlerLogs": logs, "LimitsCounters": dynamostore.Actions(), "LimitsRecords": records},
		},
	} {
		made := templateOf(t, variants[name])
		for function, resources := range want {
			_, policy := made.one(t, "AWS::IAM::Policy", "Limits"+function+"Role")
			got := allowed(t, made, policy)
			for resource, actions := range resources {
				if !sameActions(got[resource], actions) {
					t.Errorf("%s: %s: got the permissions %v on %s, want %v", name, function, got[resource], resource, actions)
				}
				delete(got, resource)
			}
			for resource, actions := range got {
				t.Errorf("%s: %s: got the permission %v on %s, want none", name, function, actions, resource)
			}
		}
		_, roles := made.of("AWS::IAM::Role")
		for _, r := range roles {
			if text(t, r.Properties["AssumeRolePolicyDocument"]) != "" && r.Properties["ManagedPolicyArns"] != nil &&
				!strings.Contains(text(t, r.Properties), "AmazonAPIGatewayPushToCloudWatchLogs") {
				t.Errorf("%s: got a role with managed policies: %s, want none", name, text(t, r.Properties))
			}
		}
	}
}

// otherCounters is the ARN of the table of counters in another region, as policies contain it.
func otherCounters(region string) string {
	return `{"Fn::Join":["",["arn:aws:dynamodb:` + region + `:",{"Ref":"AWS::AccountId"},":table/weir-dev-counters"]]}`
}

// recordsIn is the ARN of the records in a region, as policies of another region than the first contain it.
func recordsIn(region string) string {
	return strings.Replace(otherCounters(region), "counters", "records", 1)
}

// ARNs of an existing Kafka cluster, as policies contain them.
const (
	kafkaCluster = `"arn:aws:kafka:eu-central-1:123456789012:cluster/decisions/0a1b2c3d-0000-1111-2222-333344445555-6"`
	kafkaTopic   = `"arn:aws:kafka:eu-central-1:123456789012:topic/decisions/0a1b2c3d-0000-1111-2222-333344445555-6/decisions"`
)

// A function can write only its own items of the records table, and no API keys. It can read only the items that
// it needs: without counts, no key of MACs.
func TestStack_privilege_records(t *testing.T) {
	made := templateOf(t, everything)
	for function, keys := range map[string][]string{
		"SigningKeys": {contract.SigningKeysKey}, "Authorizer": {contract.SubjectKeyKey}, "Handler": {contract.SubjectKeyKey},
	} {
		_, policy := made.one(t, "AWS::IAM::Policy", "Limits"+function+"Role")
		got := text(t, policy.Properties)
		for _, key := range keys {
			if want := onlyRecord("dynamodb:PutItem", key); !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", function, got, want)
			}
		}
		if n := strings.Count(got, "dynamodb:PutItem"); n != len(keys) {
			t.Errorf("%s: got %d permissions to write records, want %d: %s", function, n, len(keys), got)
		}
	}
	deciding := []string{contract.SubjectKeyKey, contract.InterventionsKey, contract.SecretsKey, contract.APIKeyPrefix + "*",
		contract.DeployedRulesKey("dev")}
	for name, want := range map[string]map[string][]string{
		"dynamodb":   {"Authorizer": deciding, "Handler": deciding},
		"everything": {"Handler": append(slices.Clone(deciding[:4]), contract.RulesKey, contract.SigningKeysKey), "SigningKeys": nil},
	} {
		made := templateOf(t, variants[name])
		for function, keys := range want {
			_, policy := made.one(t, "AWS::IAM::Policy", "Limits"+function+"Role")
			got, statement := text(t, policy.Properties), onlyRecords("dynamodb:GetItem", keys)
			if reads := strings.Count(got, `"Action":"dynamodb:GetItem"`); reads != min(len(keys), 1) || keys != nil &&
				!strings.Contains(got, statement) {
				t.Errorf("%s: %s: got %d permissions to read records in %s, want only %s", name, function, reads, got, statement)
			}
		}
	}
}

// onlyRecord returns the beginning of a statement that allows an action on one item of the records
// table.
func onlyRecord(action, key string) string {
	return onlyRecords(action, []string{key})
}

// onlyRecords is onlyRecord for several items.
func onlyRecords(action string, keys []string) string {
	return `{"Action":"` + action + `","Condition":{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["` + strings.Join(keys, `","`) +
		`"]},"Null":{"dynamodb:LeadingKeys":"false"}},"Effect":"Allow"`
}

func sameActions(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// allowed returns a policy's actions by resource. A resource of the stack is named by its logical
// id without the CDK's hash, any other by its ARN.
func allowed(t *testing.T, made template, policy resource) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, each := range policy.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		statement := each.(map[string]any)
		if statement["Effect"] != "Allow" {
			continue
		}
		for _, r := range list(statement["Resource"]) {
			where := text(t, r)
			if r == "*" {
				where = "*"
			}
			for id := range maps.Keys(made.Resources) {
				if strings.Contains(where, `"`+id+`"`) {
					where = id[:len(id)-8]
				}
			}
			for _, action := range list(statement["Action"]) {
				all[where] = append(all[where], action.(string))
			}
		}
	}
	return all
}

// list returns v as a list. In a policy, a list of one element can be the element alone.
func list(v any) []any {
	if all, ok := v.([]any); ok {
		return all
	}
	return []any{v}
}
