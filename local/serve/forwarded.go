package serve

import (
	"log/slog"
	"net/http"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/caller"
)

// warnForwarded warns once of an X-Forwarded-For, in which no client is believed without Options.ViewerAddress. Without
// the warning, nobody would see that all clients behind a proxy share one limit.
func (s *Server) warnForwarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forwarded := r.Header["X-Forwarded-For"]; len(forwarded) > 0 {
			s.forwarded.Do(func() {
				s.Logger.LogAttrs(r.Context(), slog.LevelWarn, "X-Forwarded-For ignored, so all clients of a proxy count as one; to believe your proxy, add --viewer-address hops:1, and let it send "+
					contract.OriginSecretField+" with the secret of weir keys origin --local --show",
					slog.Any("forwarded", caller.LastHop(forwarded)), slog.Any("client", caller.ParseAddress(r.RemoteAddr)))
			})
		}
		h.ServeHTTP(w, r)
	})
}
