package gateway

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cors is the CorsConfiguration of an HTTP API (developer guide, "Configure CORS for
// HTTP APIs").
type cors struct {
	origins                   []string
	methods, headers, exposed string // with commas
	maxAge                    string // seconds
	credentials               bool
}

// corsOrigin is what an origin of a configuration can be.
var corsOrigin = regexp.MustCompile(`^(\*|https?://(\*|[^/*\s]+))$`)

// maxCORSAge is a day (API reference, "Cors").
const maxCORSAge = 86400

// readCORS reads an API's CorsConfiguration, nil if it has none.
func readCORS(api *properties) *cors {
	q := api.object("CorsConfiguration")
	if q == nil {
		return nil
	}
	defer q.done()
	c := &cors{
		origins: q.texts("AllowOrigins"),
		methods: strings.Join(q.texts("AllowMethods"), ","),
		headers: strings.Join(q.texts("AllowHeaders"), ","),
		exposed: strings.Join(q.texts("ExposeHeaders"), ","),
	}
	for _, origin := range c.origins {
		if !corsOrigin.MatchString(origin) {
			q.refuse("AllowOrigins", origin, "*, http://*, https://* or an origin such as https://one.example")
		}
	}
	if q.has("MaxAge") {
		c.maxAge = strconv.Itoa(q.number("MaxAge", 0, -1, maxCORSAge))
	}
	q.only("AllowCredentials", "true or false", true, false)
	if v, ok := q.value("AllowCredentials"); ok {
		c.credentials = fmt.Sprint(v) == "true"
	}
	// Observed: AWS refuses to make such an API.
	if c.credentials && slices.Contains(c.origins, "*") {
		q.refuse("AllowCredentials", true, "false, where any origin is allowed")
	}
	return c
}

// isOwn reports whether a header is the configuration's to say: the function's are
// ignored.
func (c *cors) isOwn(name string) bool {
	const prefix = "Access-Control-"
	return c != nil && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// answer adds the headers to the answer to a request that has an Origin and, if it is
// an OPTIONS, an Access-Control-Request-Method. An origin that is not allowed gets none.
// Which of them go out with which request is assumed, from the Fetch standard.
func (c *cors) answer(header http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" || !c.allows(origin) {
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
		set("Access-Control-Allow-Methods", c.methods)
		set("Access-Control-Allow-Headers", c.headers)
		set("Access-Control-Max-Age", c.maxAge)
	} else {
		set("Access-Control-Expose-Headers", c.exposed)
	}
	if slices.Contains(c.origins, "*") {
		origin = "*"
	}
	set(allowOrigin, origin)
	if c.credentials {
		set("Access-Control-Allow-Credentials", "true")
	}
}

func (c *cors) allows(origin string) bool {
	return slices.ContainsFunc(c.origins, func(allowed string) bool {
		start, wild := strings.CutSuffix(allowed, "*")
		return allowed == origin || wild && strings.HasPrefix(origin, start)
	})
}
