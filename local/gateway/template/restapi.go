package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// maxRESTTimeout is the default quota for the timeout of an integration.
const maxRESTTimeout = 29 * time.Second

// REST is a REST API: an AWS::ApiGateway::RestApi and the resources that belong to it.
type REST struct {
	ID, Name    string
	Deployment  string
	Stage       string
	Variables   map[string]string         // stage variables
	settings    map[string]methodSettings // settings of the stage; the key has the form of settingsKey
	BinaryTypes []string                  // media types
	Root        *Resource
	AccessLog   *AccessLog                 // nil if the stage has no access log
	Responses   map[string]GatewayResponse // key: response type
	authorizers map[string]*Authorizer     // key: logical id
	Resources   map[string]*Resource       // key: logical id
}

// Method is a method of a resource. Its integration is a function or a mock.
type Method struct {
	Function   string // logical id of the function; empty for a mock
	Mock       *Mock
	Timeout    time.Duration
	Authorizer *Authorizer  // nil if the method is open to everyone
	Throttle   algo.Machine // nil if unlimited
}

// Authorizer is a REQUEST authorizer of a REST API.
type Authorizer struct {
	Function        string     // logical id of the function
	IdentitySources []Variable // a request without a value for one of them gets a 401
}

// ARN returns the ARN of a method, as policies and permissions use it.
func (a *REST) ARN(verb, path string) string {
	return arn("execute-api", a.ID+"/"+a.Stage+"/"+verb+path)
}

// readRESTAPIs reads the REST APIs and the resources that refer to them. It reads each resource
// type after the types to which it refers.
func (d *parser) readRESTAPIs() {
	apis := map[string]*REST{}
	d.each("AWS::ApiGateway::RestApi", func(id string, q *properties) {
		apis[id] = d.readRESTAPI(id, q)
		d.template.REST = append(d.template.REST, apis[id])
	})
	owner := ownerOf(apis, "RestApiId", "a Ref to a REST API of this template")
	// Each deployment serves the whole API of the template, because a template contains no older version of it.
	d.each("AWS::ApiGateway::Deployment", func(_ string, q *properties) {
		owner(q)
		q.inert("Description")
	})
	d.each("AWS::ApiGateway::Stage", func(_ string, q *properties) { d.readStage(owner(q), q) })
	d.readResources(apis, owner)
	d.each("AWS::ApiGateway::Authorizer", func(id string, q *properties) { d.readAuthorizer(id, owner(q), q) })
	d.each("AWS::ApiGateway::Method", func(_ string, q *properties) { d.readMethod(owner(q), q) })
	d.each("AWS::ApiGateway::GatewayResponse", func(_ string, q *properties) { d.readGatewayResponse(owner(q), q) })
	for _, api := range d.template.REST {
		if api.Stage == "" {
			d.p.add("Resources."+api.ID, "no AWS::ApiGateway::Stage deploys it")
		}
		api.setThrottles()
	}
}

func (d *parser) readRESTAPI(id string, q *properties) *REST {
	api := &REST{
		ID: id, Name: q.text("Name"), BinaryTypes: q.texts("BinaryMediaTypes"),
		Root:        newResource(rootResource(id), "/"),
		Responses:   map[string]GatewayResponse{},
		authorizers: map[string]*Authorizer{},
		Resources:   map[string]*Resource{},
	}
	api.Resources[api.Root.ID] = api.Root
	if endpoint := q.object("EndpointConfiguration"); endpoint != nil {
		endpoint.only("Types", "EDGE or REGIONAL", []any{"EDGE"}, []any{"REGIONAL"})
		endpoint.inert("IpAddressType")
		endpoint.done()
	}
	q.only("ApiKeySourceType", "HEADER", "HEADER")
	q.only("DisableExecuteApiEndpoint", "false: there is no other endpoint here", false)
	q.inert("Description", "FailOnWarnings", "Tags")
	return api
}

func (d *parser) readStage(api *REST, q *properties) {
	name, deployment := q.required("StageName"), q.required("DeploymentId")
	variables := q.textMap("Variables")
	if deployment != "" && d.resources[deployment].kind != "AWS::ApiGateway::Deployment" {
		q.refuse("DeploymentId", deployment, "a Ref to a deployment of this template")
	}
	settings := readMethodSettings(q)
	q.only("CacheClusterEnabled", "false", false)
	log := d.readAccessLog(q)
	q.inert("Description", "Tags", "TracingEnabled")
	if api == nil {
		return
	}
	if api.Stage != "" {
		d.p.add(q.path, "second stage of %s (the first is %s); local URLs have no stage name", api.ID, api.Stage)
	}
	api.Stage, api.Deployment, api.Variables, api.settings, api.AccessLog = name, deployment, variables, settings, log
}

