package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-limits/weir/local/gateway/template"
)

// maxMethodARN is the maximum length of the ARN of a method with an authorizer (developer
// guide, "Quotas").
const maxMethodARN = 1600

// identified reports whether a request has a value for each identity source of the authorizer.
func identified(a *template.Authorizer, v variables) bool {
	for _, source := range a.IdentitySources {
		if value, ok := v.value(source); !ok || value == "" {
			return false
		}
	}
	return true
}

// authorization is the answer of an authorizer.
type authorization struct {
	principal string
	policy    policy
	context   map[string]string
}

// parseAuthorization reads an authorizer's answer. Any deviation from the developer guide ("Output from
// an API Gateway Lambda authorizer") is an error. An answer without principalId is an error too,
// although AWS is known to accept such an answer.
func parseAuthorization(payload []byte) (authorization, error) {
	var output struct {
		PrincipalID    *string         `json:"principalId"`
		PolicyDocument json.RawMessage `json:"policyDocument"`
		Context        json.RawMessage `json:"context"`
	}
	var a authorization
	if err := json.Unmarshal(payload, &output); err != nil {
		return a, fmt.Errorf("authorizer output: %w", err)
	}
	if output.PrincipalID == nil {
		return a, errors.New("authorizer output: no principalId")
	}
	a.principal = *output.PrincipalID
	if output.PolicyDocument == nil {
		return a, errors.New("authorizer output: no policyDocument")
	}
	var err error
	if a.policy, err = parsePolicy(output.PolicyDocument); err != nil {
		return a, err
	}
	a.context, err = parseContext(output.Context)
	return a, err
}

// parseContext converts the values of an authorizer's context to text, as API Gateway passes
// them on. An object, a list or null makes the whole answer invalid.
func parseContext(data []byte) (map[string]string, error) {
	var values map[string]any
	if data != nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&values); err != nil {
			return nil, fmt.Errorf("authorizer context: %w", err)
		}
	}
	context := make(map[string]string, len(values))
	for key, value := range values {
		switch value := value.(type) {
		case string:
			context[key] = value
		case bool, json.Number:
			context[key] = fmt.Sprint(value)
		default:
			return nil, fmt.Errorf("authorizer context: %s: got an object, a list or null, want text, a number or a boolean", key)
		}
	}
	return context, nil
}
