package account

import "fmt"

// conditions are the conditions of a template. With the parameters of the stack, they decide what is
// deployed.
type conditions struct {
	named      map[string]any
	parameters map[string]string
}

// holds reports whether a condition holds. known is false if the condition has a part that only CloudFormation
// can evaluate.
func (c conditions) holds(condition any) (holds, known bool) {
	m, _ := condition.(map[string]any)
	if name, ok := m["Condition"].(string); ok {
		return c.holds(c.named[name])
	}
	if list, ok := m["Fn::Not"].([]any); ok && len(list) == 1 {
		holds, known = c.holds(list[0])
		return !holds, known
	}
	if list, ok := m["Fn::Equals"].([]any); ok && len(list) == 2 {
		a, first := c.text(list[0])
		b, second := c.text(list[1])
		return a == b, first && second
	}
	for function, all := range map[string]bool{"Fn::And": true, "Fn::Or": false} {
		list, ok := m[function].([]any)
		if !ok {
			continue
		}
		for _, each := range list {
			if holds, known = c.holds(each); !known || holds != all {
				return holds, known
			}
		}
		return all, true
	}
	return false, false
}

// text returns a literal or the value of a parameter.
func (c conditions) text(v any) (text string, known bool) {
	if m, ok := v.(map[string]any); ok {
		text, known = c.parameters[fmt.Sprint(m["Ref"])]
		return text, known
	}
	return scalar(v)
}

// resolve replaces each Fn::If by the value that its condition selects. It removes properties without a value.
func (c conditions) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if list, ok := v["Fn::If"].([]any); ok && len(list) == 3 {
			switch holds, known := c.holds(map[string]any{"Condition": list[0]}); {
			case known && holds:
				return c.resolve(list[1])
			case known:
				return c.resolve(list[2])
			}
		}
		resolved := map[string]any{}
		for key, each := range v {
			if each = c.resolve(each); !absent(each) {
				resolved[key] = each
			}
		}
		return resolved
	case []any:
		resolved := make([]any, 0, len(v))
		for _, each := range v {
			if each = c.resolve(each); !absent(each) {
				resolved = append(resolved, each)
			}
		}
		return resolved
	}
	return v
}
