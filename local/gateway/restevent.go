package gateway

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/local/gateway/template"
)

// restRequest has the fields that both events of a REST API contain: payload version 1.0. An empty
// map is null for an integration and {} for an authorizer.
type restRequest struct {
	Resource          string              `json:"resource"`
	Path              string              `json:"path"`
	HTTPMethod        string              `json:"httpMethod"`
	Headers           map[string]string   `json:"headers"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`
	Query             map[string]string   `json:"queryStringParameters"`
	MultiValueQuery   map[string][]string `json:"multiValueQueryStringParameters"`
	PathParameters    map[string]string   `json:"pathParameters"`
	StageVariables    map[string]string   `json:"stageVariables"`
	Context           restContext         `json:"requestContext"`
}

type authorizerEvent struct {
	Type      string `json:"type"`
	MethodARN string `json:"methodArn"`
	restRequest
}

type proxyEvent struct {
	restRequest
	Body            *string `json:"body"`
	IsBase64Encoded bool    `json:"isBase64Encoded"`
}

type restContext struct {
	AccountID         string         `json:"accountId"`
	APIID             string         `json:"apiId"`
	Authorizer        map[string]any `json:"authorizer,omitempty"`
	DeploymentID      string         `json:"deploymentId"`
	DomainName        string         `json:"domainName"`
	DomainPrefix      string         `json:"domainPrefix"`
	ExtendedRequestID string         `json:"extendedRequestId"`
	HTTPMethod        string         `json:"httpMethod"`
	Identity          restIdentity   `json:"identity"`
	Path              string         `json:"path"`
	Protocol          string         `json:"protocol"`
	RequestID         string         `json:"requestId"`
	RequestTime       string         `json:"requestTime"`
	RequestTimeEpoch  int64          `json:"requestTimeEpoch"`
	ResourceID        string         `json:"resourceId"`
	ResourcePath      string         `json:"resourcePath"`
	Stage             string         `json:"stage"`
}

// API Gateway sets some fields of the identity only for IAM or Cognito. These fields are always
// null here.
type restIdentity struct {
	AccessKey                     *string `json:"accessKey"`
	AccountID                     *string `json:"accountId"`
	Caller                        *string `json:"caller"`
	CognitoAuthenticationProvider *string `json:"cognitoAuthenticationProvider"`
	CognitoAuthenticationType     *string `json:"cognitoAuthenticationType"`
	CognitoIdentityID             *string `json:"cognitoIdentityId"`
	CognitoIdentityPoolID         *string `json:"cognitoIdentityPoolId"`
	PrincipalOrgID                *string `json:"principalOrgId"`
	SourceIP                      string  `json:"sourceIp"`
	User                          *string `json:"user"`
	UserAgent                     *string `json:"userAgent"`
	UserARN                       *string `json:"userArn"`
}

// restCall is one request to a REST API. Each step of the handling adds its result to it.
type restCall struct {
	*request

	api        *template.REST
	sent       string // path as the client sent it
	path       string // path sent with exactly one leading slash
	route      string // path without the base path of a custom domain
	query      url.Values
	resource   *template.Resource // nil until the request is routed
	parameters map[string]string
	authorizer map[string]string        // context that the authorizer returned; nil before it has run
	latencies  map[string]time.Duration // durations of the completed steps; key: variable of the access log
}

// newRESTCall parses the URL of a request. Like API Gateway, it reduces several leading slashes to
// one, keeps a trailing slash, and decodes the query but not the path.
func newRESTCall(api *template.REST, in *request) *restCall {
	sent := sentPath(in.Request)
	path := "/" + strings.TrimLeft(sent, "/")
	if !strings.HasPrefix(sent, "/") { // such as "*" in "OPTIONS *"
		sent = path
	}
	return &restCall{request: in, api: api, sent: sent, path: path, route: path, query: in.URL.Query(), parameters: map[string]string{}, latencies: map[string]time.Duration{}}
}

// methodARN returns the ARN that the authorizer's policy must allow. Assumed: the path in the ARN
// is not decoded.
func (c *restCall) methodARN() string { return c.api.ARN(c.Method, c.route) }

