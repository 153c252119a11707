package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// maxMethodARN is the maximum length of the ARN of a method with an authorizer (developer guide, "Quotas").
const maxMethodARN = 1600

// authorization is the answer of Weir's authorizer (developer guide, "Output from an API Gateway Lambda authorizer"). Its
// policy has one statement, whose resource is an ARN, or the beginning of one and a star.
type authorization struct {
	effect, resource string
	context          map[string]string // with the principal
}

func parseAuthorization(payload []byte) (a authorization, err error) {
	var output events.APIGatewayCustomAuthorizerResponse
	if err := json.Unmarshal(payload, &output); err != nil {
		return a, fmt.Errorf("authorizer output: %w", err)
	}
	list := output.PolicyDocument.Statement
	if output.PrincipalID == "" || len(list) != 1 || len(list[0].Resource) != 1 {
		return a, errors.New("authorizer output: want a principalId and a policyDocument with a statement and its resource")
	}
	a = authorization{list[0].Effect, list[0].Resource[0], map[string]string{"principalId": output.PrincipalID}}
	for key, value := range output.Context { // API Gateway makes each one text
		a.context[key] = fmt.Sprint(value)
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
