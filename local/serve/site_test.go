package serve

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The site rejects requests that a web page of another origin can send. The APIs accept them.
func TestSite_guard(t *testing.T) {
	mux := http.NewServeMux()
	reached := 0
	mux.HandleFunc(SitePath+"thing", func(http.ResponseWriter, *http.Request) { reached++ })
	h := before(guarded(mux), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, "the API's "+r.URL.Path)
	}))
	post := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for _, c := range []struct {
		method, host string
		header       http.Header
		want         int
	}{
		{http.MethodGet, "127.0.0.1:8080", nil, 200},
		{http.MethodGet, "localhost:8080", nil, 200},
		{http.MethodGet, "[::1]:8080", nil, 200},
		{http.MethodGet, "127.0.0.1", nil, 200},
		{http.MethodGet, "evil.example:8080", nil, 421},
		{http.MethodGet, "127.0.0.1.evil.example:8080", nil, 421},
		{http.MethodGet, "localhost.evil.example", nil, 421},
		{http.MethodGet, "192.168.1.7:8080", nil, 421},
		{http.MethodGet, "", nil, 421},
		{http.MethodPost, "127.0.0.1:8080", post, 200},
		{http.MethodPost, "127.0.0.1:8080", nil, 415},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": {"text/plain"}}, 415},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415},
		{http.MethodDelete, "127.0.0.1:8080", nil, 415},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Origin": {"http://127.0.0.1:8080"}}, 200},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Origin": {"https://evil.example"}}, 403},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Origin": {"http://127.0.0.1:3000"}}, 403},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Origin": {"null"}}, 403},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Sec-Fetch-Site": {"cross-site"}}, 403},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Sec-Fetch-Site": {"same-site"}}, 403},
		{http.MethodPost, "127.0.0.1:8080", http.Header{"Content-Type": post["Content-Type"], "Sec-Fetch-Site": {"same-origin"}}, 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, SitePath+"thing", http.NoBody)
		r.Host = c.host
		maps.Copy(r.Header, c.header)
		w, before := httptest.NewRecorder(), reached
		h.ServeHTTP(w, r)
		if w.Code != c.want || (reached > before) != (c.want == http.StatusOK) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s by host %q with %v: got %d, want %d", c.method, c.host, c.header, w.Code, c.want)
		}
	}
	for _, path := range []string{"/api/v1/search", "//_weir/thing", "/_weir", "/_weird/"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://evil.example/", http.NoBody)
		r.URL.Path = path
		h.ServeHTTP(w, r)
		if !strings.HasPrefix(w.Body.String(), "the API's "+path) {
			t.Errorf("%s: got %d %s, want the API's answer", path, w.Code, w.Body)
		}
	}
}
