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
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// proxyEvent is a request as any of the hosts sends it: a REST API or a load balancer
// (payload 1.0), an HTTP API or a function URL (payload 2.0). It is decoded once; the
// fields tell which host it was.
type proxyEvent struct {
	Version string `json:"version"` // "2.0", else payload 1.0; a REST API sends none

	HTTPMethod   string              `json:"httpMethod"`
	Path         string              `json:"path"`
	MultiHeaders map[string][]string `json:"multiValueHeaders"`
	Query        map[string]string   `json:"queryStringParameters"`
	MultiQuery   map[string][]string `json:"multiValueQueryStringParameters"`

	RawPath  string   `json:"rawPath"`
	RawQuery string   `json:"rawQueryString"`
	Cookies  []string `json:"cookies"`

	Headers        map[string]string `json:"headers"`
	Body           string            `json:"body"`
	Base64         bool              `json:"isBase64Encoded"`
	RequestContext struct {
		APIID      string          `json:"apiId"`
		DomainName string          `json:"domainName"`
		Stage      string          `json:"stage"`
		ELB        json.RawMessage `json:"elb"`
		Authorizer map[string]any  `json:"authorizer"`
		Identity   struct {
			SourceIP string `json:"sourceIp"`
		} `json:"identity"`
		HTTP struct {
			Method   string `json:"method"`
			SourceIP string `json:"sourceIp"`
		} `json:"http"`
	} `json:"requestContext"`
}

// host is where an event comes from.
type host int

const (
	restAPI host = iota
	httpAPI      // or function URL
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

// request returns the event as an http.Request, with its origin in the context. basePath
// comes before every path.
func (e *proxyEvent) request(ctx context.Context, basePath string) (*http.Request, error) {
	method, path, query := e.HTTPMethod, e.Path, e.query()
	header := headerOf(e.Headers, e.MultiHeaders)
	if e.host() == httpAPI {
		method, path, query = e.RequestContext.HTTP.Method, e.RawPath, e.RawQuery
		if len(e.Cookies) > 0 {
			header.Set("Cookie", strings.Join(e.Cookies, "; "))
		}
	}
	if method == "" || !strings.HasPrefix(path, "/") {
		return nil, errors.New("no event of API Gateway or a load balancer: method or path is missing")
	}
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	address := e.address(header)
	read, malformed := e.path(path, basePath)
	fields, decided := decisionFields(e.authorizerContext())
	ctx = withOrigin(ctx, origin{decided: decided, fields: fields, malformed: malformed != nil})
	r, err := http.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.URL = read.URL(query)
	r.Header, r.Host, r.RequestURI = header, header.Get("Host"), r.URL.RequestURI()
	r.RemoteAddr = netip.AddrPortFrom(address, 0).String()
	return r, nil
}

// awsDomains end the domain names that AWS gives to an API.
var awsDomains = []string{".amazonaws.com", ".amazonaws.com.cn", ".on.aws", ".api.aws"}

// functionURLDomain is a part of the domain names of function URLs, which no others have.
const functionURLDomain = ".lambda-url."

// isCustom reports whether the domain name in an event is a custom one. Only there does
// API Gateway put a base path before the path, and nobody else may: by the domain of API
// Gateway /v1/x is another path than /x. A load balancer names none, and locally it is
// the host and the port.
func isCustom(domain string) bool {
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	ofAWS := func(end string) bool { return strings.HasSuffix(domain, end) }
	_, noAddress := netip.ParseAddr(domain)
	return strings.Contains(domain, ".") && !strings.Contains(domain, ":") && noAddress != nil && !slices.ContainsFunc(awsDomains, ofAWS)
}

// authorizerContext returns the context of a REST API's authorizer. API Gateway alone
// can write there; behind a load balancer the whole event is its word, and an HTTP API
// has no authorizer of Weir's, in whatever version of the payload.
func (e *proxyEvent) authorizerContext() map[string]any {
	if e.host() != restAPI || e.Version != "" {
		return nil
	}
	return e.RequestContext.Authorizer
}

// address returns the client's address, from the source that the host vouches for.
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

// path returns the reading of the path that the host passes on. An HTTP API decodes it, in
// both versions of the payload; all others leave it as the client sent it. An HTTP API puts
// its stage before it on its own domain (and not on a custom one).
func (e *proxyEvent) path(passed, basePath string) (rules.Path, error) {
	c := &e.RequestContext
	decoded := e.Version != "" && !strings.Contains(c.DomainName, functionURLDomain)
	if e.host() == httpAPI && c.Stage != "" && c.Stage != "$default" && strings.HasPrefix(c.DomainName, c.APIID+".execute-api.") {
		basePath = "/" + c.Stage
	}
	if decoded {
		return rules.DecodedPath(passed, basePath), nil
	}
	return rules.ParsePath(passed, basePath)
}

// query returns the query of a payload 1.0. API Gateway has decoded it, a load
// balancer has not.
func (e *proxyEvent) query() string {
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

func (e *proxyEvent) body() (string, error) {
	if !e.Base64 {
		return e.Body, nil
	}
	b, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return "", fmt.Errorf("body of the event: %w", err)
	}
	return string(b), nil
}
