package gateway

import (
	"net/url"
	"strconv"
	"strings"
)

// Values of events. Nothing is deployed, so the account is the example in AWS's documentation.
const (
	account = "123456789012"
	restID  = "rest" // of the REST API
	httpID  = "http" // of the HTTP API
)

// restCall is one request to a REST API. Each step of the handling adds its result to it.
type restCall struct {
	*request

	stage      string
	sent       string // path as the client sent it
	path       string // path sent with exactly one leading slash
	below      string // path without the base path of a custom domain
	query      url.Values
	route      *route // nil until the request is routed
	parameters map[string]string
	authorizer map[string]string // context that the authorizer returned; nil before it has run
}

// newRESTCall parses the URL of a request. Like API Gateway, it reduces several leading slashes to
// one, keeps a trailing slash, and decodes the query but not the path.
func newRESTCall(stage string, in *request) *restCall {
	sent := sentPath(in.Request)
	path := "/" + strings.TrimLeft(sent, "/")
	if !strings.HasPrefix(sent, "/") { // such as "*" in "OPTIONS *"
		sent = path
	}
	return &restCall{request: in, stage: stage, sent: sent, path: path, below: path, query: in.URL.Query()}
}

// methodARN returns the ARN that the authorizer's policy must allow. Assumed: the path in the ARN
// is not decoded.
func (c *restCall) methodARN() string {
	return "arn:aws:execute-api:us-east-1:" + account + ":" + restID + "/" + c.stage + "/" + c.Method + c.below
}

// event returns what both events of a REST API contain: payload version 1.0. An empty
// map is null for an integration and {} for an authorizer.
func (c *restCall) event() map[string]any {
	header := c.header.Clone()
	header.Del("Content-Length") // observed: unlike in the developer guide, events have no Content-Length
	identity := map[string]any{"sourceIp": c.sourceIP}
	for _, field := range []string{ // set only for IAM or Cognito
		"accessKey", "accountId", "caller", "cognitoAuthenticationProvider", "cognitoAuthenticationType", "cognitoIdentityId",
		"cognitoIdentityPoolId", "principalOrgId", "user", "userAgent", "userArn",
	} {
		identity[field] = nil
	}
	if values := header.Values("User-Agent"); len(values) > 0 {
		identity["userAgent"] = values[len(values)-1]
	}
	return map[string]any{
		"resource": c.route.Path, "path": c.path, "httpMethod": c.Method,
		"headers": lastValues(header), "multiValueHeaders": header,
		"queryStringParameters": lastValues(c.query), "multiValueQueryStringParameters": nilIfEmpty(c.query),
		"pathParameters": nilIfEmpty(c.parameters), "stageVariables": nil,
		"requestContext": map[string]any{
			"accountId": account, "apiId": restID, "deploymentId": restID,
			"domainName": c.Host, "domainPrefix": domainPrefix(c.Host), "extendedRequestId": c.extended, "httpMethod": c.Method,
			"identity": identity, "path": c.contextPath(), "protocol": protocol, "requestId": c.id,
			"requestTime": clf(c.at), "requestTimeEpoch": c.at.UnixMilli(),
			"resourceId": c.route.Path, "resourcePath": c.route.Path, "stage": c.stage,
		},
	}
}

// contextPath returns the path with the stage or the base path in front. URLs of this gateway have no stage.
func (c *restCall) contextPath() string {
	if c.below != c.path {
		return c.sent
	}
	return "/" + c.stage + c.sent
}

func (c *restCall) authorizerEvent() map[string]any {
	e := c.event()
	e["type"], e["methodArn"], e["stageVariables"] = "REQUEST", c.methodARN(), map[string]string{}
	e["queryStringParameters"], e["multiValueQueryStringParameters"] = notNil(lastValues(c.query)), notNil(c.query)
	e["pathParameters"] = notNil(c.parameters)
	return e
}

func (c *restCall) proxyEvent(authorizer map[string]any) map[string]any {
	e := c.event()
	if authorizer != nil {
		e["requestContext"].(map[string]any)["authorizer"] = authorizer
	}
	e["body"], e["isBase64Encoded"] = nil, false
	if len(c.body) > 0 {
		e["body"] = string(c.body)
	}
	return e
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

// variables returns the values that gateway responses can use, by the name after "$context.".
func (c *restCall) variables() map[string]string {
	v := map[string]string{
		"accountId": account, "apiId": restID, "deploymentId": restID,
		"domainName": c.Host, "domainPrefix": domainPrefix(c.Host), "extendedRequestId": c.extended,
		"httpMethod": c.Method, "identity.sourceIp": c.sourceIP, "identity.userAgent": c.UserAgent(),
		"path": c.contextPath(), "protocol": protocol, "requestId": c.id,
		"requestTime": clf(c.at), "requestTimeEpoch": strconv.FormatInt(c.at.UnixMilli(), 10), "stage": c.stage,
	}
	for key, value := range c.authorizer {
		v["authorizer."+key] = value
	}
	if c.route != nil {
		v["resourceId"], v["resourcePath"] = c.route.Path, c.route.Path
	}
	return v
}
