package gateway

import (
	"net/http"
	"net/url"
	"strings"
)

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

// newHTTPEvent returns the event that a function of an HTTP API gets: payload version 2.0.
func newHTTPEvent(stage string, in *request, route, path string, parameters map[string]string) map[string]any {
	headers := map[string]string{}
	for name, value := range joined(in.header) {
		if name != "Cookie" {
			headers[strings.ToLower(name)] = value
		}
	}
	e := map[string]any{
		"version": "2.0", "routeKey": route, "rawPath": path, "rawQueryString": in.URL.RawQuery, "headers": headers, "isBase64Encoded": false,
		"requestContext": map[string]any{
			"accountId": account, "apiId": httpID, "domainName": in.Host, "domainPrefix": domainPrefix(in.Host),
			"http": map[string]any{
				"method": in.Method, "path": path, "protocol": protocol, "sourceIp": in.sourceIP, "userAgent": in.UserAgent(),
			},
			"requestId": in.extended, "routeKey": route, "stage": stage, "time": clf(in.at), "timeEpoch": in.at.UnixMilli(),
		},
	}
	if list := cookies(in.Header); len(list) > 0 {
		e["cookies"] = list
	}
	if query := joined(in.URL.Query()); len(query) > 0 {
		e["queryStringParameters"] = query
	}
	if len(parameters) > 0 {
		e["pathParameters"] = parameters
	}
	if len(in.body) > 0 {
		e["body"] = string(in.body)
		if !isText(in.header.Get("Content-Type")) {
			e["body"], e["isBase64Encoded"] = in.body, true // JSON has bytes in base64
		}
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
			pair = strings.TrimSpace(pair)
			if pair != "" {
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
