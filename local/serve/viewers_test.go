package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// behindEdge starts both APIs, which believe a distribution. edge returns a server of the distribution in front of an API.
func behindEdge(t *testing.T, believed string) (apis map[string]*httptest.Server, edge func(api *httptest.Server) http.Handler) {
	t.Helper()
	rules := storetest.Must(filepath.Abs("../../functions/rules.json"))
	checkouttest.Scratch(t)
	const secret = "0123456789abcdef0123456789abcdef"
	t.Setenv(contract.VariableOriginSecret, secret)
	var clock commandtest.Clock
	clock.Set(start)
	s := New(Options{
		API: sampleAPI, Rules: rules, Address: believed, Unthrottled: true,
		Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now, Namespace: checkouttest.Namespace(),
	})
	t.Cleanup(s.Close)
	rest, api := commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
	edge = func(api *httptest.Server) http.Handler {
		target := storetest.Must(url.Parse(api.URL))
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded() // appends the client
			host, port, _ := net.SplitHostPort(r.In.RemoteAddr)
			r.Out.Header.Set(contract.OriginSecretField, secret)
			r.Out.Header.Set(contract.CloudFrontAddressField, host+":"+port)
		}}
	}
	return map[string]*httptest.Server{"REST API": rest, "HTTP API": api}, edge
}

// attempt sends a request from an address to h and returns the status of the answer.
func attempt(t *testing.T, h http.Handler, address, method, path, body, token string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = net.JoinHostPort(address, "4711")
	forged := fmt.Sprintf("192.0.2.%d", len(body)%250)
	for _, name := range []string{contract.CloudFrontAddressField, "X-Forwarded-For", contract.OriginSecretField} {
		r.Header.Set(name, forged)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Behind one server of a distribution, 200 bad passwords of one client limit this client, and another client notices
// nothing. Without the setting, the other client is locked out too.
func TestServe_behindDistribution(t *testing.T) {
	const bad, other = "203.0.113.7", "2001:db8::7"
	for _, believed := range []string{"host", "cloudfront", "hops:1"} {
		t.Run(believed, func(t *testing.T) {
			apis, edge := behindEdge(t, believed)
			for name, api := range apis {
				h := edge(api)
				statuses := map[int]int{}
				for i := range 200 {
					if i%2 == 0 {
						statuses[attempt(t, h, bad, http.MethodGet, "/api/v1/search", "", "bad"+fmt.Sprint(i))]++
					} else {
						statuses[attempt(t, h, bad, http.MethodPost, "/api/v1/login", fmt.Sprintf(`{"user":"name%d","password":"guess"}`, i), "")]++
					}
				}
				// The limits bad-credentials of 30 and login of 20. The second API counts with the first one.
				if statuses[http.StatusUnauthorized]+statuses[http.StatusTooManyRequests] != 200 || statuses[http.StatusUnauthorized] > 50 {
					t.Errorf("%s: got %v for 200 bad passwords, want 401 at most 50 times, and else 429", name, statuses)
				}
				if status := attempt(t, h, bad, http.MethodGet, "/api/v1/search", "", "bad"); status != http.StatusTooManyRequests {
					t.Errorf("%s: the client with bad passwords: got %d, want 429", name, status)
				}
				token, login := http.StatusUnauthorized, http.StatusOK
				if believed == "host" {
					token, login = http.StatusTooManyRequests, http.StatusTooManyRequests
				}
				if got := attempt(t, h, other, http.MethodGet, "/api/v1/search", "", "bad"); got != token {
					t.Errorf("%s: a bad token of the other client: got %d, want %d", name, got, token)
				}
				if got := attempt(t, h, other, http.MethodPost, "/api/v1/login", `{"user":"demo","password":"demo"}`, ""); got != login {
					t.Errorf("%s: a login of the other client: got %d, want %d", name, got, login)
				}
			}
		})
	}
}

// A direct request cannot use the fields of the distribution. It is counted by its source.
func TestServe_direct(t *testing.T) {
	apis, edge := behindEdge(t, "cloudfront")
	for i := range 40 { // each names another address
		r := commandtest.Do(t, directRequest(t, apis["HTTP API"].URL, fmt.Sprintf("192.0.2.%d", i)))
		if want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusTooManyRequests}[i < 30]; r.StatusCode != want {
			t.Fatalf("bad token %d, directly: got %s, want %d", i, r.Status, want)
		}
	}
	if got := attempt(t, edge(apis["HTTP API"]), "203.0.113.7", http.MethodGet, "/api/v1/search", "", "bad"); got != http.StatusUnauthorized {
		t.Errorf("through the distribution: got %d, want 401", got)
	}
}

func directRequest(t *testing.T, url, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/search", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer bad"}, "Cloudfront-Viewer-Address": {address + ":1"},
		contract.OriginSecretField: {"guessed"}, "X-Forwarded-For": {address}}
	return r
}
