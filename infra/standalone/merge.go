package standalone

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

type node = map[string]any

// merge returns one template from two: its result is yes if the condition holds, and no otherwise.
// A resource or output of only one template gets the condition. A property that differs becomes an
// Fn::If.
func merge(condition string, yes, no node) (node, error) {
	m := merger{condition: condition, conditions: node{}}
	merged := node{}
	for _, section := range keys(yes, no) {
		y, n := object(yes[section]), object(no[section])
		switch section {
		case "Resources":
			merged[section] = m.sections(y, n, m.resource)
		case "Outputs":
			merged[section] = m.sections(y, n, m.output)
		default: // parameters, conditions and rules have no condition of their own
			both := node{}
			for _, name := range keys(y, n) {
				both[name] = first(y[name], n[name])
			}
			merged[section] = both
			if len(both) == 0 { // the description and the version are texts
				merged[section] = first(yes[section], no[section])
			}
		}
	}
	maps.Copy(m.conditions, object(merged["Conditions"]))
	merged["Conditions"] = m.conditions
	return merged, m.err
}

type merger struct {
	condition  string
	conditions node // conditions to add to the merged template
	err        error
}

func (m *merger) sections(yes, no node, both func(name string, yes, no node) node) node {
	merged := node{}
	for _, name := range keys(yes, no) {
		y, inYes := yes[name].(node)
		n, inNo := no[name].(node)
		switch {
		case !inNo:
			merged[name] = m.only(y, m.condition)
		case !inYes:
			merged[name] = m.only(n, m.not())
		default:
			merged[name] = both(name, y, n)
		}
	}
	return merged
}

// not returns the name of the opposite condition, and adds that condition.
func (m *merger) not() string {
	name := "Not" + m.condition
	m.conditions[name] = node{"Fn::Not": []any{node{"Condition": m.condition}}}
	return name
}

func (m *merger) only(n node, condition string) node {
	made := maps.Clone(n)
	made["Condition"] = condition
	if before, ok := n["Condition"].(string); ok && before != condition {
		both := before + condition
		m.conditions[both] = node{"Fn::And": []any{node{"Condition": before}, node{"Condition": condition}}}
		made["Condition"] = both
	}
	return made
}

// resource merges a resource that both templates have. Dependencies of both can be joined, because
// CloudFormation ignores a dependency on a resource whose condition is false.
func (m *merger) resource(name string, yes, no node) node {
	merged := node{}
	for _, attribute := range keys(yes, no) {
		y, n := yes[attribute], no[attribute]
		switch {
		case attribute == "Properties":
			merged[attribute] = m.value(y, n)
		case attribute == "DependsOn":
			merged[attribute] = union(y, n)
		case reflect.DeepEqual(y, n):
			merged[attribute] = y
		default:
			m.err = fmt.Errorf("resource %s: %s differs (got %v and %v), which no condition can express", name, attribute, y, n)
		}
	}
	return merged
}

func (m *merger) output(_ string, yes, no node) node { return m.value(yes, no).(node) }

func (m *merger) value(yes, no any) any {
	y, isObject := yes.(node)
	n, both := no.(node)
	switch {
	case reflect.DeepEqual(yes, no):
		return yes
	case !isObject || !both || intrinsic(y) || intrinsic(n):
		return node{"Fn::If": []any{m.condition, orNone(yes), orNone(no)}}
	}
	merged := node{}
	for _, k := range keys(y, n) {
		merged[k] = m.value(y[k], n[k])
	}
	return merged
}

// orNone returns v, or a Ref to AWS::NoValue if v is nil.
func orNone(v any) any {
	if v == nil {
		return node{"Ref": "AWS::NoValue"}
	}
	return v
}

func intrinsic(n node) bool {
	for k := range n {
		return len(n) == 1 && (k == "Ref" || k == "Condition" || strings.HasPrefix(k, "Fn::"))
	}
	return false
}

func object(v any) node { n, _ := v.(node); return n }

func first(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func keys(a, b node) []string {
	all := map[string]bool{}
	for _, n := range []node{a, b} {
		for k := range n {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// union returns the dependencies in a or b, sorted.
func union(a, b any) []string {
	all := node{}
	for _, v := range []any{a, b} {
		switch v := v.(type) {
		case string:
			all[v] = true
		case []any:
			for _, id := range v {
				all[id.(string)] = true
			}
		case []string:
			for _, id := range v {
				all[id] = true
			}
		}
	}
	return keys(all, nil)
}
