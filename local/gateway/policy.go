package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// maxPolicyResource is the maximum length of a resource ARN in an authorizer's policy (developer
// guide, "Output from an API Gateway Lambda authorizer"). AWS does not document what a longer ARN
// does. Here it makes the policy invalid.
const maxPolicyResource = 512

// invokeAction is the IAM action that a policy must allow for a call of a method.
const invokeAction = "execute-api:Invoke"

type decision int

const (
	implicitDeny decision = iota // no statement matches the method
	explicitDeny                 // a Deny statement matches; an Allow statement may match too
	allow
)

type policy struct {
	ID        string             `json:"Id"`
	Version   string             `json:"Version"`
	Statement several[statement] `json:"Statement"`
}

// statement has the IAM elements that this package evaluates. Another element, such as Condition or
// NotAction, makes the policy invalid. It could narrow a statement, so to ignore it could admit
// callers whom the policy denies.
type statement struct {
	ID       string          `json:"Sid"`
	Effect   string          `json:"Effect"`
	Action   several[string] `json:"Action"`
	Resource several[string] `json:"Resource"`
}

// several decodes a JSON value that is one T or a list of T.
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

func strictUnmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

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

// evaluate returns the decision for a method. As in IAM, an explicit Deny wins, and without a
// matching statement the decision is to deny.
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
