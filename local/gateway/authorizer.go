package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/local/gateway/template"
)

const (
	// maxMethodARN is the maximum length of the ARN of a method with an authorizer (developer
	// guide, "Quotas").
	maxMethodARN = 1600
	// maxPolicyResource is the maximum length of a resource ARN in an authorizer's policy (developer
	// guide, "Output from an API Gateway Lambda authorizer"). AWS does not document what a longer ARN
	// does. Here it makes the policy invalid.
	maxPolicyResource = 512
)

type decision int

const (
	implicitDeny decision = iota // no statement matches the method
	explicitDeny                 // a Deny statement matches; an Allow statement may match too
	allow
)

type authorization struct {
	statements []events.IAMPolicyStatement
	context    map[string]string // with the principal
}

// parseAuthorization reads an authorizer's answer in the form that the developer guide shows ("Output from an API Gateway
// Lambda authorizer"). It rejects any other element of a policy: to ignore a condition could admit callers whom the policy
// denies.
func parseAuthorization(payload []byte) (a authorization, err error) {
	var output events.APIGatewayCustomAuthorizerResponse
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&output); err != nil {
		return a, fmt.Errorf("authorizer output: %w", err)
	}
	a.statements = output.PolicyDocument.Statement
	if output.PrincipalID == "" || len(a.statements) == 0 {
		return a, errors.New("authorizer output: want a principalId and a policyDocument with a statement")
	}
	for _, s := range a.statements {
		long := slices.ContainsFunc(s.Resource, func(r string) bool { return len(r) > maxPolicyResource })
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0 || long {
			return a, fmt.Errorf("authorizer output: got statement %+v, want an effect, actions, and resources of at most %d characters",
				s, maxPolicyResource)
		}
	}
	a.context = map[string]string{"principalId": output.PrincipalID}
	for key, value := range output.Context {
		switch value := value.(type) {
		case string, bool, json.Number: // API Gateway makes each one text
			a.context[key] = fmt.Sprint(value)
		default:
			return a, fmt.Errorf("authorizer output: context: %s: got an object, a list or null, want text, a number or a boolean", key)
		}
	}
	return a, nil
}

// evaluate returns the decision for a method. As in IAM, an explicit Deny wins, and without a
// matching statement the decision is to deny.
func (a authorization) evaluate(methodARN string) decision {
	d := implicitDeny
	for _, s := range a.statements {
		action := slices.ContainsFunc(s.Action, func(pattern string) bool {
			return template.MatchPattern(strings.ToLower(pattern), "execute-api:invoke")
		})
		resource := slices.ContainsFunc(s.Resource, func(pattern string) bool { return template.MatchPattern(pattern, methodARN) })
		switch {
		case !action || !resource:
		case s.Effect == "Deny":
			return explicitDeny
		default:
			d = allow
		}
	}
	return d
}
