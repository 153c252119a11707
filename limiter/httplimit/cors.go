package httplimit

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/rs/cors"
)

// WithCORS lets pages of other origins read the answers of Wrap, with the limits, and also the refusals. An origin is
// "https://app.example.com", or "*" alone for every origin; without any, the option does nothing. Wrap then answers preflights,
// and they count on no limit. Pages cannot send cookies: if they must, put a CORS middleware outside of Wrap instead. The origin
// null is an error: a sandboxed frame of any page sends it, so only "*" allows it.
func WithCORS(origins ...string) Option {
	return func(m *middleware) {
		if bad := BadOrigins(origins); len(bad) > 0 {
			m.err = fmt.Errorf("WithCORS: got %q, want only *, or origins without a path (https://app.example.com, http://localhost:3000)", bad[0])
		}
		m.cors = func(h http.Handler) http.Handler { return CORS(origins, h) }
	}
}

// CORS returns h with the CORS header fields for pages of the given origins, as WithCORS has them, in every answer. It answers
// preflights itself. Without an origin, it returns h.
func CORS(origins []string, h http.Handler) http.Handler {
	if len(origins) == 0 { // cors would allow every origin
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"*"}, // requests cannot send cookies, so any header is safe
		ExposedHeaders: ExposedFields(),
		MaxAge:         600, // seconds
	}).Handler(h)
}

var origin = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?$`)
})

// BadOrigins returns the elements of origins that CORS cannot allow: those that are neither an origin, such as
// "https://app.example.com", nor "*" as the only element. http is allowed only for this machine.
func BadOrigins(origins []string) []string {
	return slices.DeleteFunc(slices.Clone(origins), func(o string) bool {
		return origin().MatchString(o) || o == "*" && len(origins) == 1
	})
}
