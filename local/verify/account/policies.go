package account

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/weir-limits/weir/local/verify"
)

const policyType = "AWS::IAM::Policy"

// inline is a policy of the template and the role that has it.
type inline struct {
	Resource
	role, name string
}

func (s *Stack) inlines() (all []inline) {
	roles := map[string]bool{}
	for _, f := range s.weirFunctions() {
		role, _ := f.Properties["Role"].(map[string]any)
		if list, ok := role["Fn::GetAtt"].([]any); ok && len(list) > 0 {
			roles[fmt.Sprint(list[0])] = true
		}
	}
	for _, r := range s.of(policyType) {
		list, _ := r.Properties["Roles"].([]any)
		for _, each := range list {
			reference, _ := each.(map[string]any)
			if id := fmt.Sprint(reference["Ref"]); roles[id] {
				role, _ := s.find(id)
				all = append(all, inline{r, role.Physical, fmt.Sprint(r.Properties["PolicyName"])})
			}
		}
	}
	return all
}

func (s *Stack) rolePolicies(ctx context.Context) (verify.Observation, error) {
	var problems []string
	policies := s.inlines()
	for _, p := range policies {
		document, err := s.document(ctx, p)
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", p.ID, err)
		}
		if d := s.differs(p.ID, p.Properties["PolicyDocument"], document); d != "" {
			problems = append(problems, d)
		}
		others, err := s.otherPolicies(ctx, p, policies)
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", p.ID, err)
		}
		problems = append(problems, others...)
	}
	if len(policies) == 0 {
		return skipped("the stack has no policy of a function"), nil
	}
	return verdict("the policies of the template, and no other", fmt.Sprintf("%d policies", len(policies)), problems), nil
}

// document returns a policy as IAM has it.
func (s *Stack) document(ctx context.Context, p inline) (document any, err error) {
	out, err := s.roles.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &p.role, PolicyName: &p.name})
	if err != nil {
		return nil, err
	}
	text, err := url.PathUnescape(aws.ToString(out.PolicyDocument))
	if err != nil {
		return nil, err
	}
	return document, json.Unmarshal([]byte(text), &document)
}

// otherPolicies describes the policies that a role has in the account, but not in the template.
func (s *Stack) otherPolicies(ctx context.Context, p inline, known []inline) (problems []string, err error) {
	names, err := s.roles.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: &p.role})
	if err != nil {
		return nil, err
	}
	for _, name := range names.PolicyNames {
		if !slices.ContainsFunc(known, func(k inline) bool { return k.role == p.role && k.name == name }) {
			problems = append(problems, fmt.Sprintf("%s: the role also has the policy %s", p.ID, name))
		}
	}
	attached, err := s.roles.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &p.role})
	if err != nil {
		return nil, err
	}
	for _, each := range attached.AttachedPolicies {
		problems = append(problems, fmt.Sprintf("%s: the role also has the managed policy %s", p.ID, aws.ToString(each.PolicyName)))
	}
	return problems, nil
}

// leadingKeys is the condition key that restricts a permission to certain items.
const leadingKeys = "dynamodb:LeadingKeys"

// question is a call with the expected answer: whether a role may make the call.
type question struct {
	action, resource string
	key              string // the leading key, or ""
	allowed          bool
}

// rolePermissions simulates the calls that the template permits, and similar calls.
func (s *Stack) rolePermissions(ctx context.Context) (verify.Observation, error) {
	var problems []string
	simulated := 0
	for _, p := range s.inlines() {
		document, err := s.document(ctx, p)
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", p.ID, err)
		}
		role, err := s.roles.GetRole(ctx, &iam.GetRoleInput{RoleName: &p.role})
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", p.ID, err)
		}
		for _, q := range s.questions(p, document) {
			answer, err := s.simulate(ctx, aws.ToString(role.Role.Arn), q)
			if err != nil {
				return verify.Observation{}, err
			}
			simulated++
			if allowed := answer == types.PolicyEvaluationDecisionTypeAllowed; allowed != q.allowed {
				problems = append(problems, fmt.Sprintf("%s: %s with the key %q: got %s, want allowed %t", p.ID, q.action, q.key, answer, q.allowed))
			}
		}
	}
	if simulated == 0 {
		return skipped("the stack has no policy of DynamoDB"), nil
	}
	return verdict("the calls of the functions allowed, similar calls denied", fmt.Sprintf("%d answers", simulated), problems), nil
}

func (s *Stack) simulate(ctx context.Context, role string, q question) (types.PolicyEvaluationDecisionType, error) {
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &role, ActionNames: []string{q.action}, ResourceArns: []string{q.resource}}
	if q.key != "" {
		in.ContextEntries = []types.ContextEntry{{ContextKeyName: aws.String(leadingKeys), ContextKeyType: types.ContextKeyTypeEnumStringList, ContextKeyValues: []string{q.key}}}
	}
	out, err := s.roles.SimulatePrincipalPolicy(ctx, in)
	if err != nil {
		return "", err
	}
	if len(out.EvaluationResults) != 1 {
		return "", fmt.Errorf("simulation of %s: got %d results, want one", q.action, len(out.EvaluationResults))
	}
	return out.EvaluationResults[0].EvalDecision, nil
}

// questions returns the calls of DynamoDB that the template permits, on the resources of the deployed
// policy, and calls that differ in one respect.
func (s *Stack) questions(p inline, deployed any) (all []question) {
	resources := map[string]bool{}
	for _, statement := range statements(deployed) {
		for _, r := range texts(statement["Resource"]) {
			resources[r] = true
		}
	}
	for _, statement := range statements(p.Properties["PolicyDocument"]) {
		keys := leadingKeysOf(statement)
		for _, action := range texts(statement["Action"]) {
			if !strings.HasPrefix(action, "dynamodb:") {
				continue
			}
			for _, table := range sorted(resources) {
				if s.names(statement["Resource"], table) {
					all = append(all, near(action, table, keys)...)
				}
			}
		}
	}
	return all
}

// names reports whether a deployed resource is one of the resources of a statement in the template.
func (s *Stack) names(resources any, deployed string) bool {
	list, several := resources.([]any)
	if !several {
		list = []any{resources}
	}
	return slices.ContainsFunc(list, func(each any) bool { return s.differs("", each, deployed) == "" })
}

// near returns a permitted call for each key, and similar calls that no function makes. The first key is no
// pattern.
func near(action, table string, keys []string) []question {
	all := []question{{action, table + "2", keys[0], false}, {"dynamodb:DeleteTable", table, "", false}, {"dynamodb:Scan", table, "", false}}
	for _, key := range keys {
		all = append(all, question{action, table, key, true})
	}
	if keys[0] != "" {
		all = append(all, question{action, table, keys[0] + "2", false})
	}
	return all
}

func leadingKeysOf(statement map[string]any) []string {
	conditions, _ := statement["Condition"].(map[string]any)
	all, _ := conditions["ForAllValues:StringLike"].(map[string]any)
	if keys := texts(all[leadingKeys]); len(keys) > 0 {
		return keys
	}
	return []string{""}
}

func statements(document any) (all []map[string]any) {
	m, _ := document.(map[string]any)
	list, _ := m["Statement"].([]any)
	for _, each := range list {
		if statement, ok := each.(map[string]any); ok {
			all = append(all, statement)
		}
	}
	return all
}

func texts(v any) (all []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, each := range list {
		if text, ok := each.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