// readResources builds the tree of resources of each API. Resources may be in any order; each names
// its parent.
func (d *parser) readResources(apis map[string]*REST, owner func(*properties) *REST) {
	type declared struct {
		api      *REST
		id, part string
		s        Segment
		q        *properties
	}
	children := map[string][]declared{} // key: id of the parent
	d.each("AWS::ApiGateway::Resource", func(id string, q *properties) {
		api := owner(q)
		parent, part := q.required("ParentId"), q.required("PathPart")
		s, ok := parseSegment(part)
		if !ok && part != "" {
			q.refuse("PathPart", part, "letters, digits and ._:,- or {name} or {name+}")
		}
		children[parent] = append(children[parent], declared{api, id, part, s, q})
	})
	var grow func(api *REST, parent *Resource)
	grow = func(api *REST, parent *Resource) {
		for _, each := range children[parent.ID] {
			if each.api != api {
				each.q.refuse("ParentId", parent.ID, "a resource of the same API")
				continue
			}
			child := parent.add(each.id, each.s, each.part)
			if child == nil {
				each.q.refuse("PathPart", each.part, "a path that no other resource has, and none below {name+}")
				continue
			}
			api.Resources[each.id] = child
			grow(api, child)
		}
		delete(children, parent.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(apis)) {
		grow(apis[id], apis[id].Root)
	}
	for _, orphans := range children {
		for _, each := range orphans {
			d.p.add(each.q.at("ParentId"), "does not lead to the root of an API")
		}
	}
}

func (d *parser) readMethod(api *REST, q *properties) {
	verb, id := q.required("HttpMethod"), q.required("ResourceId")
	if verb != "" && !slices.Contains(verbs, verb) {
		q.refuse("HttpMethod", verb, "one of "+strings.Join(verbs, ", "))
	}
	q.only("ApiKeyRequired", "false: this gateway keeps no API keys", false)
	q.inert("MethodResponses", "OperationName", "RequestModels", "RequestParameters")
	method := &Method{Authorizer: d.methodAuthorizer(api, q)}
	f, ok := d.readIntegration(method, q)
	if api == nil {
		return
	}
	node := api.Resources[id]
	if node == nil {
		if id != "" {
			q.refuse("ResourceId", id, "a resource of "+api.ID)
		}
		return
	}
	if node.Methods[verb] != nil {
		q.refuse("HttpMethod", verb, "a method that "+node.Path+" does not have yet")
	}
	node.Methods[verb] = method
	if ok {
		d.checkPermission(apiPrincipal, q, f, api.ARN(verb, permissionPath(node.Path)))
	}
}

func (d *parser) methodAuthorizer(api *REST, q *properties) *Authorizer {
	kind, id := q.required("AuthorizationType"), q.text("AuthorizerId")
	switch {
	case kind == "NONE" && id == "", kind == "", api == nil:
	case kind != "CUSTOM":
		q.refuse("AuthorizationType", kind, "NONE or CUSTOM")
	case api.authorizers[id] == nil:
		q.refuse("AuthorizerId", id, "a Ref to an authorizer of "+api.ID)
	default:
		return api.authorizers[id]
	}
	return nil
}

func (d *parser) readIntegration(m *Method, q *properties) (Function, bool) {
	integration := q.object("Integration")
	if integration == nil {
		d.p.add(q.at("Integration"), "required")
		return Function{}, false
	}
	defer integration.done()
	switch kind := integration.text("Type"); kind {
	case "AWS_PROXY":
	case "MOCK":
		m.Mock = readMock(integration)
		return Function{}, false
	default:
		integration.refuse("Type", kind, "AWS_PROXY or MOCK")
	}
	// API Gateway answers every request with a 500 if IntegrationHttpMethod is not POST.
	if verb := integration.text("IntegrationHttpMethod"); verb != "POST" {
		integration.refuse("IntegrationHttpMethod", verb, "POST, which is how a function is invoked")
	}
	limit := int(maxRESTTimeout.Milliseconds())
	m.Timeout = time.Duration(integration.number("TimeoutInMillis", limit, 50, limit)) * time.Millisecond
	integration.only("ConnectionType", "INTERNET", "INTERNET")
	integration.only("ResponseTransferMode", "BUFFERED", "BUFFERED")
	integration.inert("PassthroughBehavior")
	f, ok := d.invokedFunction(integration, "Uri")
	m.Function = f.ID
	return f, ok
}

func (d *parser) readAuthorizer(id string, api *REST, q *properties) {
	if kind := q.text("Type"); kind != "REQUEST" {
		q.refuse("Type", kind, "REQUEST")
	}
	const ttl = "AuthorizerResultTtlInSeconds"
	if !q.has(ttl) {
		d.p.add(q.at(ttl), "got none (default 300), want 0: a cached answer charges nothing")
	}
	q.only(ttl, "0: a cached answer charges nothing", json.Number("0"), "0")
	sources, err := parseIdentitySources(q.text("IdentitySource"))
	if err != nil {
		d.p.add(q.at("IdentitySource"), "%v", err)
	}
	q.inert("AuthType", "Name")
	f, ok := d.invokedFunction(q, "AuthorizerUri")
	if api == nil {
		return
	}
	api.authorizers[id] = &Authorizer{Function: f.ID, IdentitySources: sources}
	if ok {
		source := arn("execute-api", fmt.Sprintf("%s/authorizers/%s", api.ID, id))
		d.checkPermission(apiPrincipal, q, f, source)
	}
}

// parseIdentitySources reads an authorizer's IdentitySource: variables separated by commas. CDK
// writes "" for an authorizer without a cache, which needs no identity source.
func parseIdentitySources(text string) ([]Variable, error) {
	if text == "" {
		return nil, nil
	}
	var sources []Variable
	for part := range strings.SplitSeq(text, ",") {
		source, err := parseVariable(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		// Path parameters are not valid identity sources. context.authorizer.* and context.error.*
		// have no value before the authorizer runs.
		switch {
		case source.Source == "method.request.path.", source.Source == "context.authorizer.",
			strings.HasPrefix(source.Name, "error."):
			return nil, fmt.Errorf("%q: not an identity source", part)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
