package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A ServeMux splits a path before it decodes it, and rules do so afterwards. So the handler gets
// the path that was charged and not the one that was sent.
func TestGate_path(t *testing.T) {
	var charged string
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Charges: func(_ context.Context, _ time.Time, _ string, path rules.Path, _ caller.Caller) (charges []limiter.Charge, tier string) {
			charged = path.String()
			return nil, ""
		},
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
			return caller.Caller{}, nil
		},
	})
	var ran string
	mux := http.NewServeMux()
	for _, pattern := range []string{"/items/{id}", "/items/{id}/{part}", "/"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			ran = pattern + " " + r.URL.Path + r.URL.RawPath + "?" + r.URL.RawQuery
		})
	}
	for sent, want := range map[string]string{
		"/items/x?q=%2F": "/items/{id} /items/x?q=%2F", "/items/x%2Fy": "/items/{id}/{part} /items/x/y?", "/items/%2e%2e/x": "/ /x?", "//items//x/": "/items/{id} /items/x?", "/items/%252F": "/items/{id} /items/%2F?",
	} {
		ran = ""
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example.com"+sent, http.NoBody)
		before := *r.URL
		if gate.Wrap(mux).ServeHTTP(httptest.NewRecorder(), r); ran != want || *r.URL != before {
			t.Errorf("%s: charged %q, ran %q, want %q", sent, charged, ran, want)
		}
	}
}
