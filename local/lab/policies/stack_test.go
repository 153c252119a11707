package policies_test

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// stack is a golden template, with the conditions evaluated.
type stack struct {
	functions map[string]template.Function // key: value of WEIR_FUNCTION
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }

	redis bool // value of the condition UsesElastiCache; all other conditions are false
}

type resource struct {
	Type       string
	Properties map[string]any
}

type policy = map[string]any

func parse(t *testing.T, path string) *stack {
	t.Helper()
	s := &stack{functions: map[string]template.Function{}}
	for _, f := range templatetest.Parse(t, path).Functions() {
		if role := f.Environment["WEIR_FUNCTION"]; role != "" {
			s.functions[role] = f
		}
	}
	if err := json.Unmarshal(templatetest.Read(t, path), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// policies returns the policies of a function's role. For a function in a VPC of the stack, it also
// returns the policies of the VPC endpoints, by service.
func (s *stack) policies(t *testing.T, function string) (role []policy, endpoints map[string][]policy) {
	t.Helper()
	endpoints = map[string][]policy{}
	f := s.Resources[s.functions[function].ID].Properties
	of := text(t, f["Role"].(map[string]any)["Fn::GetAtt"].([]any)[0])
	for id, r := range s.Resources {
		switch {
		case text(t, id) == of && (r.Properties["ManagedPolicyArns"] != nil || r.Properties["Policies"] != nil),
			r.Type == "AWS::IAM::ManagedPolicy" || r.Type == "AWS::IAM::RolePolicy":
			t.Errorf("%s: got policies in %s, want them in resources of the type AWS::IAM::Policy, which this test evaluates", function, id)
		case r.Type == "AWS::IAM::Policy" && strings.Contains(text(t, r.Properties["Roles"]), of):
			role = append(role, s.arns(r.Properties["PolicyDocument"]).(policy))
		case r.Type == "AWS::EC2::VPCEndpoint" && f["VpcConfig"] != nil:
			service := endpointService.FindStringSubmatch(text(t, r.Properties["ServiceName"]))[1]
			endpoints[service] = append(endpoints[service], s.arns(r.Properties["PolicyDocument"]).(policy))
		}
	}
	if len(role) == 0 {
		t.Fatalf("%s: got no policy, want one", function)
	}
	return role, endpoints
}

// endpointService matches the service in an endpoint's service name, such as dynamodb.
var endpointService = regexp.MustCompile(`\.([a-z]+)[a-z-]*"\]\]}$`)

// arn returns an ARN in the account and region of the tests.
func arn(service, resource string) string {
	return "arn:aws:" + service + ":us-east-1:123456789012:" + resource
}

func tableARN(id string) string { return arn("dynamodb", "table/"+id) }

// arnOf returns the ARN of a resource of the stack. A resource without a name has its logical id as
// name.
func (s *stack) arnOf(id string) string {
	r := s.Resources[id]
	name := func(property string) string { text, _ := s.arns(r.Properties[property]).(string); return text }
	switch r.Type {
	case "AWS::CloudFront::KeyValueStore": // an ARN without a region
		return "arn:aws:cloudfront::123456789012:key-value-store/" + id
	case "AWS::Kinesis::Stream":
		return arn("kinesis", "stream/"+id)
	case "AWS::ElastiCache::ServerlessCache":
		return arn("elasticache", "serverlesscache:"+name("ServerlessCacheName"))
	case "AWS::ElastiCache::User":
		return arn("elasticache", "user:"+name("UserId"))
	case "AWS::Logs::LogGroup":
		return arn("logs", "log-group:"+id+":*")
	}
	return tableARN(cmp.Or(name("TableName"), id))
}

// values has the values of pseudo parameters, and of the parameters that functions read.
var values = map[string]string{"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": "123456789012", "Namespace": "main", "BasePath": "", "RequireCredential": "false", "ApiKeyHeader": "x-api-key", "ForeignApiKeys": "ignore", "JwtAlgorithms": "RS256", "ViewerAddress": "weir", "DirectRequests": "source"}

// arns resolves references in v: an attribute becomes the resource's ARN, and a parameter its
// value, or its name if values lacks it.
func (s *stack) arns(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if attribute, ok := v["Fn::GetAtt"].([]any); ok {
			return s.arnOf(attribute[0].(string))
		}
		if name, ok := v["Ref"].(string); ok {
			if value, ok := values[name]; ok {
				return value
			}
			return name
		}
		if choice, ok := v["Fn::If"].([]any); ok {
			if choice[0] == "UsesElastiCache" && s.redis {
				return s.arns(choice[1])
			}
			return s.arns(choice[2])
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, part := range join[1].([]any) {
				parts = append(parts, s.arns(part).(string))
			}
			return strings.Join(parts, join[0].(string))
		}
		made := map[string]any{}
		for k, each := range v {
			made[k] = s.arns(each)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = s.arns(v[i])
		}
		return made
	}
	return v
}

// statement allows one action on one resource. Key is the partition key that its condition
// requires, or "".
type statement struct{ Action, Resource, Key string }

func (s statement) covers(c call) bool {
	return c.Action == s.Action && template.MatchPattern(s.Resource, c.Resource) && (s.Key == "" || slices.ContainsFunc(c.Keys, func(key string) bool { return template.MatchPattern(s.Key, key) }))
}

// statements splits policies into statements of one action and one resource each.
func statements(t *testing.T, policies []policy) (all []statement) {
	t.Helper()
	for _, p := range policies {
		for _, each := range p["Statement"].([]any) {
			s := each.(map[string]any)
			if s["Effect"] != "Allow" {
				continue
			}
			for _, action := range list(s["Action"]) {
				for _, where := range list(s["Resource"]) {
					for _, key := range leadingKeys(t, s["Condition"]) {
						resource, _ := where.(string)
						all = append(all, statement{action.(string), resource, key})
					}
				}
			}
		}
	}
	return all
}

// leadingKeys returns the partition keys that a condition allows. Other conditions do not count.
func leadingKeys(t *testing.T, condition any) (keys []string) {
	t.Helper()
	if condition == nil {
		return []string{""}
	}
	test, _ := condition.(map[string]any)["ForAllValues:StringLike"].(map[string]any)
	for _, each := range list(test["dynamodb:LeadingKeys"]) {
		key, ok := each.(string)
		if !ok {
			key = text(t, condition)
		}
		keys = append(keys, key)
	}
	return keys
}

// list returns v as a list. In a policy, a list of one element can be the element alone.
func list(v any) []any {
	if all, ok := v.([]any); ok {
		return all
	}
	return []any{v}
}

func text(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
