package serve

import (
	"mime"
	"net/http"
	"strings"

	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/loopback"
	"github.com/weir-limits/weir/local/operator"
)

// sitePath is the prefix of the paths that this program answers itself, before the first API. No
// API can have a route below it, so rules and functions never see these requests.
const sitePath = console.Path

// site returns the handler of sitePath. Everything in it is for this machine only. It is behind
// [guarded], and no deployed function contains it.
func (s *Server) site(apis []*gateway.API, urls []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(console.Path, s.console(apis, urls))
	mux.Handle(operator.Path, s.operating())
	return guarded(mux)
}

// operating returns the handler for operator questions.
func (s *Server) operating() http.Handler {
	if s.Environments > 0 && s.Store == Memory {
		return operator.Refusal("usage is not available: each environment keeps its counts in its own memory; start the gateway with STORE=redis or STORE=dynamodb, or without ENVIRONMENTS")
	}
	return s.operator.Handler()
}

// before returns a handler that sends requests below sitePath to site and all others to api. It
// does not change paths, but http.ServeMux would clean them.
func before(site, api http.Handler) http.Handler {
	api = console.WithPointer(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, sitePath) {
			site.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// guarded rejects requests that a page of another origin can make a browser send to this machine.
// Such a page uses its own name for this address (DNS rebinding), or sends across origins. A
// request that changes something must have a JSON body. A form cannot send JSON, and another origin
// needs a preflight, which gets no answer.
func guarded(h http.Handler) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case !loopback.Host(r.Host):
			http.Error(w, "this is for http://127.0.0.1 and http://localhost alone", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && media != "application/json":
			http.Error(w, "want Content-Type: application/json", http.StatusUnsupportedMediaType)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
