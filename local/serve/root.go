package serve

import (
	"io"
	"net/http"
	"strings"
)

// rootPage is the page for a browser that requests the root path of an API without a method there.
const rootPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>No method at this path</title>
<h1>No method at this path</h1>
<p>API Gateway answers 403 <q>Missing Authentication Token</q> here: the API has no method for this path.</p>
<p>Open the <a href="` + SitePath + `">Weir console</a>.</p>
</html>
`

// withPointer returns api with a link to the console at the root path: every answer there gets a
// Link header. If the API has no method for the root path, a browser gets a page with the link, and
// other clients get the API's own body.
func withPointer(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Link", `<`+SitePath+`>; rel="help"; title="Weir console"`)
			if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
				w = &rootAnswer{ResponseWriter: w}
			}
		}
		api.ServeHTTP(w, r)
	})
}

// rootAnswer replaces the body of the 403 that API Gateway sends for a path without a method.
type rootAnswer struct {
	http.ResponseWriter
	replaced bool
}

func (a *rootAnswer) WriteHeader(status int) {
	for name, values := range a.Header() { // a loop, because the gateway does not write this name in canonical case
		if strings.EqualFold(name, "x-amzn-ErrorType") && strings.HasPrefix(values[0], "MissingAuthenticationToken") {
			a.replaced = true
		}
	}
	if !a.replaced {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.Header().Del("Content-Length")
	a.ResponseWriter.WriteHeader(status)
	_, _ = io.WriteString(a.ResponseWriter, rootPage) // an error means that the browser has disconnected
}

func (a *rootAnswer) Write(body []byte) (int, error) {
	if a.replaced {
		return len(body), nil
	}
	return a.ResponseWriter.Write(body)
}
