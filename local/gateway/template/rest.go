package template

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// maxRESTTimeout is the default quota for the timeout of an integration.
const maxRESTTimeout = 29 * time.Second

// REST is a REST API: an AWS::ApiGateway::RestApi and the resources that belong to it.
type REST struct {
	ID, Name          string
	Stage, Deployment string
	Root              *Resource
	Responses         map[string]GatewayResponse // key: response type
	Throttle          algo.Machine               // of the stage; each method has its own bucket of this size and rate; nil if unlimited
}

// Method is a method of a resource. Its integration is a function.
type Method struct {
	Function   string // logical id
	Timeout    time.Duration
	Authorizer string // logical id of the authorizer's function; empty if the method is open to everyone
}

// ARN returns the ARN of a method, as policies and permissions use it.
func (a *REST) ARN(verb, path string) string {
	return arn("execute-api", a.ID+"/"+a.Stage+"/"+verb+path)
}

// readREST reads the REST API and the resources that refer to it.
func (p *parser) readREST() {
	var api *REST
	type restAPI struct {
		Name                  string
		EndpointConfiguration struct{ Types []string }
		Description, Tags     any
	}
	each(p, "AWS::ApiGateway::RestApi", func(id string, q restAPI) {
		if api != nil {
			p.fail(id, "second REST API; this gateway serves one")
		}
		if t := q.EndpointConfiguration.Types; len(t) > 0 && !slices.Equal(t, []string{"REGIONAL"}) {
			p.fail(id, "EndpointConfiguration.Types: got %q, want REGIONAL", t)
		}
		api = &REST{ID: id, Name: q.Name, Root: newResource(id+".RootResourceId", "/"), Responses: map[string]GatewayResponse{}}
	})
	if api == nil || p.err != nil {
		return
	}
	p.template.REST = api
	type deployment struct{ RestAPIID, Description any }
	each(p, "AWS::ApiGateway::Deployment", func(string, deployment) {})
	p.readStage(api)
	nodes, guards := p.readResources(api), p.readAuthorizers(api)
	p.readMethods(api, nodes, guards)
	type gatewayResponse struct {
		RestAPIID                             any // the only REST API
		ResponseType, StatusCode              string
		ResponseParameters, ResponseTemplates map[string]string
	}
	each(p, "AWS::ApiGateway::GatewayResponse", func(id string, q gatewayResponse) {
		status, _ := strconv.Atoi(q.StatusCode)
		if q.StatusCode != "" && (status < 200 || status > 599) {
			p.fail(id, "StatusCode: got %q, want 200 to 599", q.StatusCode)
		}
		response, err := parseResponse(q.ResponseType, status, q.ResponseParameters, q.ResponseTemplates)
		if err != nil {
			p.fail(id, "%v", err)
		}
		api.Responses[q.ResponseType] = response
	})
	if api.Stage == "" {
		p.fail(api.ID, "no AWS::ApiGateway::Stage deploys it")
	}
}

// throttle has the rate and the burst of a stage, in requests.
type throttle struct {
	ThrottlingRateLimit  float64
	ThrottlingBurstLimit int64
}

// bucket returns the token bucket of a throttle, or nil without one. Its rate can be a fraction, but algo.Rate has whole
// requests, hence the window of 1,000 seconds.
func (t throttle) bucket(p *parser, id string) algo.Machine {
	if t == (throttle{}) {
		return nil
	}
	bucket, err := algo.New(algo.Rate{
		Algorithm: algo.TokenBucket, Requests: int64(math.Round(t.ThrottlingRateLimit * 1000)), Window: 1000 * time.Second,
		Burst: t.ThrottlingBurstLimit,
	})
	if err != nil {
		p.fail(id, "throttle: %v", err)
	}
	return bucket
}

func (p *parser) readStage(api *REST) {
	type stage struct {
		RestAPIID               any // the only REST API
		StageName, DeploymentID string
		MethodSettings          []struct {
			throttle
			HTTPMethod, ResourcePath                       string
			CachingEnabled                                 bool
			DataTraceEnabled, LoggingLevel, MetricsEnabled any
		}
		AccessLogSetting, Description, Tags, TracingEnabled any
	}
	each(p, "AWS::ApiGateway::Stage", func(id string, q stage) {
		want(p, id, "type of DeploymentId", p.resources[q.DeploymentID].Type, "AWS::ApiGateway::Deployment")
		if api.Stage != "" {
			p.fail(id, "second stage of %s; local URLs have no stage name", api.ID)
		}
		api.Stage, api.Deployment = q.StageName, q.DeploymentID
		for _, s := range q.MethodSettings {
			want(p, id, "MethodSettings.HttpMethod", s.HTTPMethod, "*")
			want(p, id, "MethodSettings.ResourcePath", s.ResourcePath, "/*")
			want(p, id, "MethodSettings.CachingEnabled", s.CachingEnabled, false)
			api.Throttle = s.bucket(p, id)
		}
	})
}

