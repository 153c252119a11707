package template

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CORS is the CorsConfiguration of an HTTP API (developer guide, "Configure CORS for
// HTTP APIs").
type CORS struct {
	Origins                   []string
	Methods, Headers, Exposed string // each a list separated by commas
	MaxAge                    string // in seconds
	Credentials               bool
}

var corsOrigin = regexp.MustCompile(`^(\*|https?://(\*|[^/*\s]+))$`)

// maxCORSAge is one day in seconds (API reference, "Cors").
const maxCORSAge = 86400

func readCORS(api *properties) *CORS {
	q := api.object("CorsConfiguration")
	if q == nil {
		return nil
	}
	defer q.done()
	c := &CORS{
		Origins: q.texts("AllowOrigins"),
		Methods: strings.Join(q.texts("AllowMethods"), ","),
		Headers: strings.Join(q.texts("AllowHeaders"), ","),
		Exposed: strings.Join(q.texts("ExposeHeaders"), ","),
	}
	for _, origin := range c.Origins {
		if !corsOrigin.MatchString(origin) {
			q.refuse("AllowOrigins", origin, "*, http://*, https://* or an origin such as https://one.example")
		}
	}
	if q.has("MaxAge") {
		c.MaxAge = strconv.Itoa(q.number("MaxAge", 0, -1, maxCORSAge))
	}
	q.only("AllowCredentials", "true or false", true, false)
	if v, ok := q.value("AllowCredentials"); ok {
		c.Credentials = fmt.Sprint(v) == "true"
	}
	// Observed: AWS rejects an API that allows both credentials and any origin.
	if c.Credentials && slices.Contains(c.Origins, "*") {
		q.refuse("AllowCredentials", true, "false, because any origin is allowed")
	}
	return c
}
