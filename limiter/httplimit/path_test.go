package httplimit_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// wrapped returns a Gate whose rules are a document, and a store in memory.
func wrapped(t *testing.T, document string) *httplimit.Gate {
	t.Helper()
	r := storetest.Must(rules.Parse([]byte(document), rules.Options{Version: 1}))
	return httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select:  func(_ context.Context, _ time.Time, q rules.Request) rules.Selection { return r.Select(nil, q) },
		Identify: func(_ context.Context, _ time.Time, q httplimit.Request) (caller.Caller, error) {
			return caller.Caller{IP: netip.PrefixFrom(q.Address, q.Address.BitLen())}, nil
		},
		Clock: func() time.Time { return noon },
	})
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + path + " HTTP/1.1\r\nHost: api.example.com\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "203.0.113.7:4711"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const itemRules = `{"rules":[
	{"endpoint":"/items/{id}","limits":{"*":{"name":"items","requests":5,"window":"1m"}}},
	{"endpoint":"*","limits":{"global":{"name":"all","requests":60,"window":"1m","per":["ip"]}}}],
	"exempt":[{"endpoint":"/health"}]}`

// A middleware in front of the Gate protects a route by its path. The Gate passes each path on as it came, so
// no spelling reaches this route.
func TestGate_Wrap_middleware(t *testing.T) {
	mux := http.NewServeMux()
	admin := 0
	mux.HandleFunc("/admin", func(http.ResponseWriter, *http.Request) { admin++ })
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	api := wrapped(t, itemRules).Wrap(mux)
	protected := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin" || r.URL.Path == "/admin/" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(w, r)
	})
	for _, path := range []string{"/admin", "/admin/", "//admin", "/./admin", "/%61dmin", "/items/..%2Fadmin", "/items/%2e%2e/admin",
		"/items/../admin"} {
		get(t, protected, path)
		if admin > 0 {
			t.Errorf("%s: got a call of the protected handler, want none", path)
			admin = 0
		}
	}
}

// The Gate changes neither the path nor the RawPath, so a file server does not redirect for ever, and a
// parameter of a ServeMux can contain a slash.
func TestGate_Wrap_path(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/static/", http.StripPrefix("/static/", http.FileServer(http.FS(fstest.MapFS{"a.txt": {Data: []byte("a")}}))))
	mux.Handle("/files/", http.FileServer(http.FS(fstest.MapFS{"files/a.txt": {Data: []byte("a")}})))
	var seen []string
	mux.HandleFunc("/items/{id}", func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.PathValue("id"), r.URL.Path, r.URL.RawPath)
	})
	api := wrapped(t, itemRules).Wrap(mux)
	for path, want := range map[string]int{"/static/": http.StatusOK, "/files/": http.StatusOK, "/files/a.txt": http.StatusOK,
		"/files": http.StatusTemporaryRedirect, "/items/a%2Fb": http.StatusOK} {
		if w := get(t, api, path); w.Code != want {
			t.Errorf("%s: got %d to %q, want %d", path, w.Code, w.Header().Get("Location"), want)
		}
	}
	if want := []string{"a/b", "/items/a/b", "/items/a%2Fb"}; !slices.Equal(seen, want) {
		t.Errorf("path of an item: got %q, want %q", seen, want)
	}
}

// The API behind the Gate may read a path in several ways. The request is charged on the limits of each
// reading, and it is exempt only if all readings are.
func TestGate_Wrap_readings(t *testing.T) {
	for path, want := range map[string]int{
		"/items/1": 5, "/items/1%2Fx": 5, "//items/1": 5, "/items/1/": 5, "/%69tems/1": 5, "/items//1": 5, "/items%2F1": 5,
		"/health": 100, "/%68ealth": 60, "//health": 60, "/health/": 60, "/items%2f..": 0, "/items/..%2Fhealth": 0, "/items/../health": 0,
		"/./health": 0, "/x/%2e%2E/health": 0,
	} {
		ran := 0
		api := wrapped(t, itemRules).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
		for range 100 {
			get(t, api, path)
		}
		if ran != want {
			t.Errorf("%s: got %d of 100 requests admitted, want %d", path, ran, want)
		}
	}
}

// A request with a malformed path gets 400, unless the limits by address that it charges refuse it. It is not
// served, and an error of its credential has no effect.
func TestGate_malformedPath(t *testing.T) {
	var observed []telemetry.Outcome
	r := storetest.Must(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"bad","requests":2,"window":"1m","per":["ip"],`+
		`"only":"bad_credentials"}}}]}`), rules.Options{Version: 1}))
	gate := httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select:  func(_ context.Context, _ time.Time, q rules.Request) rules.Selection { return r.Select(nil, q) },
		Identify: func(_ context.Context, _ time.Time, q httplimit.Request) (caller.Caller, error) {
			return caller.Caller{IP: netip.PrefixFrom(q.Address, 32), User: "alice"}, caller.ErrUnverified
		},
		Observe: func(_ context.Context, o telemetry.Outcome) { observed = append(observed, o) },
		Clock:   func() time.Time { return noon },
	})
	api := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called, want no call") }))
	for i, path := range []string{"/..", "/a%2F.", "/.%2e/b"} {
		w, want, retry := get(t, api, path), http.StatusBadRequest, ""
		if i == 2 {
			want, retry = http.StatusTooManyRequests, "31"
		}
		if w.Code != want || (want == http.StatusBadRequest) != strings.Contains(w.Body.String(), `"error":"malformed_path"`) ||
			(w.Header().Get("Retry-After") == "") != (retry == "") {
			t.Errorf("%s: got %d %v %s, want %d", path, w.Code, w.Header(), w.Body, want)
		}
	}
	if len(observed) != 3 || observed[0].Class() != telemetry.ClassRefused || observed[0].Decision.Limit != nil ||
		len(observed[0].Charges) != 1 || observed[0].Unmatched || observed[2].Decision.Limit == nil {
		t.Errorf("observed: got %+v, want three refusals, the last by a limit", observed)
	}
}
