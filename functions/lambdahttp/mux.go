package lambdahttp

import (
	"net/http"
	"strings"
)

// Mux is an http.ServeMux that lists its routes for API Gateway. The zero value is ready for use.
type Mux struct {
	http.ServeMux

	routes []string
}

// Handle registers the handler for a pattern, as http.ServeMux does, and lists the pattern as a route.
func (m *Mux) Handle(pattern string, handler http.Handler) {
	m.ServeMux.Handle(pattern, handler)
	m.routes = append(m.routes, route(pattern))
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(handler))
}

// Routes returns the routes as API Gateway writes them, such as "GET /items/{id}" or "ANY /files/{path+}".
func (m *Mux) Routes() []string { return m.routes }

func route(pattern string) string {
	parts := strings.Fields(pattern)
	method, path := "ANY", parts[len(parts)-1]
	if len(parts) > 1 {
		method = parts[0]
	}
	if path, exact := strings.CutSuffix(path, "{$}"); exact {
		return method + " " + path
	}
	if strings.HasSuffix(path, "/") { // it matches all paths below it
		path += "{rest...}"
	}
	return method + " " + strings.ReplaceAll(path, "...}", "+}")
}
