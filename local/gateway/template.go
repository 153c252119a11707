package gateway

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Template is a CloudFormation template that has been read and checked. It is
// immutable.
type Template struct {
	functions []Function
	rest      []*restAPI
	http      []*httpAPI
}

// Function is an AWS::Lambda::Function of a template.
type Function struct {
	// ID is the function's logical id in the template.
	ID string
	// Environment is Environment.Variables, with intrinsic functions resolved: a Ref to
	// a table is its name.
	Environment map[string]string
	// Timeout is how long one invocation may take: 3 seconds if the template is silent.
	Timeout time.Duration
	// Memory is MemorySize in megabytes: 128 if the template is silent. It is not
	// enforced here.
	Memory int

	arn string
}

// Functions returns the functions of the template, in the order of their ids.
func (t *Template) Functions() []Function {
	all := slices.Clone(t.functions)
	for i := range all {
		all[i].Environment = maps.Clone(all[i].Environment)
	}
	return all
}

// APIs returns how many APIs the template has: a gateway needs as many addresses,
// which can be taken before its functions are started.
func (t *Template) APIs() int { return len(t.rest) + len(t.http) }

// ParseTemplate reads a CloudFormation template in JSON: what CDK synthesizes, or
// what is written in its shape. Whatever API Gateway would do and this package does
// not is an error and never ignored. The error joins all problems, one line each,
// with the path in the template.
func ParseTemplate(data []byte) (*Template, error) {
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

	d := declarations{resolver: r, p: &p}
	d.readFunctions()
	d.readPermissions()
	d.readRESTAPIs()
	d.readHTTPAPIs()
	if err := p.err(); err != nil {
		return nil, err
	}
	return &d.template, nil
}

// declarations is a template being read.
type declarations struct {
	*resolver
	p           *problems
	template    Template
	byARN       map[string]Function
	permissions []permission
}

// each calls f with the properties of every resource of a type, in the order of the
// ids, and refuses what f leaves unread.
func (d *declarations) each(kind string, f func(id string, q *properties)) {
	for _, id := range slices.Sorted(maps.Keys(d.resources)) {
		if res := d.resources[id]; res.kind == kind {
			q := newProperties(res.path+".Properties", res.properties, d.resolver, d.p)
			f(id, q)
			q.done()
		}
	}
}

func checkSections(document map[string]any, p *problems) {
	// Conditions count only where a resource uses one, Mappings only through
	// Fn::FindInMap; both are refused there. Rules check a deployment's parameters.
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

// readParameters returns the values that parameters have without being given one.
func readParameters(document map[string]any, p *problems) map[string]string {
	values := map[string]string{}
	section, _ := document["Parameters"].(map[string]any)
	for id, each := range section {
		q := newProperties("Parameters."+id, asObject(each), &resolver{}, p)
		if !q.has("Default") {
			p.add(q.path, "no Default, and nobody is asked for a value here")
			continue
		}
		// The default of such a parameter is the name under which the value is kept.
		if strings.HasPrefix(q.text("Type"), "AWS::SSM::") {
			continue
		}
		values[id] = q.text("Default")
	}
	return values
}

// asObject returns v if it is an object and an empty one otherwise.
func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}
