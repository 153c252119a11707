package gateway

import "net/http"

// Upstream returns an API that passes every request to h. Its only route is the one of an HTTP API without
// other routes.
func Upstream(h http.Handler) *API {
	return &API{Kind: HTTP, Routes: []Route{{Method: "ANY", Path: "$default"}}, handler: upstream{h}}
}

type upstream struct{ http.Handler }

func (upstream) routes(string, string) bool { return true }
