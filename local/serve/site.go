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

// sitePath is what this program answers itself, before the first API. No API can have a
// route below it: rules and functions never see these requests.
const sitePath = console.Path

// site returns the handler of sitePath. Whatever is added to it is for this machine alone:
// it is behind [guarded], and no function that is deployed has it.
func (s *Server) site(apis []*gateway.API, urls []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(console.Path, s.console(apis, urls))
	mux.Handle(operator.Path, s.operating())
	return guarded(mux)
}

// operating returns what answers operators.
func (s *Server) operating() http.Handler {
	if s.Environments > 0 && s.Store == Memory {
		return operator.Refusal("usage is not available: each environment keeps its counts in its own memory; start the gateway with STORE=redis or STORE=dynamodb, or without ENVIRONMENTS")
	}
	return s.operator.Handler()
}

// before returns a handler that gives site the requests below sitePath and api all others,
// with their paths unchanged. http.ServeMux would clean them.
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

// guarded keeps out what a page of another origin can make a browser send to this machine:
// by a name of its own that leads here (DNS rebinding), or across origins. What changes
// something has to be JSON, which no form can send, and other origins only after a preflight
// that nothing answers.
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
