package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A response at the root path has a Link header with the console's address. A browser gets a page
// with the link if the API has no method there. Other responses do not change.
func TestWithPointer(t *testing.T) {
	const missing = `{"message":"Missing Authentication Token"}`
	api := func(errorType, body string) http.Handler {
		return withPointer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
		if page != c.page || !page && w.Body.String() != c.body || (w.Header().Get("Link") != "") != c.link ||
			(w.Code == http.StatusOK) != (c.errorType == "") {
			t.Errorf("answer: got %d %v %s, want %+v", w.Code, w.Header(), w.Body, c)
		}
	}
}
