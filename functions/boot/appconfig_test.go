package boot_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
)

// appConfigAgent starts a fake AppConfig agent. It returns the source that reads from the fake.
func appConfigAgent(t *testing.T, answer http.HandlerFunc) live.Source {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	u := storetest.Must(url.Parse(server.URL))
	port := storetest.Must(strconv.Atoi(u.Port()))
	c := storetest.Must(contract.ParseConfiguration("abcd123/prod/weir.rules_1"))
	return boot.NewAppConfigAgent(port, c)
}

func TestAppConfigAgent(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string // part of the document or of the error
		ok     bool
	}{
		"a document": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
		}, "GET /applications/abcd123/environments/prod/configurations/weir.rules_1", true},
		"none": {http.NotFound, "status 404 for http://127.0.0.1:", false},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "status 302", false},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "check that the function has its layer", false},
		"breaks down": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{}")
		}, "unexpected EOF", false},
	} {
		d, err := appConfigAgent(t, c.answer).Document(t.Context())
		got := string(d.Content)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || !strings.Contains(got, c.want) || d.Version != 0 {
			t.Errorf("%s: got %q of version %d, want %s", name, got, d.Version, c.want)
		}
	}
}

// A response that is too long is cut one byte above the limit, so the parser rejects it.
func TestAppConfigAgent_endless(t *testing.T) {
	a := appConfigAgent(t, func(w http.ResponseWriter, _ *http.Request) {
		for b := make([]byte, 1<<16); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	d, err := a.Document(t.Context())
	if err != nil || len(d.Content) != rules.MaxBytes+1 {
		t.Errorf("document: got %d bytes, error %v; want one byte above the limit", len(d.Content), err)
	}
}
