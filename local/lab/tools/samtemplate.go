package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/checkout"
)

// samTemplate is a synthesized template, prepared for the SAM CLI.
type samTemplate struct {
	document map[string]any
	dir      string // base of the relative paths of code
}

// The prefixes of resource types, by kind of API.
const (
	restAPIType = "AWS::ApiGateway::"
	httpAPIType = "AWS::ApiGatewayV2::"
)

func readSAMTemplate(path string) (*samTemplate, error) {
	document, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("template: %w; make synth writes it", err)
	}
	t := &samTemplate{dir: filepath.Dir(path)}
	if err := json.Unmarshal(document, &t.document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range t.resources() {
		if resource, ok := r.(map[string]any); ok { // delete metadata about which the SAM CLI prints many warnings
			delete(object(resource, "Metadata"), "aws:cdk:path")
		}
	}
	if len(t.functions()) == 0 {
		return nil, fmt.Errorf("%s: no function has code on this machine (metadata aws:asset:path)", path)
	}
	return t, nil
}

// resources returns the resources by their logical ID.
func (t *samTemplate) resources() map[string]any { return object(t.document, "Resources") }

// functions returns the logical IDs of the functions whose code is on this machine.
func (t *samTemplate) functions() (ids []string) {
	for id, r := range t.resources() {
		if resource, ok := r.(map[string]any); ok && resource["Type"] == "AWS::Lambda::Function" &&
			object(resource, "Metadata")["aws:asset:path"] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// object returns the object in a field of o. It creates a missing object.
func object(o map[string]any, field string) map[string]any {
	value, ok := o[field].(map[string]any)
	if !ok {
		value = map[string]any{}
		o[field] = value
	}
	return value
}

// place copies the code of each function into dir, and adds the given files to the copy. It also adds the
// given variables to the template. They override the variables of the template. (The option --env-vars of
// the SAM CLI can only change variables that the template declares.)
func (t *samTemplate) place(dir string, files, variables map[string]string) error {
	for _, id := range t.functions() {
		function := t.resources()[id].(map[string]any)
		properties, metadata := object(function, "Properties"), object(function, "Metadata")
		if architectures, ok := properties["Architectures"].([]any); !ok || !slices.Contains(architectures, any(checkout.HostArch())) {
			return fmt.Errorf("function %s: Architectures: got %v, want %s for containers on this machine; run make synth ARCH=%[3]s", id,
				properties["Architectures"], checkout.HostArch())
		}
		code, ok := metadata["aws:asset:path"].(string)
		if !ok {
			return fmt.Errorf("function %s: aws:asset:path: got %v, want a path", id, metadata["aws:asset:path"])
		}
		if !filepath.IsAbs(code) {
			code = filepath.Join(t.dir, code)
		}
		place := filepath.Join(dir, id)
		if err := os.CopyFS(place, os.DirFS(code)); err != nil {
			return fmt.Errorf("function %s: %w", id, err)
		}
		for name, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(place, name), content, 0o600); err != nil {
				return err
			}
		}
		metadata["aws:asset:path"] = place
		for name, value := range variables {
			object(object(properties, "Environment"), "Variables")[name] = value
		}
	}
	return nil
}

// has reports whether the template has resources of a kind of API.
func (t *samTemplate) has(kind string) bool {
	for _, r := range t.resources() {
		if isKind(r, kind) {
			return true
		}
	}
	return false
}

// write writes the template without the resources of one kind of API. If without is "", it writes all
// resources. The SAM CLI serves all APIs of a template at one port. If two routes have the same path,
// it serves only the last.
func (t *samTemplate) write(path, without string) error {
	resources := map[string]any{}
	for id, r := range t.resources() {
		if without == "" || !isKind(r, without) {
			resources[id] = r
		}
	}
	copied := maps.Clone(t.document)
	copied["Resources"] = resources
	document, err := json.Marshal(copied)
	return errors.Join(err, os.WriteFile(path, document, 0o600))
}

func isKind(r any, kind string) bool {
	resource, ok := r.(map[string]any)
	if !ok {
		return false
	}
	name, ok := resource["Type"].(string)
	return ok && strings.HasPrefix(name, kind)
}
