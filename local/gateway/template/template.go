// Package template reads the REST API, the HTTP API and the Lambda functions of a CloudFormation
// template. Package gateway serves them.
//
// [Parse] interprets what the templates in infra/golden use: the resources of API Gateway and Lambda,
// and Ref, Fn::GetAtt and Fn::Join. Anything else in these resources is an
// error, so package gateway serves an accepted template as API Gateway would. No request reaches a
// resource of another service; its attributes have invented values. Conditions are not evaluated,
// and parameters have their defaults.
//
// In comments, a page name in quotes is a page of the API Gateway developer guide.
// Package gateway defines "observed" and "assumed".
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Template is a CloudFormation template that has been read and checked. Several gateways can share
// it: nothing may change it after Parse.
type Template struct {
	// REST and HTTP are nil if the template has no such API.
	REST *REST
	HTTP *HTTP

	functions []Function
}

// Function is an AWS::Lambda::Function of a template.
type Function struct {
	// ID is the function's logical id in the template.
	ID string
	// Environment is Environment.Variables with intrinsic functions resolved. For example, a Ref to
	// a table is the table's name.
	Environment map[string]string
	// Timeout limits one invocation. The default is 3 seconds.
	Timeout time.Duration
	// ARN is the ARN without a version or an alias.
	ARN string
}

// Functions returns copies of the template's functions, sorted by logical id.
func (t *Template) Functions() []Function {
	all := slices.Clone(t.functions)
	for i := range all {
		all[i].Environment = maps.Clone(all[i].Environment)
	}
	return all
}

// APIs returns the number of APIs. A gateway needs one address for each API, and a program can open
// them before it starts the functions.
func (t *Template) APIs() (n int) {
	if t.REST != nil {
		n++
	}
	if t.HTTP != nil {
		n++
	}
	return n
}

// maxTemplate is CloudFormation's limit on the size of a template.
const maxTemplate = 1 << 20

// Parse reads a CloudFormation template in JSON, as CDK synthesizes it. The error names the first
// part of the template that is malformed, or that package gateway does not support.
func Parse(data []byte) (*Template, error) {
	if len(data) > maxTemplate {
		return nil, fmt.Errorf("template: got %d bytes, want at most %d", len(data), maxTemplate)
	}
	var document struct {
		Parameters map[string]struct{ Default any }
		Resources  map[string]resource
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	if len(document.Resources) == 0 {
		return nil, errors.New("template: Resources: required")
	}
	p := &parser{resources: document.Resources, refs: maps.Clone(pseudoParameters), functions: map[string]int{}}
	for id, parameter := range document.Parameters {
		if parameter.Default == nil {
			p.fail("Parameters."+id, "Default: required; this gateway takes no parameter values")
		}
		p.refs[id] = fmt.Sprint(parameter.Default)
	}
	p.checkTypes()
	p.nameResources()
	p.readFunctions()
	p.readREST()
	p.readHTTP()
	if p.err != nil {
		return nil, p.err
	}
	return &p.template, nil
}

type resource struct {
	Type, Condition string
	Properties      map[string]any
}

// parser reads a template. After the first error it reads nothing more.
type parser struct {
	resources   map[string]resource
	refs        map[string]string // values of Ref: of parameters and resources
	functions   map[string]int    // index in template.functions; key: ARN of a function, version or alias
	permissions []permission
	template    Template
	err         error
}

func (p *parser) fail(id, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("template: %s: %s", id, fmt.Sprintf(format, args...))
	}
}

// interpreted are the types whose properties are read. ignored are the types of API Gateway and Lambda that no request
// reaches.
var (
	interpreted = []string{
		"AWS::ApiGateway::Authorizer", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::GatewayResponse", "AWS::ApiGateway::Method",
		"AWS::ApiGateway::Resource", "AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::ApiGatewayV2::Api",
		"AWS::ApiGatewayV2::Integration", "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Stage", "AWS::Lambda::Alias",
		"AWS::Lambda::Function", "AWS::Lambda::Permission", "AWS::Lambda::Version",
	}
	ignored = []string{"AWS::ApiGateway::Account", "AWS::Lambda::EventInvokeConfig", "AWS::Lambda::LayerVersion"}
)

func (p *parser) checkTypes() {
	for _, id := range slices.Sorted(maps.Keys(p.resources)) {
		r := p.resources[id]
		switch {
		case slices.Contains(interpreted, r.Type):
			if r.Condition != "" {
				p.fail(id, "Condition: not supported: conditions are not evaluated here")
			}
		case slices.Contains(ignored, r.Type):
		case r.Type == "", strings.HasPrefix(r.Type, "AWS::ApiGateway"), strings.HasPrefix(r.Type, "AWS::Lambda::"):
			p.fail(id, "Type %q: not supported by this gateway", r.Type)
		}
	}
}

// each calls f with the properties of every resource of a type, sorted by logical id. The fields of P are the supported
// properties; those of type any have no effect on requests.
func each[P any](p *parser, kind string, f func(id string, q P)) {
	for _, id := range slices.Sorted(maps.Keys(p.resources)) {
		r := p.resources[id]
		if r.Type != kind || p.err != nil {
			continue
		}
		resolved, _ := json.Marshal(p.resolve(r.Properties)) // Marshal never fails for decoded JSON
		var q P
		d := json.NewDecoder(bytes.NewReader(resolved))
		d.DisallowUnknownFields()
		if err := d.Decode(&q); err != nil {
			if mistaken, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				err = fmt.Errorf("%s: got %s, want %s; of the intrinsic functions, only Ref, Fn::GetAtt and Fn::Join of known values are supported",
					mistaken.Field, mistaken.Value, mistaken.Type)
			} else if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
				err = fmt.Errorf("property %s: not supported by this gateway", name)
			}
			p.fail(id, "%v", err)
			return
		}
		f(id, q)
	}
}

// want fails if a property does not have the only supported value.
func want[T comparable](p *parser, id, property string, got, want T) {
	if got != want {
		p.fail(id, "%s: got %#v, want %#v", property, got, want)
	}
}