func (c *restCall) event() restRequest {
	header := c.header.Clone()
	header.Del("Content-Length") // observed: unlike in the developer guide, events have no Content-Length
	var userAgent *string
	if value, ok := last(header.Values("User-Agent")); ok {
		userAgent = &value
	}
	return restRequest{
		Resource: c.resource.Path, Path: c.path, HTTPMethod: c.Method,
		Headers: lastValues(header), MultiValueHeaders: header,
		Query: lastValues(c.query), MultiValueQuery: nilIfEmpty(c.query),
		PathParameters: nilIfEmpty(c.parameters), StageVariables: nilIfEmpty(c.api.Variables),
		Context: restContext{
			AccountID: template.Account, APIID: c.api.ID, DeploymentID: c.api.Deployment,
			DomainName: c.Host, DomainPrefix: domainPrefix(c.Host),
			ExtendedRequestID: c.extended, HTTPMethod: c.Method,
			Identity: restIdentity{SourceIP: c.sourceIP, UserAgent: userAgent},
			Path:     c.contextPath(), Protocol: protocol, RequestID: c.id,
			RequestTime: clf(c.at), RequestTimeEpoch: c.at.UnixMilli(),
			ResourceID: c.resource.ID, ResourcePath: c.resource.Path, Stage: c.api.Stage,
		},
	}
}

// contextPath returns the path with the stage or the base path in front. URLs of this gateway have no stage.
func (c *restCall) contextPath() string {
	if c.route != c.path {
		return c.sent
	}
	return "/" + c.api.Stage + c.sent
}

func (c *restCall) authorizerEvent() authorizerEvent {
	e := authorizerEvent{Type: "REQUEST", MethodARN: c.methodARN(), restRequest: c.event()}
	e.Query, e.MultiValueQuery = notNil(e.Query), notNil(e.MultiValueQuery)
	e.PathParameters, e.StageVariables = notNil(e.PathParameters), notNil(e.StageVariables)
	return e
}

func (c *restCall) proxyEvent(authorizer map[string]any) proxyEvent {
	e := proxyEvent{restRequest: c.event()}
	e.Context.Authorizer = authorizer
	if len(c.body) == 0 {
		return e
	}
	body := string(c.body)
	if isBinary(c.api.BinaryTypes, c.header.Get("Content-Type")) {
		body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(c.body), true
	}
	e.Body = &body
	return e
}

// isBinary reports whether the API treats a body as binary. header is the request's Content-Type or
// Accept. An entry of binary is a media type, image/* or */*. Recorded: an entry such as */test, or
// a header without a subtype such as "image", matches nothing.
func isBinary(binary []string, header string) bool {
	media := mediaType(header)
	kind, _, typed := strings.Cut(media, "/")
	return slices.ContainsFunc(binary, func(each string) bool {
		return each == "*/*" || typed && kind != "*" && (each == media || each == kind+"/*")
	})
}

func nilIfEmpty[M ~map[string]V, V any](m M) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

func notNil[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// variables returns the values that gateway responses, identity sources and access logs can use.
func (c *restCall) variables() variables {
	v := variables{
		context: map[string]string{
			"accountId": template.Account, "apiId": c.api.ID, "deploymentId": c.api.Deployment,
			"domainName": c.Host, "domainPrefix": domainPrefix(c.Host), "extendedRequestId": c.extended,
			"httpMethod": c.Method, "identity.sourceIp": c.sourceIP, "identity.userAgent": c.UserAgent(),
			"path": c.contextPath(), "protocol": protocol, "requestId": c.id,
			"requestTime": clf(c.at), "requestTimeEpoch": epoch(c.at), "stage": c.api.Stage,
		},
		authorizer: c.authorizer, stage: c.api.Variables, path: c.parameters, query: c.query, header: c.header,
	}
	if c.resource != nil {
		v.context["resourceId"], v.context["resourcePath"] = c.resource.ID, c.resource.Path
	}
	return v
}
