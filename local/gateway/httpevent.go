package gateway

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/local/gateway/template"
)

// httpEvent is the event that a function of an HTTP API gets: payload version 2.0.
type httpEvent struct {
	Version         string            `json:"version"`
	RouteKey        string            `json:"routeKey"`
	RawPath         string            `json:"rawPath"`
	RawQueryString  string            `json:"rawQueryString"`
	Cookies         []string          `json:"cookies,omitempty"`
	Headers         map[string]string `json:"headers"`
	Query           map[string]string `json:"queryStringParameters,omitempty"`
	Context         httpContext       `json:"requestContext"`
	Body            *string           `json:"body,omitempty"`
	PathParameters  map[string]string `json:"pathParameters,omitempty"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
	StageVariables  map[string]string `json:"stageVariables,omitempty"`
}

type httpContext struct {
	AccountID    string                                               `json:"accountId"`
	APIID        string                                               `json:"apiId"`
	DomainName   string                                               `json:"domainName"`
	DomainPrefix string                                               `json:"domainPrefix"`
	HTTP         events.APIGatewayV2HTTPRequestContextHTTPDescription `json:"http"`
	RequestID    string                                               `json:"requestId"`
	RouteKey     string                                               `json:"routeKey"`
	Stage        string                                               `json:"stage"`
	Time         string                                               `json:"time"`
	TimeEpoch    int64                                                `json:"timeEpoch"`
}

// decodedPath returns the path that selects a route of an HTTP API. Observed: the path is decoded,
// including %2F, and ends at an encoded question mark. Assumed: a malformed percent-encoding is an
// error.
func decodedPath(sent string) (string, error) {
	path, err := url.PathUnescape(sent)
	if err != nil {
		return "", err
	}
	path, _, _ = strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path, nil
}

func newHTTPEvent(a *template.HTTP, in *request, route *template.Route, path string, parameters map[string]string) httpEvent {
	e := httpEvent{
		Version: "2.0", RouteKey: route.Key, RawPath: path, RawQueryString: in.URL.RawQuery,
		Cookies: cookies(in.Header), Headers: map[string]string{}, Query: joined(in.URL.Query()),
		Context: httpContext{
			AccountID: template.Account, APIID: a.ID, DomainName: in.Host, DomainPrefix: domainPrefix(in.Host),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: in.Method, Path: path, Protocol: protocol, SourceIP: in.sourceIP, UserAgent: in.UserAgent(),
			},
			RequestID: in.extended, RouteKey: route.Key, Stage: a.Stage, Time: clf(in.at), TimeEpoch: in.at.UnixMilli(),
		},
		PathParameters: nilIfEmpty(parameters), StageVariables: nilIfEmpty(a.Variables),
	}
	for name, value := range joined(in.header) {
		if name != "Cookie" {
			e.Headers[strings.ToLower(name)] = value
		}
	}
	if len(in.body) > 0 {
		body := string(in.body)
		if !isText(in.header.Get("Content-Type")) {
			body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(in.body), true
		}
		e.Body = &body
	}
	return e
}

// isText reports whether an HTTP API passes a body of this type to the function as text. Observed:
// only four media types are text. Every other body is base64, including forms and bodies without a
// media type.
func isText(contentType string) bool {
	media := mediaType(contentType)
	switch media {
	case "application/json", "application/xml", "application/javascript":
		return true
	}
	return strings.HasPrefix(media, "text/")
}

// cookies splits the Cookie headers into name=value pairs.
func cookies(h http.Header) []string {
	var all []string
	for _, line := range h.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = strings.TrimSpace(pair); pair != "" {
				all = append(all, pair)
			}
		}
	}
	return all
}

// joined joins the values of each name with commas, as payload version 2.0 does.
func joined(all map[string][]string) map[string]string {
	values := make(map[string]string, len(all))
	for name, each := range all {
		values[name] = strings.Join(each, ",")
	}
	return values
}
