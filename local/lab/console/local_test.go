package console_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/serve"
)

// rules is the document of most tests.
const rules = "../../serve/testdata/design.json"

// local is the REST API of weir serve, with a clock that the test sets.
type local struct {
	commandtest.Clock
	rest *httptest.Server
}

func newLocal(t *testing.T, rules string) *local {
	t.Helper()
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	checkouttest.Scratch(t)
	l := &local{}
	l.Set(time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC))
	s := &serve.Server{Options: serve.Options{API: sample.New, Console: console.New, Rules: rules, Store: serve.Memory, Out: io.Discard,
		Logger: slog.New(slog.DiscardHandler), Clock: l.Now, Namespace: checkouttest.Namespace()}}
	t.Cleanup(s.Close)
	l.rest, _ = commandtest.Serve(t, func([]string) ([]http.Handler, error) { return s.Open(t.Context()) })
	return l
}

// burst sends requests of a user with the tier free.
func (l *local) burst(t *testing.T, method, path, user string, n int) {
	t.Helper()
	c, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(user, "free", time.Until(l.Now())+time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		commandtest.Send(t, method, l.rest.URL+path, token)
	}
}
