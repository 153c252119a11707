package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A ServeMux splits a path before it decodes the path, but rules decode first. The handler must get the
// path that the rules charged, not the path that the client sent.
func TestGate_path(t *testing.T) {
	var charged string
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			charged = r.Path.String()
			return rules.Selection{}
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
			t.Errorf("%s: got charge for %q and handler for %q, want %q for both", sent, charged, ran, want)
		}
	}
}

// A request with a malformed path gets 400, and the outcome has only its address. The request is
// neither charged nor served, and its credential is not verified.
func TestGate_malformedPath(t *testing.T) {
	address := netip.MustParseAddr("203.0.113.7")
	var observed []outcome.Outcome
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select: func(_ context.Context, _ time.Time, _ rules.Request) rules.Selection {
			t.Error("a malformed path: got a charge, want none")
			return rules.Selection{}
		},
		Identify: func(_ context.Context, _ time.Time, r httplimit.Request) (caller.Caller, error) {
			if r.Header != nil || r.Address != address {
				t.Errorf("caller: got %+v, want only the address", r)
			}
			return caller.Caller{IP: netip.PrefixFrom(r.Address, 32), Rejected: true}, caller.ErrMissingCredential
		},
		Observe: func(o outcome.Outcome) { observed = append(observed, o) },
	})
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	request := httplimit.Request{Method: http.MethodGet, Malformed: true, Header: http.Header{"Authorization": {"Bearer x"}}, Address: address}
	gate.Serve(w, r, request, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called, want no call") }))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"error":"malformed_path"`) || w.Header().Get("Retry-After") != "" {
		t.Errorf("got %d %v %s, want a 400 with malformed_path and no Retry-After", w.Code, w.Header(), w.Body)
	}
	if len(observed) != 1 || observed[0].Class() != outcome.Refused || observed[0].Caller.IP.Addr() != address || observed[0].Err != nil {
		t.Errorf("observed: got %+v, want one refusal with the address", observed)
	}
}
