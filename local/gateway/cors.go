package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

const allowOrigin = "Access-Control-Allow-Origin"

// ownedByCORS reports whether the CORS configuration alone sets a header. The gateway ignores such a
// header of a function.
func ownedByCORS(c *template.CORS, name string) bool {
	const prefix = "Access-Control-"
	return c != nil && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// answerCORS adds the CORS headers to the answer if the request has an allowed Origin. An OPTIONS
// request must also have an Access-Control-Request-Method. Assumed from the Fetch standard: which
// headers the answer to each kind of request has.
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
	if c.Credentials {
		set("Access-Control-Allow-Credentials", "true")
	}
}

func allowsOrigin(c *template.CORS, origin string) bool {
	return slices.ContainsFunc(c.Origins, func(allowed string) bool {
		start, wild := strings.CutSuffix(allowed, "*")
		return allowed == origin || wild && strings.HasPrefix(origin, start)
	})
}
