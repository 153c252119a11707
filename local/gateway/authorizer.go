package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

const (
	// maxMethodARN is the maximum length of the ARN of a method with an authorizer (developer guide, "Quotas").
	maxMethodARN = 1600
	// maxPolicyResource is the maximum length of the resource of a policy (developer guide, "Output from an API Gateway Lambda
	// authorizer"). AWS does not document what a longer one does. Here it makes the policy invalid.
	maxPolicyResource = 512
)

// authorization is the answer of Weir's authorizer (developer guide, "Output from an API Gateway Lambda authorizer"). Its
// policy has one statement, whose resource is an ARN, or the beginning of one and a star.
type authorization struct {
	effect, resource string
	context          map[string]string // with the principal
}

func parseAuthorization(payload []byte) (a authorization, err error) {
	var output events.APIGatewayCustomAuthorizerResponse
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(&output); err != nil {
		return a, fmt.Errorf("authorizer output: %w", err)
	}
	list := output.PolicyDocument.Statement
	if output.PrincipalID == "" || len(list) != 1 || len(list[0].Resource) != 1 {
		return a, errors.New("authorizer output: want a principalId and a policyDocument with a statement and its resource")
	}
	if n := len(list[0].Resource[0]); n > maxPolicyResource {
		return a, fmt.Errorf("authorizer output: got a resource of %d characters, want at most %d", n, maxPolicyResource)
	}
	a = authorization{list[0].Effect, list[0].Resource[0], map[string]string{"principalId": output.PrincipalID}}
	for key, value := range output.Context {
		switch value.(type) {
		case string, bool, json.Number: // API Gateway makes each one text
			a.context[key] = fmt.Sprint(value)
		default:
			return a, fmt.Errorf("authorizer output: context: %s: got an object, a list or null, want text, a number or a boolean", key)
		}
	}
	return a, nil
}

// failure returns the failure of a method that the policy does not allow, and nil of another one.
func (a authorization) failure(methodARN string) *failure {
	begin, open := strings.CutSuffix(a.resource, "*")
	switch {
	case methodARN != a.resource && (!open || !strings.HasPrefix(methodARN, begin)):
		return &implicitlyDenied
	case a.effect != "Allow":
		return &explicitlyDenied
	}
	return nil
}
