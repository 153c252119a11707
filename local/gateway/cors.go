package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

const allowOrigin = "Access-Control-Allow-Origin"

// ownedByCORS reports whether only the CORS configuration can set a header. The gateway drops such
// a header from a function's answer.
func ownedByCORS(c *template.CORS, name string) bool {
	const prefix = "Access-Control-"
	return c != nil && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// answerCORS adds the CORS headers to the answer if the configuration allows the Origin of the
// request. For an OPTIONS request, the field Access-Control-Request-Method is required too. Which
// headers each kind of answer has is assumed from the Fetch standard.
func answerCORS(c *template.CORS, header http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" || !allowsOrigin(c, origin) {
		return
	}
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	if r.Method == http.MethodOptions {
		if r.Header.Get("Access-Control-Request-Method") == "" {
			return
		}
		set("Access-Control-Allow-Methods", c.Methods)
		set("Access-Control-Allow-Headers", c.Headers)
		set("Access-Control-Max-Age", c.MaxAge)
	} else {
		set("Access-Control-Expose-Headers", c.Exposed)
	}
	if slices.Contains(c.Origins, "*") {
		origin = "*"
	}
	set(allowOrigin, origin)
}

func allowsOrigin(c *template.CORS, origin string) bool {
	return slices.ContainsFunc(c.Origins, func(allowed string) bool {
		start, wild := strings.CutSuffix(allowed, "*")
		return allowed == origin || wild && strings.HasPrefix(origin, start)
	})
}

// answerMock returns the answer of a MOCK integration.
func answerMock(m *template.Mock, header http.Header) proxyResponse {
	r := proxyResponse{StatusCode: http.StatusNoContent, Headers: map[string]headerText{}}
	for name, value := range m.Headers {
		r.Headers[name] = headerText(value)
	}
	if origin := header.Get("Origin"); slices.Contains(m.Origins, origin) {
		r.Headers[allowOrigin] = headerText(origin)
	}
	return r
}
