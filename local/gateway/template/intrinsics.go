package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

func (r *resolver) call(function string, argument any) (any, error) {
	switch function {
	case "Ref":
		if id, ok := argument.(string); ok {
			return r.ref(id)
		}
		return nil, errors.New("want a name in Ref")
	case "Fn::GetAtt":
		return r.getAtt(argument)
	case "Fn::Join":
		return r.join(argument)
	case "Fn::Select":
		return r.choose(argument)
	case "Fn::Split":
		return r.split(argument)
	case "Fn::Sub":
		return r.sub(argument)
	}
	return nil, fmt.Errorf("%s is not supported", function)
}

// arguments returns v as a list of exactly n elements, which are not resolved yet.
func arguments(function string, v any, n int) ([]any, error) {
	list, ok := v.([]any)
	if !ok || len(list) != n {
		return nil, fmt.Errorf("%s wants a list of %d elements", function, n)
	}
	return list, nil
}

// produce returns text, which is the result of an intrinsic function, and adds its length to a
// total. It returns an error if the total exceeds maxResolved bytes.
func (r *resolver) produce(text string) (string, error) {
	if r.made += len(text); r.made > maxResolved {
		return "", errors.New("intrinsic functions: total result is too large")
	}
	return text, nil
}

func (r *resolver) ref(id string) (string, error) {
	if value, ok := pseudoParameters[id]; ok {
		return value, nil
	}
	if value, ok := r.parameters[id]; ok {
		return value, nil
	}
	if _, ok := r.resources[id]; !ok {
		return "", fmt.Errorf("no resource or parameter %q", id)
	}
	if r.names == nil {
		return "", fmt.Errorf("a name that uses %q: only parameters are supported in names", id)
	}
	return r.names[id], nil
}

func (r *resolver) getAtt(v any) (string, error) {
	id, attribute, ok := "", "", false
	switch v := v.(type) {
	case string:
		id, attribute, ok = strings.Cut(v, ".")
	case []any:
		if len(v) == 2 {
			id, _ = v[0].(string)
			attribute, ok = v[1].(string)
		}
	}
	if !ok {
		return "", errors.New("Fn::GetAtt wants a resource and an attribute")
	}
	res, found := r.resources[id]
	if !found || r.names == nil {
		return "", fmt.Errorf("no resource %q", id)
	}
	name := r.names[id]
	switch {
	case isKnown(res.kind) && !isActive(res.kind):
		return madeUp(res.kind, name, attribute), nil
	case res.kind == "AWS::Lambda::Function" && attribute == "Arn":
		return functionARN(name), nil
	case res.kind == "AWS::Lambda::Version" && attribute == "Version":
		return onlyVersion, nil
	case res.kind == "AWS::ApiGateway::RestApi" && attribute == "RootResourceId":
		return rootResource(id), nil
	}
	return "", fmt.Errorf("Fn::GetAtt %s of %s is not supported", attribute, res.kind)
}

// rootResource returns an id for an API's root, which is no resource in a template.
func rootResource(api string) string { return api + ".root" }

func functionARN(name string) string { return arn("lambda", "function:"+name) }

func arn(service, resource string) string {
	return strings.Join([]string{"arn", partition, service, region, Account, resource}, ":")
}

func (r *resolver) join(v any) (string, error) {
	args, err := arguments("Fn::Join", v, 2)
	if err != nil {
		return "", err
	}
	delimiter, ok := args[0].(string)
	if !ok {
		return "", errors.New("Fn::Join wants a delimiter")
	}
	list, err := r.list("Fn::Join", args[1])
	if err != nil {
		return "", err
	}
	parts := make([]string, len(list))
	size := 0
	for i, each := range list {
		if parts[i], err = r.text(each); err != nil {
			return "", err
		}
		size += len(parts[i]) + len(delimiter)
	}
	if size > maxResolved {
		return "", errors.New("Fn::Join: result is too large")
	}
	return r.produce(strings.Join(parts, delimiter))
}

// list resolves v to a list but does not resolve its elements. Fn::Select therefore resolves only
// the element that it selects.
func (r *resolver) list(function string, v any) ([]any, error) {
	if list, ok := v.([]any); ok {
		return list, nil
	}
	value, err := r.resolve(v)
	if err != nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s wants a list, got %s", function, describe(value))
	}
	return list, nil
}

func (r *resolver) choose(v any) (any, error) {
	args, err := arguments("Fn::Select", v, 2)
	if err != nil {
		return nil, err
	}
	text, err := r.text(args[0])
	if err != nil {
		return nil, err
	}
	list, err := r.list("Fn::Select", args[1])
	if err != nil {
		return nil, err
	}
	index, err := strconv.Atoi(text)
	if err != nil || index < 0 || index >= len(list) {
		return nil, fmt.Errorf("Fn::Select wants an index below %d, got %q", len(list), text)
	}
	return r.resolve(list[index])
}

func (r *resolver) split(v any) ([]any, error) {
	args, err := arguments("Fn::Split", v, 2)
	if err != nil {
		return nil, err
	}
	delimiter, ok := args[0].(string)
	if !ok || delimiter == "" {
		return nil, errors.New("Fn::Split wants a delimiter")
	}
	text, err := r.text(args[1])
	if err != nil {
		return nil, err
	}
	if _, err := r.produce(text); err != nil {
		return nil, err
	}
	list := []any{}
	for part := range strings.SplitSeq(text, delimiter) {
		list = append(list, part)
	}
	return list, nil
}

// sub replaces ${Name} and ${Resource.Attribute} with values, and ${!Literal} with ${Literal}. The
// list form of Fn::Sub has a map with more names.
func (r *resolver) sub(v any) (string, error) {
	own := map[string]any{}
	if list, ok := v.([]any); ok && len(list) == 2 {
		if own, ok = list[1].(map[string]any); !ok {
			return "", errors.New("Fn::Sub wants a text and a map")
		}
		v = list[0]
	}
	rest, ok := v.(string)
	if !ok {
		return "", errors.New("Fn::Sub wants a text")
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return r.produce(b.String())
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("Fn::Sub wants a } after each ${")
		}
		value, err := r.subValue(name, own)
		if err != nil {
			return "", err
		}
		if b.WriteString(value); b.Len() > maxResolved {
			return "", errors.New("Fn::Sub: result is too large")
		}
		rest = tail
	}
}

func (r *resolver) subValue(name string, own map[string]any) (string, error) {
	if literal, ok := strings.CutPrefix(name, "!"); ok {
		return "${" + literal + "}", nil
	}
	if value, ok := own[name]; ok {
		return r.text(value)
	}
	if strings.Contains(name, ".") {
		return r.getAtt(name)
	}
	return r.ref(name)
}
