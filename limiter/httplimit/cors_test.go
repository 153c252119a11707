package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// A page of a listed origin can read a refusal and its fields. Wrap answers preflights, and they are free.
func TestWithCORS(t *testing.T) {
	const page = "https://app.example.com"
	for name, c := range map[string]struct {
		origins   []string
		from      string // "null" is a sandboxed frame
		preflight int
		allow     string
	}{
		"listed": {[]string{"https://other.example", page}, page, http.StatusNoContent, page},
		"every":  {[]string{"*"}, "null", http.StatusNoContent, "*"},
		"other":  {[]string{"https://other.example"}, page, http.StatusNoContent, ""},
		"none":   {nil, page, http.StatusOK, ""},
	} {
		h := httplimit.PerIP(1, time.Hour, httplimit.WithCORS(c.origins...)).Wrap(ok)
		for i, status := range []int{c.preflight, http.StatusOK, http.StatusTooManyRequests} {
			if c.origins == nil && i == 1 {
				continue // nobody answers its preflight, so it counts
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Origin", c.from)
			if i == 0 {
				r.Method = http.MethodOptions
				r.Header.Set("Access-Control-Request-Method", http.MethodPut)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			exposed := w.Header().Get("Access-Control-Expose-Headers")
			if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != c.allow ||
				strings.Contains(exposed, "Retry-After") != (c.allow != "" && i > 0) {
				t.Errorf("%s, request %d: got %d %v, want %d and the origin %q", name, i, w.Code, w.Header(), status, c.allow)
			}
		}
	}
	for _, bad := range []string{page + "/", "http://app.example.com", "https://*.example.com", "*", "null"} {
		_, err := httplimit.FromDocument([]byte(`{}`), httplimit.WithCORS(page, bad))
		if want := fmt.Sprintf("httplimit: WithCORS: got %q, want only *", bad); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
