package serve

import (
	"log/slog"
	"mime"
	"net/http"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/loopback"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/why"
)

// SitePath is the prefix of the console and the operator's endpoints. Requests below it do not
// reach the first API, so no rule and no function applies to them.
const SitePath = "/_weir/"

// site returns the handler of all paths below SitePath. [guarded] protects it from other sites. No
// deployed function contains it.
func (s *Server) site() http.Handler {
	mux := http.NewServeMux()
	if s.Console != nil {
		mux.Handle(SitePath, s.Console(s.page()))
	}
	mux.Handle(operator.Path, s.operator.Handler())
	if s.region != nil {
		s.region.all.handle(mux)
	}
	mux.Handle("POST "+why.Path, s.refusals.Handler(s.Clock, s.operator.IPv6Bits, s.flushAll))
	return guarded(mux)
}

// before returns a handler that sends requests below SitePath to site and all others to api. Unlike
// http.ServeMux, it does not clean paths.
func before(site, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, SitePath) {
			site.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// warnForwarded warns once of an X-Forwarded-For, in which no client is believed without Options.Address. Without
// the warning, nobody would see that all clients behind a proxy share one limit.
func (s *Server) warnForwarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forwarded := r.Header["X-Forwarded-For"]; len(forwarded) > 0 {
			s.forwarded.Do(func() {
				s.Logger.LogAttrs(r.Context(), slog.LevelWarn, "X-Forwarded-For ignored, so all clients of a proxy count as one; to believe your "+
					"proxy, add --address hops:1, and let it send "+
					contract.OriginSecretField+" with the value of "+contract.VariableOriginSecret,
					slog.Any("forwarded", caller.LastHop(forwarded)), slog.Any("client", caller.ParseAddress(r.RemoteAddr)))
			})
		}
		h.ServeHTTP(w, r)
	})
}

// guarded rejects requests that a page of another site makes the browser send. Such a page can use
// a host name that resolves to this machine (DNS rebinding), so the Host must be local. It can also
// send a form, so a request that changes something must have a JSON body. Before a cross-origin
// request with JSON, a browser sends a preflight, which fails.
func guarded(h http.Handler) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case !loopback.Host(r.Host):
			http.Error(w, "Host: want 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && media != "application/json":
			http.Error(w, "want Content-Type: application/json", http.StatusUnsupportedMediaType)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
