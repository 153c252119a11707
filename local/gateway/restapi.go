package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxRESTTimeout is how long API Gateway waits for an integration, unless the account
// was given more.
const maxRESTTimeout = 29 * time.Second

// restAPI is a REST API as a template declares it.
type restAPI struct {
	id, name   string
	deployment string
	stage      string
	variables  map[string]string         // of the stage
	settings   map[string]methodSettings // of the stage
	binary     []string                  // media types
	root       *restResource
	responses  map[string]gatewayResponse // by type
	authorizer map[string]*authorizer     // by logical id
	resources  map[string]*restResource   // by logical id
}

// restMethod is a method of a resource, with its integration: a function or a mock.
type restMethod struct {
	function   string // logical id
	mock       *mock
	timeout    time.Duration
	authorizer *authorizer // nil for none
	throttle   *throttle
}

// arn is what a policy or a permission calls a method.
func (a *restAPI) arn(verb, path string) string {
	return arn("execute-api", a.id+"/"+a.stage+"/"+verb+path)
}

// readRESTAPIs reads the REST APIs and what belongs to them, outside in.
func (d *declarations) readRESTAPIs() {
	apis := map[string]*restAPI{}
	d.each("AWS::ApiGateway::RestApi", func(id string, q *properties) {
		apis[id] = d.readRESTAPI(id, q)
		d.template.rest = append(d.template.rest, apis[id])
	})
	owner := func(q *properties) *restAPI {
		id := q.required("RestApiId")
		if id != "" && apis[id] == nil {
			q.refuse("RestApiId", id, "a Ref to a REST API of this template")
		}
		return apis[id]
	}
	d.readDeployments(owner)
	d.each("AWS::ApiGateway::Stage", func(_ string, q *properties) { d.readStage(owner(q), q) })
	d.readResources(apis, owner)
	d.each("AWS::ApiGateway::Authorizer", func(id string, q *properties) { d.readAuthorizer(id, owner(q), q) })
	d.each("AWS::ApiGateway::Method", func(_ string, q *properties) { d.readMethod(owner(q), q) })
	d.each("AWS::ApiGateway::GatewayResponse", func(_ string, q *properties) { d.readGatewayResponse(owner(q), q) })
	for _, api := range d.template.rest {
		if api.stage == "" {
			d.p.add("Resources."+api.id, "no AWS::ApiGateway::Stage: it is not deployed")
		}
		api.throttle()
	}
}

