package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
)

// The HTTP client returns the same answers and errors as the operator itself.
func TestClient(t *testing.T) {
	d := newDesk(t, "memory")
	s := httptest.NewServer(d.Handler())
	defer s.Close()
	c, err := operator.NewGateway(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := operator.Question{Method: "GET", Path: "/busy", User: "alice", Tier: "paid", APIKeyID: "k", IP: "203.0.113.7",
		Claims: map[string][]string{"org": {"acme"}}}
	d.send(q)
	same(t, c.Explain, d.Explain, q)
	same(t, c.Explain, d.Explain, operator.Question{Method: "GET"})
	same(t, c.Explain, d.Explain, operator.Question{Method: "get", Path: "/"})
	same(t, c.Explain, d.Explain, operator.Question{Method: "GET", Path: "/?q"})
	same(t, c.Explain, d.Explain, operator.Question{Method: "GET", Path: "/", IP: "me"})
	same(t, c.Explain, d.Explain, operator.Question{Method: "GET", Path: "/", Token: "t"})
	same(t, c.Explain, d.Explain, operator.Question{Method: "GET", Path: "/", Token: "t", User: "alice"})
	same(t, c.Usage, d.Usage, "user:alice")
	same(t, c.Usage, d.Usage, "alice")
	if f, err := c.Reset(t.Context(), "user:alice"); err != nil || len(f.Limits) != 3 {
		t.Errorf("reset: got %+v, error %v, want 3 limits", f, err)
	}
	same(t, c.Reset, d.Reset, "user:alice") // alice has no usage now
	d.Limiters = []*limiter.Limiter{storetest.Must(limiter.New(failing{d.store}, limiter.Options{}))}
	same(t, c.Usage, d.Usage, "user:alice")
	s.Close()
	if _, err := c.Usage(t.Context(), "user:alice"); err == nil || !strings.Contains(err.Error(),
		"start one with make run or weir serve, or set --url or WEIR_URL") {
		t.Errorf("no gateway: got error %v, want one that names make run and WEIR_URL", err)
	}
}

// same fails unless both clients return the same answer or the same error.
func same[Q, A any](t *testing.T, client, direct func(context.Context, Q) (A, error), q Q) {
	t.Helper()
	got, gotErr := client(t.Context(), q)
	want, wantErr := direct(t.Context(), q)
	_, wantMistake := errors.AsType[*operator.MistakeError](wantErr)
	_, gotMistake := errors.AsType[*operator.MistakeError](gotErr)
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || gotMistake != wantMistake || wantErr == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%+v:\ngot  %+v, %v\nwant %+v, %v", q, got, gotErr, want, wantErr)
	}
}

// The client only accepts addresses of this machine.
func TestNewGateway(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:8080/": true, "http://[::1]:9": true,
		"https://127.0.0.1:8080": false, "http://evil.example": false, "http://127.0.0.1.evil.example": false, "http://127.0.0.1:1/path": false,
		"127.0.0.1:8080": false, "": false, "http://192.168.1.1": false, "http://127.0.0.1@evil.example": false,
	} {
		if _, err := operator.NewGateway(address); (err == nil) != ok {
			t.Errorf("%q: got error %v, want an error: %t", address, err, !ok)
		}
	}
}

// The client does not follow a redirect. Its error states that the server is not a gateway.
func TestGateway_redirect(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c, err := operator.NewGateway(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Explain(t.Context(), operator.Question{Token: "secret"}); err == nil || asked != 1 || !strings.Contains(err.Error(),
		"not a gateway of Weir") {
		t.Errorf("redirect: got error %v after %d requests, want an error after 1 request", err, asked)
	}
}

// The handler rejects a request body that is too large or is not strict JSON. It rejects every GET.
func TestHandler_hostile(t *testing.T) {
	d := newDesk(t, "memory")
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "usage", `{"subject":"user:alice"}`, 200},
		{http.MethodPost, "usage", `{"subject":"user:alice","x":1}`, 400},
		{http.MethodPost, "usage", `{"subject":"` + strings.Repeat("x", 1<<17) + `"}`, 400},
		{http.MethodPost, "usage", strings.Repeat("[", 1<<17), 400},
		{http.MethodPost, "usage", ``, 400},
		{http.MethodGet, "reset", ``, 405},
		{http.MethodGet, "reset?subject=user:alice", ``, 405},
		{http.MethodPut, "reset", `{"subject":"user:alice"}`, 405},
		{http.MethodPost, "other", `{}`, 404},
	} {
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, operator.Path+c.path, strings.NewReader(c.body)))
		if w.Code != c.want {
			t.Errorf("%s %s %.40s: got %d, want %d: %s", c.method, c.path, c.body, w.Code, c.want, w.Body)
		}
	}
}
