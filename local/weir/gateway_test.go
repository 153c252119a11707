package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/servers"
)

// local is the REST API as weir serve runs it. The test sets the clock.
type local struct {
	t         *testing.T
	checkout  checkout.Checkout
	rest      *httptest.Server
	namespace string
	mu        sync.Mutex
	now       time.Time
}

func newLocal(t *testing.T, store, rules string) *local {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	l := &local{t: t, checkout: checkouttest.Scratch(t), namespace: checkouttest.Namespace(), now: time.Now()}
	s := serve.New(serve.Options{Rules: rules, Store: store, Namespace: l.namespace, Out: io.Discard, Log: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: l.clock})
	t.Cleanup(s.Close)
	l.rest = httptest.NewUnstartedServer(nil)
	handlers, err := s.Open(t.Context(), []string{"http://" + l.rest.Listener.Addr().String(), ""})
	if err != nil {
		t.Fatal(err)
	}
	l.rest.Config.Handler = handlers[0]
	l.rest.Start()
	t.Cleanup(l.rest.Close)
	return l
}

func (l *local) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *local) wait(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *local) token(user string) string {
	l.t.Helper()
	token, err := l.checkout.Token(user, "", time.Hour, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

// search sends a request with a token and returns its status.
func (l *local) search(token string) int {
	l.t.Helper()
	return send(l.t, http.MethodGet, l.rest.URL+"/api/v1/search", token).StatusCode
}

// reply is an answer with its body.
type reply struct {
	*http.Response
	body string
}

func send(t *testing.T, method, url, token string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return do(t, request)
}

func do(t *testing.T, request *http.Request) reply {
	t.Helper()
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return reply{r, string(body)}
}

// endpoints writes a document with n endpoints, one limit each, and returns the file name.
func endpoints(t *testing.T, n int) string {
	t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"endpoint":"/e%d","limits":{"*":{"requests":3,"window":"1h"}}}`, i))
	}
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(`{"rules":[`+strings.Join(list, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
