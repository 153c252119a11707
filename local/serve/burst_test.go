package serve

import (
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/infra/golden"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/servers"
)

// The daily limit, and the number of concurrent requests, which is larger.
const (
	burstLimit    = 57
	burstRequests = 640
)

var bursts = flag.Int("bursts", 1, "number of bursts for each number of connections")

var throttleNumbers = regexp.MustCompile(`("Throttling(?:Rate|Burst)Limit": )\d+`)

// burstGateways starts n REST APIs like weir serve. They share one store and one limit.
func burstGateways(t *testing.T, c checkout.Checkout, store, namespace string, n int) (urls []string) {
	t.Helper()
	document := filepath.Join(t.TempDir(), "rules.json")
	rule := fmt.Sprintf(`{"version":1,"rules":[{"endpoint":"/api/v1/search","limits":{"*":{"requests":%d,"window":"1d"}}}]}`, burstLimit)
	if err := os.WriteFile(document, []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	template, _ := throttledAt(t, 10_000) // no throttle, so that only limits refuse
	for range n {
		s := &Server{Options: Options{API: sample.New, Rules: document, Template: template, Store: store, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Namespace: namespace}, checkout: c}
		t.Cleanup(s.Close)
		template, err := s.read()
		if err != nil {
			t.Fatal(err)
		}
		apis, err := s.open(t.Context(), template)
		if err != nil {
			t.Fatal(err)
		}
		if err := warm(t.Context(), s.opened); err != nil {
			t.Fatal(err)
		}
		var rest *gateway.API
		for _, api := range apis {
			if api.Kind == "REST" {
				rest = api
			}
		}
		front := httptest.NewServer(rest)
		t.Cleanup(front.Close)
		urls = append(urls, front.URL)
	}
	return urls
}

// throttledAt writes the template with other throttles of its stages. It returns the path of the file, and the template
// itself.
func throttledAt(t *testing.T, burst int) (path string, whole []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, throttleNumbers.ReplaceAll(golden.Served, fmt.Appendf(nil, "${1}%d", burst)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, golden.Served
}

// burst sends requests of one caller to urls over this many new connections. It returns how many
// were admitted, and the number of answers of each kind.
func burst(t *testing.T, urls []string, token string, connections int) (passed int64, answers map[string]int) {
	t.Helper()
	var admitted, next atomic.Int64
	var mu sync.Mutex
	answers = map[string]int{}
	var wg sync.WaitGroup
	for i := range connections {
		client := &http.Client{Transport: &http.Transport{}}
		url := urls[i%len(urls)] + "/api/v1/search?q=weir"
		wg.Go(func() {
			defer client.CloseIdleConnections()
			for next.Add(1) <= burstRequests {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Authorization", "Bearer "+token)
				answer, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				degraded := answer.Header.Get("Weir-Degraded")
				mu.Lock()
				answers[fmt.Sprint(answer.StatusCode, " ", degraded)]++
				mu.Unlock()
				switch {
				case answer.StatusCode == http.StatusOK:
					admitted.Add(1)
				case answer.StatusCode != http.StatusTooManyRequests:
					t.Errorf("answer: got status %d and Weir-Degraded %q, want 200 or 429", answer.StatusCode, degraded)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load(), answers
}

// A caller sends 640 requests at once to a limit of 57 a day, over few or many connections, to one
// or two gateways. Exactly 57 requests are admitted. On a busy machine, a request can be charged
// and then refused because its deadline passed, or a gateway can decide without the store. The test
// then only checks that the store admitted at most 57, and repeats the burst.
func TestServe_burst(t *testing.T) {
	for _, store := range stores[1:] {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d gateways", store, n), func(t *testing.T) {
				storetest.Server(t, store, servers.Variables[store])
				c, again := checkouttest.Scratch(t), 5
				urls := burstGateways(t, c, store, checkouttest.Namespace(), n)
				for _, connections := range []int{4, 64, 256} {
					for round := 0; round < *bursts; round++ {
						token, err := c.Token(rand.Text(), "free", time.Hour, nil)
						if err != nil {
							t.Fatal(err)
						}
						passed, answers := burst(t, urls, token, connections)
						checkBurst(t, n, passed, answers)
						if passed != burstLimit && degraded(answers) && again > 0 {
							t.Logf("round %d over %d connections: %d passed; %v", round+1, connections, passed, answers)
							again--
							round--
							continue
						}
						if passed != burstLimit {
							t.Errorf("round %d over %d connections: got %d admitted, want %d; answers %v", round+1, connections, passed, burstLimit, answers)
						}
					}
				}
			})
		}
	}
}

// degraded reports whether a gateway made a decision without the store.
func degraded(answers map[string]int) bool {
	for answer := range answers {
		if _, reason, _ := strings.Cut(answer, " "); reason != "" {
			return true
		}
	}
	return false
}

// checkBurst checks what holds also in an outage: the store admits at most the limit, and so does each gateway, which
// counts for itself while the store does not answer.
func checkBurst(t *testing.T, gateways int, passed int64, answers map[string]int) {
	t.Helper()
	if answers["200 "] > burstLimit || passed > int64(gateways)*burstLimit {
		t.Errorf("got %d admitted by %d gateways, want at most %d by the store and by each gateway; answers %v", passed, gateways, burstLimit, answers)
	}
}

// If the machine is too busy to decide every request in time, a burst still gets at most the limit from the store, and
// from each gateway.
func TestServe_burst_busyMachine(t *testing.T) {
	for store, connections := range map[string]int{"dynamodb": 64, "redis": 256} {
		t.Run(store, func(t *testing.T) {
			storetest.Server(t, store, servers.Variables[store])
			c := checkouttest.Scratch(t)
			urls := burstGateways(t, c, store, checkouttest.Namespace(), 2)
			var idle atomic.Bool
			var work sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				work.Go(func() {
					for n := 0; !idle.Load(); n++ {
						_ = n * n
					}
				})
			}
			defer work.Wait()
			defer idle.Store(true)
			token, err := c.Token("busy", "free", time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			passed, answers := burst(t, urls, token, connections)
			checkBurst(t, len(urls), passed, answers)
		})
	}
}
