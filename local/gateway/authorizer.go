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

func identified(a *template.Authorizer, v variables) bool {
	for _, source := range a.IdentitySources {
		if value, ok := v.value(source); !ok || value == "" {
			return false
		}
	}
	return true
}

type authorization struct {
	principal string
	policy    policy
	context   map[string]string
}

// parseAuthorization reads an authorizer's answer. It rejects every answer that deviates from the
// developer guide ("Output from an API Gateway Lambda authorizer"). It also rejects an answer
// without principalId, although AWS is known to accept one.
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

// parseContext converts each value of an authorizer's context to text, as API Gateway does. A value
// that is an object, a list or null is an error.
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
