package account

// conditions are those conditions of a template of which the stack shows whether they hold, by name: a condition holds if
// the stack has a resource with it.
type conditions map[string]bool

// resolve replaces each Fn::If by the value that its condition selects, and removes properties without a value. It keeps
// an Fn::If whose condition is unknown.
func (c conditions) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if list, ok := v["Fn::If"].([]any); ok && len(list) == 3 {
			name, _ := list[0].(string)
			switch holds, known := c[name]; {
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

// absent reports whether a value is AWS::NoValue.
func absent(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 1 && m["Ref"] == "AWS::NoValue"
}
