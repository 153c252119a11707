package account

import (
	"context"
	"encoding/json"
	"errors"
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
		if list, ok := verify.At(f.Properties, "Role", "Fn::GetAtt").([]any); ok && len(list) > 0 {
			roles[fmt.Sprint(list[0])] = true
		}
	}
	for _, r := range s.of(policyType) {
		list, _ := r.Properties["Roles"].([]any)
		for _, each := range list {
			if id := fmt.Sprint(verify.At(each, "Ref")); roles[id] {
				role, _ := s.find(id)
				all = append(all, inline{r, role.Physical, fmt.Sprint(r.Properties["PolicyName"])})
			}
		}
	}
	return all
}

func (s *Stack) rolePolicies(ctx context.Context) verify.Observation {
	var problems []string
	policies := s.inlines()
	for _, p := range policies {
		d := s.differs(p.ID, p.Properties["PolicyDocument"], s.document(ctx, p))
		problems = slices.Concat(problems, problem(d != "", "%s", d), s.otherPolicies(ctx, p, policies))
	}
	if len(policies) == 0 {
		return skipped("the stack has no policy of a function")
	}
	return verdict("the policies of the template, and no other", fmt.Sprintf("%d policies", len(policies)), problems)
}

// keepOf keeps an error of a call about a policy. It reports whether the row can go on.
func (s *Stack) keepOf(p inline, err error) bool {
	if err != nil {
		err = fmt.Errorf("%s: %w", p.ID, err)
	}
	return s.keep(err)
}

// document returns a policy as IAM has it.
func (s *Stack) document(ctx context.Context, p inline) (document any) {
	if s.err != nil {
		return nil
	}
	out, err := s.roles.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &p.role, PolicyName: &p.name})
	if !s.keepOf(p, err) {
		return nil
	}
	text, err := url.PathUnescape(aws.ToString(out.PolicyDocument))
	s.keepOf(p, errors.Join(err, json.Unmarshal([]byte(text), &document)))
	return document
}

// otherPolicies describes the policies that a role has in the account, but not in the template.
func (s *Stack) otherPolicies(ctx context.Context, p inline, known []inline) (problems []string) {
	if s.err != nil {
		return nil
	}
	names, err := s.roles.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: &p.role})
	if !s.keepOf(p, err) {
		return nil
	}
	for _, name := range names.PolicyNames {
		expected := slices.ContainsFunc(known, func(k inline) bool { return k.role == p.role && k.name == name })
		problems = append(problems, problem(!expected, "%s: the role also has the policy %s", p.ID, name)...)
	}
	attached, err := s.roles.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &p.role})
	if !s.keepOf(p, err) {
		return nil
	}
	for _, each := range attached.AttachedPolicies {
		problems = append(problems, fmt.Sprintf("%s: the role also has the managed policy %s", p.ID, aws.ToString(each.PolicyName)))
	}
	return problems
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
func (s *Stack) rolePermissions(ctx context.Context) verify.Observation {
	var problems []string
	simulated := 0
	for _, p := range s.inlines() {
		document := s.document(ctx, p)
		if s.err != nil {
			return verify.Observation{}
		}
		role, err := s.roles.GetRole(ctx, &iam.GetRoleInput{RoleName: &p.role})
		if !s.keepOf(p, err) {
			return verify.Observation{}
		}
		for _, q := range s.questions(p, document) {
			answer := s.simulate(ctx, aws.ToString(role.Role.Arn), q)
			simulated++
			problems = append(problems, problem((answer == types.PolicyEvaluationDecisionTypeAllowed) != q.allowed, "%s: %s with the key %q: got %s, want allowed %t", p.ID, q.action, q.key, answer, q.allowed)...)
		}
	}
	if simulated == 0 {
		return skipped("the stack has no policy of DynamoDB")
	}
	return verdict("the calls of the functions allowed, similar calls denied", fmt.Sprintf("%d answers", simulated), problems)
}

func (s *Stack) simulate(ctx context.Context, role string, q question) types.PolicyEvaluationDecisionType {
	if s.err != nil {
		return ""
	}
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &role, ActionNames: []string{q.action}, ResourceArns: []string{q.resource}}
	if q.key != "" {
		in.ContextEntries = []types.ContextEntry{{ContextKeyName: aws.String(leadingKeys), ContextKeyType: types.ContextKeyTypeEnumStringList, ContextKeyValues: []string{q.key}}}
	}
	out, err := s.roles.SimulatePrincipalPolicy(ctx, in)
	if !s.keep(err) {
		return ""
	}
	if len(out.EvaluationResults) != 1 {
		s.keep(fmt.Errorf("simulation of %s: got %d results, want one", q.action, len(out.EvaluationResults)))
		return ""
	}
	return out.EvaluationResults[0].EvalDecision
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
	if keys := texts(verify.At(statement, "Condition", "ForAllValues:StringLike", leadingKeys)); len(keys) > 0 {
		return keys
	}
	return []string{""}
}

func statements(document any) (all []map[string]any) {
	list, _ := verify.At(document, "Statement").([]any)
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
