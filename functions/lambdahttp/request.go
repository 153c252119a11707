package lambdahttp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
)

// proxyEvent is a request from any host, without its body. A REST API, its authorizer or a load balancer sends payload 1.0;
// an HTTP API or a function URL sends payload 2.0. One type decodes all of them, and its fields identify the host.
type proxyEvent struct {
	Type      string `json:"type"` // of an authorizer's event
	MethodARN string `json:"methodArn"`
	RouteARN  string `json:"routeArn"`

	Version string `json:"version"` // "2.0" for payload 2.0; "" for a REST API; any other value for payload 1.0

	HTTPMethod   string              `json:"httpMethod"`
	Path         string              `json:"path"`
	MultiHeaders map[string][]string `json:"multiValueHeaders"`
	Query        map[string]string   `json:"queryStringParameters"`
	MultiQuery   map[string][]string `json:"multiValueQueryStringParameters"`

	RawPath  string   `json:"rawPath"`
	RawQuery string   `json:"rawQueryString"`
	Cookies  []string `json:"cookies"`

	Headers        map[string]string `json:"headers"`
	RequestContext struct {
		APIID      string          `json:"apiId"`
		DomainName string          `json:"domainName"`
		Stage      string          `json:"stage"`
		ELB        *struct{}       `json:"elb"`
		Authorizer json.RawMessage `json:"authorizer"` // contains whatever an authorizer returned
		Identity   struct {
			SourceIP    string                                                        `json:"sourceIp"`
			UserARN     string                                                        `json:"userArn"`
			CognitoID   string                                                        `json:"cognitoIdentityId"`
			CognitoType string                                                        `json:"cognitoAuthenticationType"`
			ClientCert  events.APIGatewayV2HTTPRequestContextAuthenticationClientCert `json:"clientCert"`
		} `json:"identity"`
		Authentication events.APIGatewayV2HTTPRequestContextAuthentication  `json:"authentication"`
		HTTP           events.APIGatewayV2HTTPRequestContextHTTPDescription `json:"http"`
	} `json:"requestContext"`
}

// bodyEvent is a request with its body.
type bodyEvent struct {
	proxyEvent

	Body   string `json:"body"`
	Base64 bool   `json:"isBase64Encoded"`
}

// host is the kind of host that sent an event.
type host int

const (
	restAPI host = iota
	httpAPI      // an HTTP API or a function URL
	loadBalancer
)

func (e *proxyEvent) host() host {
	switch {
	case e.Version == "2.0":
		return httpAPI
	case e.RequestContext.ELB != nil:
		return loadBalancer
	}
	return restAPI
}

// target returns the method and the path of the request, as the host writes them.
func (e *proxyEvent) target() (method, path string) {
	if e.host() == httpAPI {
		return e.RequestContext.HTTP.Method, e.RawPath
	}
	return e.HTTPMethod, e.Path
}

// request converts the event to an http.Request with its delivery in the context.
func (e *proxyEvent) request(ctx context.Context, in *Environment, body string) (*http.Request, error) {
	method, path := e.target()
	header := e.header()
	if method == "" || !strings.HasPrefix(path, "/") {
		return nil, errors.New("unsupported event: no method or path")
	}
	prefixes := e.prefixes(in.basePaths(e.RequestContext.DomainName))
	u, malformed := e.url(path, prefixes)
	below := e.path(path).Below(prefixes)
	var texts map[string]string
	if in.BehindAuthorizer {
		texts = e.authorizerContext()
	}
	answer, decided := decisionOf(texts)
	d := delivery{decided: decided, answer: answer, path: &below, malformed: malformed != nil, event: e}
	ctx = context.WithValue(ctx, deliveryKey{}, d)
	r, err := http.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.URL, r.Header, r.Host, r.RequestURI = u, header, header.Get("Host"), u.RequestURI()
	r.RemoteAddr = netip.AddrPortFrom(e.address(header), 0).String()
	return r, nil
}

// functionURLDomain is a part of all domain names of function URLs, and of no other names.
const functionURLDomain = ".lambda-url."

// authorizerContext returns the texts in the context of a REST API's authorizer, or nil for other hosts, where Weir has
// none.
func (e *proxyEvent) authorizerContext() (texts map[string]string) {
	if e.host() == restAPI && e.Version == "" && e.RequestContext.Authorizer != nil {
		_ = json.Unmarshal(e.RequestContext.Authorizer, &texts) // values of other types are not Weir's, and become ""
	}
	return texts
}

