package template

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Template is a CloudFormation template that has been read and checked. Several gateways can share
// it: nothing may change it after Parse.
type Template struct {
	// REST and HTTP are the APIs, each sorted by logical id.
	REST []*REST
	HTTP []*HTTP

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
	// Memory is MemorySize in megabytes, 128 by default. The gateway does not enforce it.
	Memory int
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
func (t *Template) APIs() int { return len(t.REST) + len(t.HTTP) }

// Parse reads a CloudFormation template in JSON, as CDK synthesizes it. It rejects features
// of API Gateway that package gateway does not support. The error joins all problems, one
// line each, with the path in the template.
func Parse(data []byte) (*Template, error) {
	var p problems
	document, err := decodeDocument(data, &p)
	if err != nil {
		return nil, err
	}
	checkSections(document, &p)
	r := &resolver{
		resources:  readResources(document, &p),
		parameters: readParameters(document, &p),
	}
	r.nameResources(&p)

	d := parser{resolver: r, p: &p}
	d.readFunctions()
	d.readPermissions()
	d.readRESTAPIs()
	d.readSubscriptions()
	d.readHTTPAPIs()
	if err := p.err(); err != nil {
		return nil, err
	}
	return &d.template, nil
}

type parser struct {
	*resolver
	p            *problems
	template     Template
	byARN        map[string]Function
	functionLogs map[string]bool // log groups of functions, by name
	permissions  []permission
}

// each calls f with the properties of every resource of a type, sorted by logical id. It then
// reports the properties that f did not read.
func (d *parser) each(kind string, f func(id string, q *properties)) {
	for _, id := range slices.Sorted(maps.Keys(d.resources)) {
		if res := d.resources[id]; res.kind == kind {
			q := newProperties(res.path+".Properties", res.properties, d.resolver, d.p)
			f(id, q)
			q.done()
		}
	}
}

// ownerOf returns a function that returns the API to which a resource belongs: that of its property. want describes the API.
func ownerOf[API any](apis map[string]*API, property, want string) func(q *properties) *API {
	return func(q *properties) *API {
		id := q.required(property)
		if id != "" && apis[id] == nil {
			q.refuse(property, id, want)
		}
		return apis[id]
	}
}

func checkSections(document map[string]any, p *problems) {
	// Conditions and Mappings can be ignored: only a resource's Condition and Fn::FindInMap use
	// them, and Parse rejects both. Rules only check the parameters of a deployment.
	known := []string{
		"AWSTemplateFormatVersion", "Conditions", "Description", "Mappings",
		"Metadata", "Outputs", "Parameters", "Resources", "Rules",
	}
	for name := range document {
		if !slices.Contains(known, name) {
			p.add(name, "not supported by this gateway")
		}
	}
}

func readParameters(document map[string]any, p *problems) map[string]string {
	values := map[string]string{}
	section, _ := document["Parameters"].(map[string]any)
	for id, each := range section {
		q := newProperties("Parameters."+id, asObject(each), &resolver{}, p)
		if !q.has("Default") {
			p.add(q.path, "Default: required; this gateway takes no parameter values")
			continue
		}
		// The default of an AWS::SSM parameter is the name of the SSM parameter, not its value.
		if strings.HasPrefix(q.text("Type"), "AWS::SSM::") {
			continue
		}
		values[id] = q.text("Default")
	}
	return values
}

func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}
