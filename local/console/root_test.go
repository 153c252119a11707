package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/console"
)

// The root path points to the console: by a header, and for a browser by a page where API
// Gateway has no method. Every other answer is the API's own.
func TestWithPointer(t *testing.T) {
	const missing = `{"message":"Missing Authentication Token"}`
	api := func(errorType, body string) http.Handler {
		return console.WithPointer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if errorType != "" {
				w.Header()["x-amzn-ErrorType"] = []string{errorType}
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, body)
		}))
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept, errorType, body string
		page, link                            bool
	}{
		{"GET", "/", browser, "MissingAuthenticationTokenException", missing, true, true},
		{"GET", "/", "*/*", "MissingAuthenticationTokenException", missing, false, true},
		{"GET", "/", browser, "AccessDeniedException", missing, false, true},
		{"GET", "/", browser, "", "root", false, true},
		{"POST", "/", browser, "MissingAuthenticationTokenException", missing, false, true},
		{"GET", "/other", browser, "MissingAuthenticationTokenException", missing, false, false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		api(c.errorType, c.body).ServeHTTP(w, r)
		page := strings.Contains(w.Body.String(), `<a href="/_weir/">`)
		if page != c.page || !page && w.Body.String() != c.body || (w.Header().Get("Link") != "") != c.link || (w.Code == http.StatusOK) != (c.errorType == "") {
			t.Errorf("%+v: %d %v %s", c, w.Code, w.Header(), w.Body)
		}
	}
}