// address returns the client's address from the source that the host guarantees.
func (e *proxyEvent) address(header http.Header) netip.Addr {
	switch e.host() {
	case httpAPI:
		return caller.ParseAddress(e.RequestContext.HTTP.SourceIP)
	case loadBalancer:
		return caller.LastHop(header["X-Forwarded-For"])
	default:
		return caller.ParseAddress(e.RequestContext.Identity.SourceIP)
	}
}

// decoded reports whether the host has decoded the path. An HTTP API does, in both payload versions; other
// hosts do not.
func (e *proxyEvent) decoded() bool {
	return e.Version != "" && !e.functionURL()
}

func (e *proxyEvent) functionURL() bool {
	return strings.Contains(strings.ToLower(e.RequestContext.DomainName), functionURLDomain)
}

// prefixes returns what the host can add before the path. On its default domain an HTTP API adds the stage. AWS does not
// document this for payload 1.0, so its path is read with the stage and without it.
func (e *proxyEvent) prefixes(basePaths []string) []string {
	c := &e.RequestContext
	if e.Version != "" && c.Stage != "" && c.Stage != "$default" && strings.HasPrefix(strings.ToLower(c.DomainName), strings.ToLower(c.APIID)+
		".execute-api.") {
		if e.host() == httpAPI {
			return []string{"/" + c.Stage}
		}
		return []string{"/" + c.Stage, "/"}
	}
	return basePaths
}

// path returns the path that the host passes on, for rules.
func (e *proxyEvent) path(passed string) rules.Path {
	if e.decoded() {
		return rules.DecodedPath(passed)
	}
	return rules.EncodedPath(passed)
}

// url returns the URL for the router: the path as the host passes it on, without its prefix. The error means that
// a percent-encoding is malformed.
func (e *proxyEvent) url(passed string, prefixes []string) (*url.URL, error) {
	passed = rules.TrimPrefix(passed, prefixes)
	u := &url.URL{Path: passed, RawQuery: e.query()}
	if e.decoded() {
		return u, nil
	}
	var err error
	u.Path, err = url.PathUnescape(passed)
	if err == nil && u.EscapedPath() != passed {
		u.RawPath = passed
	}
	return u, err
}

// query returns the query. With payload 1.0, API Gateway decodes it; a load balancer does not.
func (e *proxyEvent) query() string {
	if e.host() == httpAPI {
		return e.RawQuery
	}
	values := url.Values(e.MultiQuery)
	if len(values) == 0 {
		values = url.Values{}
		for name, value := range e.Query {
			values.Set(name, value)
		}
	}
	if e.host() != loadBalancer {
		return values.Encode()
	}
	var pairs []string
	for name, list := range values {
		for _, value := range list {
			pairs = append(pairs, name+"="+value)
		}
	}
	return strings.Join(pairs, "&")
}

func (e *bodyEvent) body() (string, error) {
	if !e.Base64 {
		return e.Body, nil
	}
	b, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return "", fmt.Errorf("event body: %w", err)
	}
	return string(b), nil
}

// header returns the header of an event. Payload 2.0 has one value for each name, and cookies apart. Payload 1.0 has one value or
// a list of values for each name, or both.
func (e *proxyEvent) header() http.Header {
	h := make(http.Header, max(len(e.Headers), len(e.MultiHeaders)))
	for name, values := range e.MultiHeaders {
		name = http.CanonicalHeaderKey(name)
		h[name] = append(h[name], values...)
	}
	if len(e.MultiHeaders) > 0 {
		return h
	}
	for name, value := range e.Headers {
		h.Add(name, value)
	}
	if len(e.Cookies) > 0 {
		h.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	return h
}

// delivery contains what a host reports about a request but an http.Request cannot contain.
type delivery struct {
	decided bool             // an authorizer has charged and allowed the request
	answer  httplimit.Answer // of the authorizer's decision; can have no fields
	path    *rules.Path      // path as the host delivers it; nil if the request is not from an event
	// malformed reports a malformed percent-encoding. The URL of the request then has no path.
	malformed bool
	event     *proxyEvent // nil if the request is not from an event
}

type deliveryKey struct{}

func deliveryOf(ctx context.Context) delivery {
	d, _ := ctx.Value(deliveryKey{}).(delivery)
	return d
}
