package serve

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/servers"
)

// flooded limits an address to 20 requests in five minutes. A flood waits for minutes.
const flooded = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":20,"window":"5m","algorithm":"sliding_log","per":["ip"]}}}]}`

// With --edge, the viewer function refuses a flood in front of both APIs, until the wait ends or the caller is reset. Another
// address passes.
func TestServe_edge(t *testing.T) {
	for _, store := range []string{Memory, "redis"} {
		t.Run(store, func(t *testing.T) {
			if variable := servers.Variables[store]; variable != "" {
				storetest.Server(t, store, variable)
			}
			file := filepath.Join(t.TempDir(), "rules.json")
			if err := os.WriteFile(file, []byte(flooded), 0o600); err != nil {
				t.Fatal(err)
			}
			checkouttest.Scratch(t)
			const lag = 2 * time.Second
			var clock commandtest.Clock
			clock.Set(start)
			s := New(Options{Rules: file, Store: store, Edge: lag, Unthrottled: true, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now, Namespace: checkouttest.Namespace()})
			t.Cleanup(s.Close)
			apis := storetest.Must(s.Open(t.Context(), []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}))
			send := func(api int, address string) (status int, atEdge bool) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/search", http.NoBody)
				r.RemoteAddr = address + ":4711"
				r.Header.Set("Weir-Viewer-Address", "192.0.2.99") // forged
				w := httptest.NewRecorder()
				apis[api].ServeHTTP(w, r)
				return w.Code, w.Header().Get("Weir-Edge") != ""
			}
			const flooding, other = "203.0.113.7", "203.0.113.8"
			flood := func(api int) {
				t.Helper()
				admitted := 0
				for range 60 {
					if status, atEdge := send(api, flooding); atEdge {
						t.Fatal("during the flood: got a refusal at the edge, want none before the lag")
					} else if status == http.StatusOK {
						admitted++
					}
				}
				if admitted != 20 {
					t.Fatalf("got %d admitted requests, want 20", admitted)
				}
				clock.Wait(lag)
			}
			flood(0)
			for api := range apis {
				if status, atEdge := send(api, flooding); status != http.StatusTooManyRequests || !atEdge {
					t.Errorf("API %d after the lag: got %d, at the edge: %t; want a refusal there", api, status, atEdge)
				}
				if status, atEdge := send(api, other); status != http.StatusOK || atEdge {
					t.Errorf("API %d, another address: got %d, at the edge: %t; want 200", api, status, atEdge)
				}
			}
			reset := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+operator.Path+"reset", strings.NewReader(`{"subject":"ip:`+flooding+`"}`))
			reset.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			apis[0].ServeHTTP(w, reset)
			if !strings.Contains(w.Body.String(), `"listed":1`) {
				t.Fatalf("reset: got %d %s, want one removed entry", w.Code, w.Body)
			}
			clock.Wait(lag)
			if status, _ := send(0, flooding); status != http.StatusOK {
				t.Errorf("after the reset: got %d, want 200", status)
			}
			clock.Wait(10 * time.Minute)
			flood(1)
			if _, atEdge := send(1, flooding); !atEdge {
				t.Error("the second flood: got no refusal at the edge, want one")
			}
			clock.Wait(5 * time.Minute)
			if status, _ := send(0, flooding); status != http.StatusOK {
				t.Errorf("after the wait: got %d, want 200", status)
			}
		})
	}
}
