package accounttest

import (
	"encoding/json"
	"slices"
)

// instantiate returns a template without parameters and conditions.
func instantiate(template []byte, parameters map[string]string, holds []string) ([]byte, error) {
	var t struct{ Resources map[string]map[string]any }
	if err := json.Unmarshal(template, &t); err != nil {
		return nil, err
	}
	for id, r := range t.Resources {
		if condition, ok := r["Condition"].(string); ok && !slices.Contains(holds, condition) {
			delete(t.Resources, id)
			continue
		}
		t.Resources[id], _ = selected(r, parameters, holds).(map[string]any)
	}
	return json.Marshal(t)
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