func (d *declarations) readRESTAPI(id string, q *properties) *restAPI {
	api := &restAPI{
		id: id, name: q.text("Name"), binary: q.texts("BinaryMediaTypes"),
		root:       newRESTResource(rootResource(id), "/"),
		responses:  map[string]gatewayResponse{},
		authorizer: map[string]*authorizer{},
		resources:  map[string]*restResource{},
	}
	api.resources[api.root.id] = api.root
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

// readDeployments checks the deployments. What they deploy is the whole API: a local
// gateway has no older version of it.
func (d *declarations) readDeployments(owner func(*properties) *restAPI) {
	d.each("AWS::ApiGateway::Deployment", func(_ string, q *properties) {
		owner(q)
		q.inert("Description")
	})
}

func (d *declarations) readStage(api *restAPI, q *properties) {
	name, deployment := q.required("StageName"), q.required("DeploymentId")
	variables := q.textMap("Variables")
	if deployment != "" && d.resources[deployment].kind != "AWS::ApiGateway::Deployment" {
		q.refuse("DeploymentId", deployment, "a Ref to a deployment of this template")
	}
	settings := readMethodSettings(q)
	q.only("CacheClusterEnabled", "false", false)
	q.inert("AccessLogSetting", "Description", "Tags", "TracingEnabled")
	if api == nil {
		return
	}
	if api.stage != "" {
		d.p.add(q.path, "a second stage of %s: no local URL would tell it from %s", api.id, api.stage)
	}
	api.stage, api.deployment, api.variables, api.settings = name, deployment, variables, settings
}

// readResources builds the tree of each API. Resources name their parents, in any
// order.
func (d *declarations) readResources(apis map[string]*restAPI, owner func(*properties) *restAPI) {
	type declared struct {
		api      *restAPI
		id, part string
		s        segment
		q        *properties
	}
	children := map[string][]declared{} // by the parent's id
	d.each("AWS::ApiGateway::Resource", func(id string, q *properties) {
		api := owner(q)
		parent, part := q.required("ParentId"), q.required("PathPart")
		s, ok := parseSegment(part)
		if !ok && part != "" {
			q.refuse("PathPart", part, "letters, digits and ._:,- or {name} or {name+}")
		}
		children[parent] = append(children[parent], declared{api, id, part, s, q})
	})
	var grow func(api *restAPI, parent *restResource)
	grow = func(api *restAPI, parent *restResource) {
		for _, each := range children[parent.id] {
			if each.api != api {
				each.q.refuse("ParentId", parent.id, "a resource of the same API")
				continue
			}
			child := parent.add(each.id, each.s, each.part)
			if child == nil {
				each.q.refuse("PathPart", each.part, "a path that no other resource has, and none below {name+}")
				continue
			}
			api.resources[each.id] = child
			grow(api, child)
		}
		delete(children, parent.id)
	}
	for _, id := range slices.Sorted(maps.Keys(apis)) {
		grow(apis[id], apis[id].root)
	}
	for _, orphans := range children {
		for _, each := range orphans {
			d.p.add(each.q.at("ParentId"), "does not lead to the root of an API")
		}
	}
}

func (d *declarations) readMethod(api *restAPI, q *properties) {
	verb, id := q.required("HttpMethod"), q.required("ResourceId")
	if verb != "" && !slices.Contains(verbs, verb) {
		q.refuse("HttpMethod", verb, "one of "+strings.Join(verbs, ", "))
	}
	q.only("ApiKeyRequired", "false: this gateway keeps no API keys", false)
	q.inert("MethodResponses", "OperationName", "RequestModels", "RequestParameters")
	method := &restMethod{authorizer: d.methodAuthorizer(api, q)}
	f, ok := d.readIntegration(method, q)
	if api == nil {
		return
	}
	node := api.resources[id]
	if node == nil {
		if id != "" {
			q.refuse("ResourceId", id, "a resource of "+api.id)
		}
		return
	}
	if node.methods[verb] != nil {
		q.refuse("HttpMethod", verb, "a method that "+node.path+" does not have yet")
	}
	node.methods[verb] = method
	if ok {
		d.checkPermission(strings.TrimSuffix(q.path, ".Properties"), f, api.arn(verb, permissionPath(node.path)))
	}
}

func (d *declarations) methodAuthorizer(api *restAPI, q *properties) *authorizer {
	kind, id := q.required("AuthorizationType"), q.text("AuthorizerId")
	switch {
	case kind == "NONE" && id == "", kind == "", api == nil:
	case kind != "CUSTOM":
		q.refuse("AuthorizationType", kind, "NONE or CUSTOM")
	case api.authorizer[id] == nil:
		q.refuse("AuthorizerId", id, "a Ref to an authorizer of "+api.id)
	default:
		return api.authorizer[id]
	}
	return nil
}

func (d *declarations) readIntegration(m *restMethod, q *properties) (Function, bool) {
	integration := q.object("Integration")
	if integration == nil {
		d.p.add(q.at("Integration"), "missing")
		return Function{}, false
	}
	defer integration.done()
	switch kind := integration.text("Type"); kind {
	case "AWS_PROXY":
	case "MOCK":
		m.mock = readMock(integration)
		return Function{}, false
	default:
		integration.refuse("Type", kind, "AWS_PROXY or MOCK")
	}
	// With any other method API Gateway answers every request with a 500.
	if verb := integration.text("IntegrationHttpMethod"); verb != "POST" {
		integration.refuse("IntegrationHttpMethod", verb, "POST, which is how a function is invoked")
	}
	limit := int(maxRESTTimeout.Milliseconds())
	m.timeout = time.Duration(integration.number("TimeoutInMillis", limit, 50, limit)) * time.Millisecond
	integration.only("ConnectionType", "INTERNET", "INTERNET")
	integration.only("ResponseTransferMode", "BUFFERED", "BUFFERED")
	integration.inert("PassthroughBehavior")
	f, ok := d.invokedFunction(integration, "Uri")
	m.function = f.ID
	return f, ok
}

func (d *declarations) readAuthorizer(id string, api *restAPI, q *properties) {
	if kind := q.text("Type"); kind != "REQUEST" {
		q.refuse("Type", kind, "REQUEST")
	}
	const ttl = "AuthorizerResultTtlInSeconds"
	if !q.has(ttl) {
		d.p.add(q.at(ttl), "got nothing, which is 300, want 0: a cached answer counts nothing")
	}
	q.only(ttl, "0: a cached answer counts nothing", json.Number("0"), "0")
	sources, err := parseIdentitySources(q.text("IdentitySource"))
	if err != nil {
		d.p.add(q.at("IdentitySource"), "%v", err)
	}
	q.inert("AuthType", "Name")
	f, ok := d.invokedFunction(q, "AuthorizerUri")
	if api == nil {
		return
	}
	api.authorizer[id] = &authorizer{function: f.ID, sources: sources}
	if ok {
		source := arn("execute-api", fmt.Sprintf("%s/authorizers/%s", api.id, id))
		d.checkPermission(strings.TrimSuffix(q.path, ".Properties"), f, source)
	}
}
