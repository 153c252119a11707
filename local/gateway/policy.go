package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// maxPolicyResource is the longest resource ARN in an authorizer's policy (developer guide, "Output from
// an API Gateway Lambda authorizer"). AWS does not document what happens to a longer ARN. In this
// package, a longer ARN makes the policy invalid.
const maxPolicyResource = 512

// invokeAction is the action of calling a method.
const invokeAction = "execute-api:Invoke"

// decision is the outcome of a policy for one method.
type decision int

const (
	implicitDeny decision = iota // no statement matches
	explicitDeny                 // a Deny matches; an Allow may match too
	allow
)

// policy is the IAM policy that an authorizer returns.
type policy struct {
	ID        string             `json:"Id"`
	Version   string             `json:"Version"`
	Statement several[statement] `json:"Statement"`
}

// statement has the IAM elements that this package evaluates. Any other element, such as Condition or
// NotAction, makes the policy invalid. Such an element can narrow a statement. If this package ignored
// it, it could admit callers that the policy denies.
type statement struct {
	ID       string          `json:"Sid"`
	Effect   string          `json:"Effect"`
	Action   several[string] `json:"Action"`
	Resource several[string] `json:"Resource"`
}

// several is an element of a policy. Its JSON is one value or a list of values.
type several[T any] []T

func (s *several[T]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []T
		err := strictUnmarshal(data, &list)
		*s = list
		return err
	}
	var one T
	err := strictUnmarshal(data, &one)
	*s = several[T]{one}
	return err
}

// strictUnmarshal decodes JSON and rejects unknown fields.
func strictUnmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// parsePolicy reads and checks a policy document.
func parsePolicy(data []byte) (policy, error) {
	var p policy
	if err := strictUnmarshal(data, &p); err != nil {
		return p, fmt.Errorf("policy document: %w", err)
	}
	switch p.Version {
	case "", "2008-10-17", "2012-10-17":
	default:
		return p, fmt.Errorf("policy document: version: got %q, want 2012-10-17 or 2008-10-17", p.Version)
	}
	if len(p.Statement) == 0 {
		return p, errors.New("policy document: no statement")
	}
	for _, s := range p.Statement {
		if s.Effect != "Allow" && s.Effect != "Deny" {
			return p, fmt.Errorf("policy document: effect: got %q, want Allow or Deny", s.Effect)
		}
		if len(s.Action) == 0 || len(s.Resource) == 0 {
			return p, errors.New("policy document: a statement without action or resource")
		}
		for _, r := range s.Resource {
			if len(r) > maxPolicyResource {
				return p, fmt.Errorf("policy document: resource: got %d characters, want at most %d", len(r), maxPolicyResource)
			}
		}
	}
	return p, nil
}

// evaluate returns the decision for a method by IAM's rules: an explicit Deny wins, and the
// default is to deny.
func (p policy) evaluate(methodARN string) decision {
	d := implicitDeny
	for _, s := range p.Statement {
		if !s.matches(methodARN) {
			continue
		}
		if s.Effect == "Deny" {
			return explicitDeny
		}
		d = allow
	}
	return d
}

func (s statement) matches(methodARN string) bool {
	action := false
	for _, pattern := range s.Action {
		action = action || template.MatchPattern(strings.ToLower(pattern), strings.ToLower(invokeAction))
	}
	resource := false
	for _, pattern := range s.Resource {
		resource = resource || template.MatchPattern(pattern, methodARN)
	}
	return action && resource
}
