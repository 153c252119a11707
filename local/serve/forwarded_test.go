package serve

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// An X-Forwarded-For in which nobody is believed causes one warning, with the address in it and the one that counts.
func TestServe_forwarded(t *testing.T) {
	rules := storetest.Must(filepath.Abs("../../functions/rules.json"))
	for believed, want := range map[string]int{"": 1, "host": 1, "hops:1": 0} {
		t.Run(believed, func(t *testing.T) {
			checkouttest.Scratch(t)
			t.Setenv("ORIGIN_SECRET", "0123456789abcdef0123456789abcdef")
			var clock commandtest.Clock
			clock.Set(start)
			log := commandtest.NewOutput()
			s := New(Options{API: sample.New, Rules: rules, Address: believed, Out: io.Discard, Logger: slog.New(slog.NewTextHandler(log, nil)),
				Clock: clock.Now, Namespace: checkouttest.Namespace()})
			t.Cleanup(s.Close)
			rest, api := commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
			commandtest.Send(t, http.MethodGet, rest.URL+"/api/v1/search", "")
			if strings.Contains(log.String(), "X-Forwarded-For") {
				t.Errorf("without the field: got log %s, want no warning", log)
			}
			for _, server := range []*httptest.Server{rest, api, rest} {
				r := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/search", http.NoBody))
				r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.7")
				commandtest.Do(t, r)
			}
			text := log.String()
			if strings.Count(text, "X-Forwarded-For ignored") != want ||
				strings.Count(text, "--address hops:1, and let it send Weir-Origin-Secret with") != want ||
				strings.Count(text, "forwarded=203.0.113.7 client=127.0.0.1\n") != want {
				t.Errorf("got log %s, want %d warnings with both addresses and the remedy", text, want)
			}
		})
	}
}

// The warning does not change what reaches an upstream.
func TestUpstream_forwarded(t *testing.T) {
	f := newFronted(t, Memory, limited("*", plenty), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	})
	for range 2 {
		r, _, _ := f.raw("GET / HTTP/1.1\nHost: h\nConnection: close\nX-Forwarded-For: 203.0.113.7\n\n")
		if string(storetest.Must(io.ReadAll(r.Body))) != "203.0.113.7, 127.0.0.1" {
			t.Errorf("got %s, want the field with the peer", r.Status)
		}
	}
	if n := strings.Count(f.log.String(), "X-Forwarded-For ignored"); n != 1 {
		t.Errorf("got %d warnings, want one", n)
	}
}
