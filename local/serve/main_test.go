package serve

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// sampleAPI is the sample API with a login.
func sampleAPI(e *lambdahttp.Environment) http.Handler { return sample.WithLogin(e, "demo:demo") }

// An API of another module runs in an empty folder with its own rules and routes: both APIs pass its routes on, refuse above
// its limit, and reject all other paths.
func TestServer_otherAPI(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rules.json", []byte(`{"version":1,"rules":[{"endpoint":"/orders/{id}","limits":{"*":{"requests":2,`+
		`"window":"1m"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	api := func(*lambdahttp.Environment) http.Handler {
		mux := new(lambdahttp.Mux)
		mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.PathValue("id")) })
		mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		return mux
	}
	s := New(Options{API: api, Rules: "rules.json", Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: time.Now})
	t.Cleanup(s.Close)
	rest, web := commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
	for _, c := range []struct {
		method, url, body string
		status            int
	}{
		{http.MethodGet, rest.URL + "/orders/7", "7", 200}, {http.MethodGet, web.URL + "/orders/8", "8", 200},
		{http.MethodGet, rest.URL + "/orders/7", "", 429}, {http.MethodGet, web.URL + "/orders/7", "", 429},
		{http.MethodPost, rest.URL + "/orders", "", 201}, {http.MethodGet, rest.URL + "/api/v1/search", "", 403},
		{http.MethodGet, web.URL + "/api/v1/search", "", 404},
	} {
		if r := commandtest.Send(t, c.method, c.url, ""); r.StatusCode != c.status || c.body != "" && r.Text != c.body {
			t.Errorf("%s %s: got %s %s, want %d %s", c.method, c.url, r.Status, r.Text, c.status, c.body)
		}
	}
}
