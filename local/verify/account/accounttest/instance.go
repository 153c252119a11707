package accounttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// instantiate returns a template without parameters and conditions.
func instantiate(template []byte, parameters map[string]string, holds []string) ([]byte, error) {
	var t struct{ Resources, Outputs map[string]map[string]any }
	if err := json.Unmarshal(template, &t); err != nil {
		return nil, err
	}
	for _, parts := range []map[string]map[string]any{t.Resources, t.Outputs} {
		for id, p := range parts {
			if condition, ok := p["Condition"].(string); ok && !slices.Contains(holds, condition) {
				delete(parts, id)
				continue
			}
			parts[id], _ = selected(p, parameters, holds).(map[string]any)
		}
	}
	return json.Marshal(t)
}

// fromBucket reads the template of a CreateStack from a bucket. made has neither parameters nor conditions.
func (c *Cloud) fromBucket(ctx context.Context, address string, form url.Values) (whole, made []byte, parameters map[string]string, err error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, nil, nil, err
	}
	bucket, _, _ := strings.Cut(at.Host, ".s3.")
	if whole, err = c.object(ctx, bucket+at.Path); err != nil {
		return nil, nil, nil, err
	}
	if parameters, err = defaults(whole); err != nil {
		return nil, nil, nil, err
	}
	for i := 1; form.Has(fmt.Sprintf("Parameters.member.%d.ParameterKey", i)); i++ {
		parameters[form.Get(fmt.Sprintf("Parameters.member.%d.ParameterKey", i))] = form.Get(fmt.Sprintf("Parameters.member.%d.ParameterValue", i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	made, err = instantiate(whole, parameters, c.holds)
	return whole, made, parameters, err
}

// object returns an object of S3. Moto serves it to any request that has credentials.
func (c *Cloud) object(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.moto+"/"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set(accountHeader, c.id)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/"+Region+"/s3/aws4_request")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("object %s: got status %d, want 200", path, answer.StatusCode)
	}
	return io.ReadAll(answer.Body)
}

// defaults returns the defaults of a template's parameters. CloudFormation describes a stack with them.
func defaults(template []byte) (map[string]string, error) {
	var t struct {
		Parameters map[string]struct{ Default *string }
	}
	if err := json.Unmarshal(template, &t); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for name, p := range t.Parameters {
		if p.Default != nil {
			all[name] = *p.Default
		}
	}
	return all, nil
}

// missing is a value that CloudFormation removes.
type missing struct{}

func isMissing(v any) bool { _, ok := v.(missing); return ok }

// selected replaces references to parameters and Fn::If.
func selected(v any, parameters map[string]string, holds []string) any {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["Ref"].(string); ok {
			if value, ok := parameters[id]; ok {
				return value
			}
			if id == "AWS::NoValue" {
				return missing{}
			}
		}
		if list, ok := v["Fn::If"].([]any); ok {
			if slices.Contains(holds, list[0].(string)) {
				return selected(list[1], parameters, holds)
			}
			return selected(list[2], parameters, holds)
		}
		made := map[string]any{}
		for key, each := range v {
			if each = selected(each, parameters, holds); !isMissing(each) {
				made[key] = each
			}
		}
		return made
	case []any:
		made := []any{}
		for _, each := range v {
			if each = selected(each, parameters, holds); !isMissing(each) {
				made = append(made, each)
			}
		}
		return made
	}
	return v
}
