package account

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// value returns the text of a property that is a literal, or a reference to a resource or a parameter.
func (s *Stack) value(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		text, _ := scalar(v)
		return text
	}
	id := fmt.Sprint(m["Ref"])
	if r, ok := s.find(id); ok {
		return r.Physical
	}
	return s.parameters[id]
}

// differs compares a deployed policy with the policy in the template, whose type CloudFormation does not compare. It
// returns the path and the two values of the first difference, or "".
func (s *Stack) differs(path string, want, got any) string {
	different := fmt.Sprintf("%s: got %v, want %v", path, got, want)
	if pattern, single := s.pattern(want); single {
		if text, ok := scalar(got); ok && regexp.MustCompile("(?s)^"+pattern+"$").MatchString(text) {
			return ""
		}
		return different
	}
	switch want := want.(type) {
	case map[string]any:
		return s.mapDiffers(path, want, got)
	case []any:
		list, ok := got.([]any)
		if !ok {
			list = []any{got} // IAM accepts a list of one element as the element
		}
		if len(list) != len(want) {
			return different
		}
		for i := range want {
			if d := s.differs(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); d != "" {
				return d
			}
		}
	}
	return ""
}

func (s *Stack) mapDiffers(path string, want map[string]any, got any) string {
	have, ok := got.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s: got %v, want %v", path, got, want)
	}
	keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(have)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if d := s.differs(path+"."+key, want[key], have[key]); d != "" {
			return d
		}
	}
	return ""
}

// scalar returns the text of a value that is not a list or an object.
func scalar(v any) (string, bool) {
	switch v.(type) {
	case map[string]any, []any:
		return "", false
	case nil:
		return "", true
	}
	return fmt.Sprint(v), true
}

// anything is the pattern of a value that only CloudFormation knows.
const anything = ".*"

// pattern returns a regular expression for the text of a value, which is a literal, or computed by the template. single
// reports that the value is no list and no object of values.
func (s *Stack) pattern(v any) (pattern string, single bool) {
	if text, ok := scalar(v); ok {
		return regexp.QuoteMeta(text), true
	}
	m, _ := v.(map[string]any)
	if len(m) != 1 {
		return "", false
	}
	for function, argument := range m {
		switch list, _ := argument.([]any); {
		case function == "Ref":
			return s.reference(fmt.Sprint(argument)), true
		case function == "Fn::GetAtt" && len(list) == 2:
			return s.attribute(fmt.Sprint(list[0]), fmt.Sprint(list[1])), true
		case function == "Fn::Join" && len(list) == 2:
			return s.join(list), true
		case strings.HasPrefix(function, "Fn::"):
			return anything, true
		}
	}
	return "", false
}

// pseudo are the patterns of the parameters that CloudFormation defines.
var pseudo = map[string]string{
	"AWS::AccountId": `\d{12}`, "AWS::Partition": "aws[a-z-]*", "AWS::URLSuffix": `[a-z.]+`, "AWS::StackName": `[A-Za-z0-9-]+`,
}

func (s *Stack) reference(id string) string {
	if id == "AWS::Region" {
		return regexp.QuoteMeta(s.region)
	}
	if p, ok := pseudo[id]; ok {
		return p
	}
	if r, ok := s.find(id); ok {
		return regexp.QuoteMeta(r.Physical)
	}
	if value, ok := s.parameters[id]; ok {
		return regexp.QuoteMeta(value)
	}
	return anything
}

// attribute returns the pattern of an attribute of a resource. An ARN ends with the physical id. The ARN
// of a log group also has the suffix :*.
func (s *Stack) attribute(id, name string) string {
	r, ok := s.find(id)
	switch {
	case !ok || name != "Arn":
		return anything
	case strings.HasPrefix(r.Physical, "arn:"):
		return regexp.QuoteMeta(r.Physical)
	}
	return `arn:[^ "]*[:/]` + regexp.QuoteMeta(r.Physical) + `(:\*)?`
}

func (s *Stack) join(list []any) string {
	parts, ok := list[1].([]any)
	if !ok {
		return anything
	}
	var patterns []string
	for _, p := range parts {
		pattern, _ := s.pattern(p)
		patterns = append(patterns, pattern)
	}
	return strings.Join(patterns, regexp.QuoteMeta(fmt.Sprint(list[0])))
}
