package policies_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// stack is a golden template.
type stack struct {
	functions map[string]template.Function // by the role of the function
	resources map[string]resource
}

type resource struct {
	Type       string
	Properties map[string]any
}

// policy is a policy document.
type policy = map[string]any

func parse(t *testing.T, path string) *stack {
	t.Helper()
	s := &stack{functions: map[string]template.Function{}}
	for _, f := range templatetest.Parse(t, path).Functions() {
		if role := f.Environment["WEIR_FUNCTION"]; role != "" {
			s.functions[role] = f
		}
	}
	var content struct{ Resources map[string]resource }
	if err := json.Unmarshal(templatetest.Read(t, path), &content); err != nil {
		t.Fatal(err)
	}
	s.resources = content.Resources
	return s
}

// policies returns the policies of the role of a function. If the function is in a network of the stack, it
// also returns the policy of the network's endpoint of DynamoDB.
func (s *stack) policies(t *testing.T, function string) (role, endpoints []policy) {
	t.Helper()
	f := s.resources[s.functions[function].ID].Properties
	of := text(t, f["Role"].(map[string]any)["Fn::GetAtt"].([]any)[0])
	for _, r := range s.resources {
		switch {
		case r.Type == "AWS::IAM::Policy" && strings.Contains(text(t, r.Properties["Roles"]), of):
			role = append(role, arns(r.Properties["PolicyDocument"]).(policy))
		case r.Type == "AWS::EC2::VPCEndpoint" && f["VpcConfig"] != nil && strings.HasSuffix(text(t, r.Properties["ServiceName"]), `.dynamodb"]]}`):
			endpoints = append(endpoints, arns(r.Properties["PolicyDocument"]).(policy))
		}
	}
	if len(role) == 0 {
		t.Fatalf("%s: got no policy, want one", function)
	}
	return role, endpoints
}

// tableARN returns the ARN of a table of the stack.
func tableARN(id string) string { return "arn:aws:dynamodb:us-east-1:123456789012:table/" + id }

// arns returns v with an ARN in place of each attribute of a resource. Every resource has the ARN of a
// table, because the calls are calls of DynamoDB.
func arns(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if attribute, ok := v["Fn::GetAtt"].([]any); ok {
			return tableARN(attribute[0].(string))
		}
		made := map[string]any{}
		for k, each := range v {
			made[k] = arns(each)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = arns(v[i])
		}
		return made
	}
	return v
}

// statement permits one action on one resource.
type statement struct{ Action, Resource, Condition string }

// covers reports whether s can be the reason why c is allowed.
func (s statement) covers(c call) bool {
	return c.Action == s.Action && c.Table == s.Resource && (s.Condition == "null" || slices.ContainsFunc(c.Keys, func(key string) bool { return strings.Contains(s.Condition, `"`+key+`"`) }))
}

// statements returns the permissions of policies.
func statements(t *testing.T, policies []policy) (all []statement) {
	t.Helper()
	for _, p := range policies {
		for _, each := range p["Statement"].([]any) {
			s := each.(map[string]any)
			for _, action := range list(s["Action"]) {
				for _, where := range list(s["Resource"]) {
					if s["Effect"] == "Allow" {
						resource, _ := where.(string)
						all = append(all, statement{action.(string), resource, text(t, s["Condition"])})
					}
				}
			}
		}
	}
	return all
}

// list returns v as a list. A policy may contain a single element in place of a list of one.
func list(v any) []any {
	if all, ok := v.([]any); ok {
		return all
	}
	return []any{v}
}

// text returns a value in JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
