package template

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// properties reads the properties of a resource, or of an object inside a resource, and collects
// problems. Read every property, or pass its name to [properties.inert]. [properties.done] then
// reports the remaining ones, so that none is ignored by accident.
type properties struct {
	path   string
	values map[string]any
	read   map[string]bool
	r      *resolver
	p      *problems
}

func newProperties(path string, values map[string]any, r *resolver, p *problems) *properties {
	return &properties{path: path, values: values, read: map[string]bool{}, r: r, p: p}
}

func (q *properties) at(name string) string { return join(q.path, name) }

// refuse adds a problem: a property has a value that is not supported. name is the property, got is its
// value, and want describes the supported values.
func (q *properties) refuse(name string, got any, want string) {
	q.p.add(q.at(name), "got %s, want %s", describe(got), want)
}

// value returns a property with its intrinsic functions resolved. ok is false if the property is
// absent or if an intrinsic function fails.
func (q *properties) value(name string) (v any, ok bool) {
	q.read[name] = true
	raw, ok := q.values[name]
	if !ok || raw == nil {
		return nil, false
	}
	v, err := q.r.resolve(raw)
	if err != nil {
		q.p.add(q.at(name), "%v", err)
		return nil, false
	}
	return v, true
}

// has reports whether a property is present. done still reports it if nothing else reads it.
func (q *properties) has(name string) bool { return q.values[name] != nil }

// text returns a property that is a string or a number, as text. It returns "" if the property is
// absent.
func (q *properties) text(name string) string {
	v, ok := q.value(name)
	if !ok {
		return ""
	}
	text, ok := asText(v)
	if !ok {
		q.refuse(name, v, "text")
	}
	return text
}

// required returns a property that is a string. It adds a problem if the property is absent.
func (q *properties) required(name string) string {
	if !q.has(name) {
		q.p.add(q.at(name), "required")
	}
	return q.text(name)
}

// number returns a property that is a whole number from low to high, or fallback if it is absent.
// Like CloudFormation, it accepts a number in quotes.
func (q *properties) number(name string, fallback, low, high int) int {
	v, ok := q.value(name)
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil || n < low || n > high {
		q.refuse(name, v, fmt.Sprintf("a whole number from %d to %d", low, high))
		return fallback
	}
	return n
}

func (q *properties) texts(name string) []string {
	v, ok := q.value(name)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		q.refuse(name, v, "a list of texts")
		return nil
	}
	texts := make([]string, 0, len(list))
	for _, each := range list {
		text, ok := each.(string)
		if !ok {
			q.refuse(name, each, "text")
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// textMap returns a property that is an object of strings, or nil if it is absent.
func (q *properties) textMap(name string) map[string]string {
	inner := q.object(name)
	if inner == nil {
		return nil
	}
	texts := make(map[string]string, len(inner.values))
	for key := range inner.values {
		texts[key] = inner.text(key)
	}
	return texts
}

// object returns a property that is an object, or nil if the property is absent.
func (q *properties) object(name string) *properties {
	q.read[name] = true
	raw := q.values[name]
	if raw == nil {
		return nil
	}
	values, ok := raw.(map[string]any)
	if !ok {
		q.refuse(name, raw, "an object")
		return nil
	}
	return newProperties(q.at(name), values, q.r, q.p)
}

func (q *properties) objects(name string) []*properties {
	q.read[name] = true
	raw := q.values[name]
	if raw == nil {
		return nil
	}
	list, ok := raw.([]any)
	if !ok {
		q.refuse(name, raw, "a list of objects")
		return nil
	}
	var all []*properties
	for i, each := range list {
		path := q.at(name) + "[" + strconv.Itoa(i) + "]"
		values, ok := each.(map[string]any)
		if !ok {
			q.p.add(path, "got %s, want an object", describe(each))
			continue
		}
		all = append(all, newProperties(path, values, q.r, q.p))
	}
	return all
}

// inert marks properties as read. Use it for properties that have no effect on requests, such as
// logging.
func (q *properties) inert(names ...string) {
	for _, name := range names {
		q.read[name] = true
	}
}

// only adds a problem if the property is present and has none of the allowed values.
func (q *properties) only(name, want string, allowed ...any) {
	v, ok := q.value(name)
	if ok && !slices.ContainsFunc(allowed, func(a any) bool { return reflect.DeepEqual(a, v) }) {
		q.refuse(name, v, want)
	}
}

// done adds a problem for each property that was not read.
func (q *properties) done() {
	for name := range q.values {
		if !q.read[name] {
			q.p.add(q.at(name), "not supported by this gateway")
		}
	}
}

// problem is an invalid or unsupported part of a template, with its path.
type problem struct {
	path string // such as Resources.Limiter.Type
	text string
}

func (p problem) Error() string { return p.path + ": " + p.text }

type problems []problem

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, problem{path, fmt.Sprintf(format, args...)})
}

const mostProblems = 100

// err joins the problems, sorted by path, one line each. It returns nil if there are none.
func (p problems) err() error {
	slices.SortFunc(p, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.text, b.text))
	})
	var errs []error
	for i, each := range slices.Compact(p) {
		if i == mostProblems {
			errs = append(errs, fmt.Errorf("more than %d problems; the rest are not shown", mostProblems))
			break
		}
		errs = append(errs, each)
	}
	return errors.Join(errs...)
}
