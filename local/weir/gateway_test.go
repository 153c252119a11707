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
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/servers"
)

// local is a REST API and an HTTP API like that of weir serve, with a clock that the test sets.
type local struct {
	commandtest.Clock
	t         *testing.T
	checkout  checkout.Checkout
	rest, web *httptest.Server
	namespace string
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
	l := &local{t: t, checkout: checkouttest.Scratch(t), namespace: checkouttest.Namespace()}
	l.Set(time.Now())
	s := serve.New(serve.Options{API: sample.New, Rules: rules, Store: store, Namespace: l.namespace, Out: io.Discard, Log: io.Discard,
		Logger: slog.New(slog.DiscardHandler), Clock: l.Now})
	t.Cleanup(s.Close)
	l.rest, l.web = commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
	return l
}

func (l *local) token(user string) string {
	l.t.Helper()
	token, err := l.checkout.Token(user, "", time.Hour, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

func (l *local) search(token string) int {
	l.t.Helper()
	return commandtest.Send(l.t, http.MethodGet, l.rest.URL+"/api/v1/search", token).StatusCode
}

// endpoints writes a document with n endpoints, each with one limit, and returns the file name.
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
