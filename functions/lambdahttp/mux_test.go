package lambdahttp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

func TestMux(t *testing.T) {
	var m lambdahttp.Mux
	answer := func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Pattern", r.Pattern) }
	patterns := []string{"GET /items/{id}", "/any", "PUT /files/{path...}", "GET /pages/", "GET /{$}"}
	for _, p := range patterns {
		m.HandleFunc(p, answer)
	}
	m.ServeMux.HandleFunc("/", answer)
	want := []string{"GET /items/{id}", "ANY /any", "PUT /files/{path+}", "GET /pages/{rest+}", "GET /"}
	if !slices.Equal(m.Routes(), want) {
		t.Errorf("got the routes %q, want %q", m.Routes(), want)
	}
	for target, want := range map[string]string{"/items/1": patterns[0], "/any": patterns[1], "/pages/1/2": patterns[3], "/": patterns[4],
		"/none": "/"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
		if w.Header().Get("Pattern") != want {
			t.Errorf("%s: got the handler of %q, want that of %q", target, w.Header().Get("Pattern"), want)
		}
	}
}
