package stack_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// CloudFormation replaces a resource by creating the new one first and deleting the old one later.
// If both have the same fixed name, the deployment fails with "already exists". checkReplacements
// finds this when a golden template is renewed.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html

// createOnly has the properties of a resource type that CloudFormation changes only by a
// replacement.
type createOnly struct {
	CreateOnly []string
	Identity   []string // properties that identify a resource
}

// createOnlyProperties reads testdata/create-only.json, which `make golden` writes.
func createOnlyProperties(t *testing.T) (types map[string]createOnly) {
	t.Helper()
	text, err := os.ReadFile("testdata/create-only.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &types); err != nil {
		t.Fatal(err)
	}
	return types
}

// name returns the properties that make up the unique name of a resource. It returns none if AWS
// generates the name.
func (c createOnly) name(resourceType string) []string {
	generated := slices.ContainsFunc(c.Identity, func(p string) bool { return !slices.Contains(c.CreateOnly, p) })
	if !generated {
		return c.Identity
	}
	own := func(p string) bool {
		return strings.HasSuffix(path.Base(strings.ReplaceAll(resourceType, "::", "/"))+"Name", p)
	}
	if i := slices.IndexFunc(c.CreateOnly, own); i >= 0 && strings.HasSuffix(c.CreateOnly[i], "Name") {
		return c.CreateOnly[i : i+1]
	}
	return nil
}

// named returns the values of these properties for r. ok is false if the template lacks one of
// them.
func named(r resource, types map[string]createOnly) (name string, ok bool) {
	properties := types[r.Type].name(r.Type)
	values := []any{r.Type}
	for _, p := range properties {
		v, set := r.Properties[p]
		if !set {
			return "", false
		}
		values = append(values, v)
	}
	text, err := json.Marshal(values)
	return string(text), err == nil && len(properties) > 0
}

// checkReplacements compares the resources of two templates. It returns a problem for each named resource
// that the second template replaces, or moves to another logical id under the same name.
func checkReplacements(types map[string]createOnly, before, after map[string]resource) (problems []string) {
	moved := map[string]string{}
	for id, r := range after {
		if name, ok := named(r, types); ok {
			moved[name] = id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		r := before[id]
		name, ok := named(r, types)
		if !ok {
			continue
		}
		if to := moved[name]; to != "" && to != id {
			problems = append(problems, fmt.Sprintf("%s: moves to %s with the same name %s; keep its logical ID, or change the name", id, to, name))
		}
		next, kept := after[id]
		if !kept || moved[name] != id {
			continue
		}
		for _, p := range types[r.Type].CreateOnly {
			if !reflect.DeepEqual(r.Properties[p], next.Properties[p]) {
				problems = append(problems, fmt.Sprintf("%s: %s changes, which replaces the resource, but the name %s stays; change the name too", id,
					p, name))
			}
		}
	}
	return problems
}

// The test data has the create-only properties of each resource type in the templates, and of no other. `make golden`
// renews it if this test fails.
func TestReplacements_types(t *testing.T) {
	types, paths := createOnlyProperties(t), slices.Collect(maps.Keys(released))
	for name := range golden {
		paths = append(paths, goldenPath(name))
	}
	used := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for id, r := range parse(t, text).Resources {
			used[r.Type] = true
			if _, known := types[r.Type]; !known {
				t.Errorf("%s of %s: type %s is missing in testdata/create-only.json; run make golden", id, path, r.Type)
			}
		}
	}
	for name := range types {
		if !used[name] {
			t.Errorf("testdata/create-only.json: got type %s, which no template has; run make golden", name)
		}
	}
}