// readResources builds the tree of resources, by logical id. Resources may be in any order; each names its parent.
func (p *parser) readResources(api *REST) map[string]*Resource {
	type declared struct {
		RestAPIID          any // the only REST API
		ParentID, PathPart string
	}
	all := map[string]declared{}
	each(p, "AWS::ApiGateway::Resource", func(id string, q declared) {
		all[id] = q
	})
	nodes := map[string]*Resource{api.Root.ID: api.Root}
	for placed := true; placed; {
		placed = false
		for _, id := range slices.Sorted(maps.Keys(all)) {
			q := all[id]
			parent := nodes[q.ParentID]
			if parent == nil {
				continue
			}
			s, ok := parseSegment(q.PathPart)
			if ok {
				nodes[id] = parent.add(id, q.PathPart, s)
			}
			if nodes[id] == nil {
				p.fail(id, "PathPart: got %q, want one that no other resource has, and none below {name+}", q.PathPart)
			}
			delete(all, id)
			placed = true
		}
	}
	for id := range all {
		p.fail(id, "ParentId: does not lead to the root of %s", api.ID)
	}
	return nodes
}

// readAuthorizers returns the logical id of the function of each authorizer.
func (p *parser) readAuthorizers(api *REST) map[string]string {
	guards := map[string]string{}
	type authorizer struct {
		RestAPIID                           any // the only REST API
		Type, AuthorizerURI, IdentitySource string
		AuthorizerResultTTLInSeconds        *int
		Name                                any
	}
	each(p, "AWS::ApiGateway::Authorizer", func(id string, q authorizer) {
		want(p, id, "Type", q.Type, "REQUEST")
		want(p, id, "IdentitySource", q.IdentitySource, "")
		if q.AuthorizerResultTTLInSeconds == nil || *q.AuthorizerResultTTLInSeconds != 0 {
			p.fail(id, "AuthorizerResultTtlInSeconds: want 0 (the default is 300): a cached answer charges nothing")
		}
		guards[id] = p.invoked(id, "AuthorizerUri", q.AuthorizerURI, arn("execute-api", api.ID+"/authorizers/"+id))
	})
	return guards
}

func (p *parser) readMethods(api *REST, nodes map[string]*Resource, guards map[string]string) {
	type method struct {
		RestAPIID                                               any // the only REST API
		ResourceID, HTTPMethod, AuthorizationType, AuthorizerID string
		APIKeyRequired                                          bool
		Integration                                             struct {
			Type, IntegrationHTTPMethod, URI string
			TimeoutInMillis                  int
		}
		MethodResponses, OperationName any
	}
	each(p, "AWS::ApiGateway::Method", func(id string, q method) {
		want(p, id, "ApiKeyRequired", q.APIKeyRequired, false)
		node := nodes[q.ResourceID]
		if node == nil || node.Methods[q.HTTPMethod] != nil || !slices.Contains(verbs, q.HTTPMethod) {
			p.fail(id, "got %s of %s, want a new method of a resource of %s", q.HTTPMethod, q.ResourceID, api.ID)
			return
		}
		m := &Method{Timeout: maxRESTTimeout, Authorizer: guards[q.AuthorizerID]}
		guarded := q.AuthorizationType == "CUSTOM" && m.Authorizer != ""
		if open := q.AuthorizationType == "NONE" && q.AuthorizerID == ""; !guarded && !open {
			p.fail(id, "AuthorizationType: got %q with AuthorizerId %q, want NONE, or CUSTOM with an authorizer of %s",
				q.AuthorizationType, q.AuthorizerID, api.ID)
		}
		node.Methods[q.HTTPMethod] = m
		i := q.Integration
		want(p, id, "Integration.Type", i.Type, "AWS_PROXY")
		// API Gateway answers every request with a 500 if IntegrationHTTPMethod is not POST.
		want(p, id, "Integration.IntegrationHttpMethod", i.IntegrationHTTPMethod, "POST")
		if i.TimeoutInMillis != 0 {
			m.Timeout = time.Duration(i.TimeoutInMillis) * time.Millisecond
		}
		if m.Timeout < 50*time.Millisecond || m.Timeout > maxRESTTimeout {
			p.fail(id, "Integration.TimeoutInMillis: got %d, want 50 to 29000", i.TimeoutInMillis)
		}
		m.Function = p.invoked(id, "Integration.Uri", i.URI, api.ARN(q.HTTPMethod, node.Path))
	})
}
