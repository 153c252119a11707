package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// times sends a request n times. The limit must admit the first requests and refuse the others. admitted is
// the number of admitted requests, and status is the status of their answers.
func (l *local) times(n, admitted, status int, limit string, request func() commandtest.Reply) {
	l.t.Helper()
	for i := range n {
		r := request()
		switch {
		case i < admitted && r.StatusCode != status:
			l.t.Fatalf("request %d of %d: got %s %s, want %d", i+1, admitted, r.Status, r.Text, status)
		case i >= admitted && r.StatusCode != http.StatusTooManyRequests:
			l.t.Fatalf("request %d: got %s, want a refusal by %s", i+1, r.Status, limit)
		case i >= admitted && !strings.HasPrefix(r.Header.Get("RateLimit-Policy"), `"`+limit+`";`):
			l.t.Fatalf("limit that refused: got %s, want %s", r.Header.Get("RateLimit-Policy"), limit)
		}
	}
}

// eachStore runs a test with a rules document, for each store and each API. The APIs do not know the store, so each shared
// store has only one of them.
func eachStore(t *testing.T, document string, test func(l *local, api *httptest.Server)) {
	for _, c := range []struct{ store, kind string }{{Memory, "REST"}, {Memory, "HTTP"}, {"dynamodb", "REST"}, {"redis", "HTTP"}} {
		t.Run(c.store+" "+c.kind, func(t *testing.T) {
			l := newLocal(t, c.store, document)
			test(l, map[string]*httptest.Server{"REST": l.rest, "HTTP": l.http}[c.kind])
		})
	}
}

func (l *local) search(api *httptest.Server, token string) func() commandtest.Reply {
	return func() commandtest.Reply { return l.send(api, http.MethodGet, "/api/v1/search", token) }
}

// Users, API keys, addresses and an endpoint have separate counts. A request passes only if each of
// its limits allows it.
func TestExample_identities(t *testing.T) {
	eachStore(t, "../examples/identities.json", func(l *local, api *httptest.Server) {
		l.times(12, 10, http.StatusOK, "user", l.search(api, l.token("alice", "")))
		l.times(12, 10, http.StatusOK, "user", l.search(api, l.token("bob", "")))
		l.Wait(2 * time.Second)
		l.times(7, 5, http.StatusCreated, "endpoint", func() commandtest.Reply {
			return l.send(api, http.MethodPost, "/api/v1/data", l.token("carol", ""))
		})
		l.Wait(2 * time.Second)
		key := l.apiKey()
		l.times(102, 100, http.StatusOK, "key", func() commandtest.Reply {
			return l.sendWith(api, http.MethodGet, "/api/v1/search", "", http.Header{"X-Api-Key": {key}})
		})
	})
}

// Three limits apply to one request: of its address, of its user, and of the user at this endpoint.
func TestExample_layered(t *testing.T) {
	eachStore(t, "../examples/layered.json", func(l *local, api *httptest.Server) {
		l.times(22, 20, http.StatusOK, "user-endpoint", l.search(api, l.token("alice", "")))
		items := func() commandtest.Reply { return l.send(api, http.MethodGet, "/api/v1/items/1", l.token("alice", "")) }
		l.times(12, 10, http.StatusOK, "address", items) // the limit of the address is 30, and the searches used 20
		l.Wait(2 * time.Second)                          // the bucket gains a token every two seconds
		l.times(2, 1, http.StatusOK, "address", items)
	})
}

// The limit allows five failed logins an hour for a user name. A successful login is refunded.
func TestExample_login(t *testing.T) {
	eachStore(t, "../examples/login.json", func(l *local, api *httptest.Server) {
		login := func(user, password string) func() commandtest.Reply {
			return func() commandtest.Reply {
				return l.sendWith(api, http.MethodPost, "/api/v1/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password), nil)
			}
		}
		l.times(8, 8, http.StatusOK, "login", login("demo", "demo"))
		l.times(4, 4, http.StatusUnauthorized, "login", login("demo", "guess"))
		l.times(2, 2, http.StatusOK, "login", login("demo", "demo"))
		l.times(1, 1, http.StatusUnauthorized, "login", login("Demo", "guess"))
		l.times(2, 0, http.StatusOK, "login", login("demo", "demo")) // the limit refuses a login even if its password is right
		l.times(1, 1, http.StatusUnauthorized, "login", login("other", "guess"))
		l.Wait(30 * time.Minute)
		l.times(1, 0, http.StatusOK, "login", login("demo", "demo"))
		l.Wait(30 * time.Minute)
		l.times(1, 1, http.StatusOK, "login", login("demo", "demo"))
		l.Wait(3 * time.Hour)
		names := 0
		l.times(32, 30, http.StatusUnauthorized, "login-address", func() commandtest.Reply {
			names++
			return login(fmt.Sprint("name", names), "guess")()
		})
		if r := l.sendWith(api, http.MethodPost, "/api/v1/search", "", nil); r.StatusCode < 400 {
			l.t.Errorf("missing route: got %s, want a status of 400 or more", r.Status)
		}
	})
}

// A limit in mode shadow refuses no request. The other limits are far away.
func TestExample_busy(t *testing.T) {
	eachStore(t, "../examples/busy.json", func(l *local, api *httptest.Server) {
		l.times(10, 10, http.StatusOK, "", l.search(api, ""))
		l.times(10, 10, http.StatusCreated, "", func() commandtest.Reply { return l.send(api, http.MethodPost, "/api/v1/data", "") })
		l.times(105, 105, http.StatusOK, "", func() commandtest.Reply { return l.send(api, http.MethodGet, "/api/v1/items/7", l.token("bob", "")) })
	})
}

// A gateway of one region has the whole limit of all regions.
func TestExample_regions(t *testing.T) {
	eachStore(t, "../examples/regions.json", func(l *local, api *httptest.Server) {
		l.times(92, 90, http.StatusOK, "search", l.search(api, l.token("alice", "")))
	})
}

// Every example document is valid and has a test.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: got none (error %v), want at least one", err)
	}
	source, err := os.ReadFile("examples_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.Parse(document, rules.Options{OneRegion: true}); err != nil {
			t.Errorf("%s: got error %v, want none", file, err)
		}
		if !strings.Contains(string(source), `"../examples/`+filepath.Base(file)+`"`) {
			t.Errorf("%s: got no test of this example, want one", file)
		}
	}
}
