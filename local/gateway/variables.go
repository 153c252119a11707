package gateway

import (
	"net/http"
	"net/url"

	"github.com/weir-limits/weir/local/gateway/template"
)

// variables has the values of the variables for one request. Each completed step adds its values.
type variables struct {
	context    map[string]string // key: the name after "$context."
	authorizer map[string]string
	stage      map[string]string
	path       map[string]string
	query      url.Values
	header     http.Header
}

// value returns the value of a variable. ok is false if the request has no value for it. Of several values
// it returns the last one. Events also contain the last one.
func (v variables) value(e template.Variable) (value string, ok bool) {
	switch e.Source {
	case "context.":
		value, ok = v.context[e.Name]
	case "context.authorizer.":
		value, ok = v.authorizer[e.Name]
	case "stageVariables.":
		value, ok = v.stage[e.Name]
	case "method.request.path.":
		value, ok = v.path[e.Name]
	case "method.request.querystring.":
		return last(v.query[e.Name])
	case "method.request.header.":
		return last(v.header.Values(e.Name))
	}
	return value, ok
}

func last(values []string) (string, bool) {
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}
