package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/servers"
)

// At 95 % of a limit that two processes share, a paid caller passes where a free one is refused, exactly: in a burst of 64
// connections of free callers, and in one of free and paid callers together.
func TestServe_ceiling(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	for _, store := range remoteStores {
		for _, algorithm := range []string{"fixed_window", "token_bucket"} {
			t.Run(store+" "+algorithm, func(t *testing.T) {
				address := storetest.Server(t, store, servers.Variables[store])
				t.Chdir(t.TempDir())
				document := fmt.Sprintf(`{"version":1,"tiers":["paid","free"],"rules":[{"endpoint":"*","limits":{"global":{"name":"all",`+
					`"requests":200,"window":"2400h","per":["global"],"algorithm":"%s","up_to":{"free":"95%%","paid":"100%%"}}},`+
					`"on_error":"deny"}]}`, algorithm)
				if err := os.WriteFile("rules.json", []byte(document), 0o600); err != nil {
					t.Fatal(err)
				}
				b := &burst{t: t, tokens: map[string]string{}}
				serve := []string{"serve", "--upstream", upstream.URL, "--rules", "rules.json", "--store", store, "--namespace",
					checkouttest.Namespace()}
				for range 2 {
					p := commandtest.Start(t, serve, servers.Variables[store]+"="+address, "STORE_TIMEOUT=950ms")
					b.urls = append(b.urls, p.URL)
				}
				for _, tier := range []string{"free", "paid"} {
					token, err := commandtest.Command(t, []string{"token", "--user", tier, "--tier", tier}).Output()
					if err != nil {
						t.Fatal(err)
					}
					b.tokens[tier] = strings.TrimSpace(string(token))
				}
				if got := b.send(4, "free"); !b.exact(got["free"], 190) {
					t.Errorf("256 requests of free callers: got %d admitted, and %d without a decision, want 190", got["free"], b.busy)
				}
				if got := b.send(4, "free", "paid"); got["free"] != 0 || !b.exact(got["paid"], 10) {
					t.Errorf("128 requests of free callers and 128 of paid ones: got %v admitted, and %d without a decision, want 0 and 10", got, b.busy)
				}
			})
		}
	}
}

// burst sends requests by 64 connections to several processes at once.
type burst struct {
	t      *testing.T
	urls   []string
	tokens map[string]string // by tier

	mu       sync.Mutex
	admitted map[string]int // by tier
	busy     int            // calls of the store that were too late to decide
}

// exact reports whether as many requests were admitted as wanted. A call that is too late, as on a slow machine, can have been
// counted, so it can be missing.
func (b *burst) exact(admitted, want int) bool { return admitted <= want && admitted+b.busy >= want }

// send sends some requests by each connection, of each tier in turn. It returns how many were admitted.
func (b *burst) send(each int, tiers ...string) map[string]int {
	b.admitted, b.busy = map[string]int{}, 0
	var connections sync.WaitGroup
	for i := range 64 {
		connections.Go(func() {
			transport := &http.Transport{MaxConnsPerHost: 1}
			defer transport.CloseIdleConnections()
			for n := range each {
				tier := tiers[(i/len(b.urls)+n)%len(tiers)]
				for !b.ask(transport, b.urls[i%len(b.urls)], tier) {
				}
			}
		})
	}
	connections.Wait()
	return b.admitted
}

// ask sends a request. It returns false if the store was too busy to decide.
func (b *burst) ask(transport *http.Transport, url, tier string) (decided bool) {
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		b.t.Error(err)
		return true
	}
	r.Header.Set("Authorization", "Bearer "+b.tokens[tier])
	answer, err := transport.RoundTrip(r)
	if err != nil {
		b.t.Error(err)
		return true
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound: // of the upstream
		b.mu.Lock()
		defer b.mu.Unlock()
		b.admitted[tier]++
	case strings.Contains(string(body), "subject_busy"):
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy++
		return false
	case answer.StatusCode != http.StatusTooManyRequests:
		b.t.Errorf("%s: got %s %s, want an answer of the upstream or 429", tier, answer.Status, body)
	}
	return true
}
