package account

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// differs compares a deployed value with the value in the template. It returns the path and the two
// values of the first difference, or "".
func (s *Stack) differs(path string, want, got any) string {
	if pattern, computed := s.pattern(want); computed {
		if text, ok := scalar(got); ok && regexp.MustCompile("(?s)^"+pattern+"$").MatchString(text) {
			return ""
		}
		return difference(path, want, got)
	}
	switch want := want.(type) {
	case map[string]any:
		return s.mapDiffers(path, want, got)
	case []any:
		list, ok := got.([]any)
		if !ok {
			list = []any{got} // AWS stores a list of one element as the element
		}
		if len(list) != len(want) {
			return difference(path, want, got)
		}
		for i := range want {
			if d := s.differs(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); d != "" {
				return d
			}
		}
		return ""
	}
	a, _ := scalar(want)
	if list, ok := got.([]any); ok && len(list) == 1 {
		got = list[0]
	}
	if b, ok := scalar(got); ok && a == b {
		return ""
	}
	return difference(path, want, got)
}

func (s *Stack) mapDiffers(path string, want map[string]any, got any) string {
	have, ok := got.(map[string]any)
	if !ok {
		return difference(path, want, got)
	}
	keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(have)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if absent(want[key]) && absent(have[key]) {
			continue
		}
		if d := s.differs(path+"."+key, want[key], have[key]); d != "" {
			return d
		}
	}
	return ""
}

// absent reports whether a property has no value.
func absent(v any) bool {
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 {
		return true
	}
	m, ok := v.(map[string]any)
	return ok && len(m) == 1 && m["Ref"] == "AWS::NoValue"
}

func difference(path string, want, got any) string {
	return fmt.Sprintf("%s: got %v, want %v", strings.TrimPrefix(path, "."), got, want)
}

// scalar returns the text of a value that is not a list or an object. CloudFormation accepts "5" for 5.
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

// pattern returns a regular expression for a value that the template computes.
func (s *Stack) pattern(v any) (pattern string, computed bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
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
		case function == "Fn::Sub":
			return s.substitute(argument), true
		case function == "Fn::If" && len(list) == 3:
			return "(" + s.text(list[1]) + "|" + s.text(list[2]) + ")", true
		case strings.HasPrefix(function, "Fn::"):
			return anything, true
		}
	}
	return "", false
}

// text returns the pattern of a value that is text.
func (s *Stack) text(v any) string {
	if pattern, computed := s.pattern(v); computed {
		return pattern
	}
	text, ok := scalar(v)
	if !ok {
		return anything
	}
	return regexp.QuoteMeta(text)
}

// pseudo are the patterns of the parameters that CloudFormation defines.
var pseudo = map[string]string{
	"AWS::AccountId": `\d{12}`, "AWS::Partition": "aws[a-z-]*", "AWS::URLSuffix": `[a-z.]+`,
	"AWS::StackName": `[A-Za-z0-9-]+`, "AWS::NoValue": "",
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
		patterns = append(patterns, s.text(p))
	}
	return strings.Join(patterns, regexp.QuoteMeta(fmt.Sprint(list[0])))
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

func (s *Stack) substitute(argument any) string {
	text, given := fmt.Sprint(argument), map[string]any{}
	if list, ok := argument.([]any); ok && len(list) == 2 {
		text = fmt.Sprint(list[0])
		given, _ = list[1].(map[string]any)
	}
	var b strings.Builder
	last := 0
	for _, at := range variable.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[last:at[0]]))
		name := text[at[0]+2 : at[1]-1]
		id, attribute, dotted := strings.Cut(name, ".")
		switch value, ok := given[name]; {
		case ok:
			b.WriteString(s.text(value))
		case strings.HasPrefix(name, "!"):
			b.WriteString(regexp.QuoteMeta("${" + name[1:] + "}"))
		case dotted:
			b.WriteString(s.attribute(id, attribute))
		default:
			b.WriteString(s.reference(name))
		}
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(text[last:]))
	return b.String()
}
