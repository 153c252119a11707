package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// A server with sessions of its own limits its users, and clients without a session by their address.
func ExampleWithCaller() {
	users := map[string]string{"s1": "alice", "s2": "bob"} // by session
	limit := httplimit.PerCaller(1, time.Hour, httplimit.WithCaller(func(r *http.Request) (c caller.Caller, err error) {
		if session, err := r.Cookie("session"); err == nil {
			c.User = users[session.Value]
		}
		return c, nil
	}))
	api := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, session := range []string{"s1", "s2", "s1", "unknown", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody) //nolint:noctx // as a reader would write it
		r.AddCookie(&http.Cookie{Name: "session", Value: session})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
	// 200
	// 429
}

// The caller of WithCaller selects the limits of a document. An error charges only the address.
func TestWithCaller(t *testing.T) {
	const document = `{"tiers":["gold","free"],"rules":[{"endpoint":"/","limits":{"gold":{"requests":50,"window":"1m"},"free":{"requests":5,
		"window":"1m"},"global":{"name":"guesses","requests":2,"window":"1m","per":["ip"],"only":"bad_credentials"}}}]}`
	for name, c := range map[string]struct {
		caller caller.Caller
		err    error
		want   string // status and limit of three requests
	}{
		"tier":       {caller.Caller{User: "u", Tiers: []string{"x", "gold"}}, nil, "200 50 200 50 200 50 "},
		"anonymous":  {caller.Caller{}, nil, "200 5 200 5 200 5 "},
		"bad":        {caller.Caller{User: "u"}, caller.ErrInvalidCredential, "401  401  429 2 "},
		"missing":    {caller.Caller{User: "u"}, fmt.Errorf("no session: %w", caller.ErrMissingCredential), "401  401  429 2 "},
		"unverified": {caller.Caller{User: "u"}, caller.ErrUnverified, "503  503  503  "},
		"other":      {caller.Caller{User: "u"}, errors.New("the sessions cannot be read"), "503  503  503  "},
	} {
		g := storetest.Must(httplimit.FromDocument([]byte(document), httplimit.WithCaller(func(r *http.Request) (caller.Caller, error) {
			if r.URL.Path != "/" {
				t.Errorf("%s: got %s, want the request", name, r.URL)
			}
			return c.caller, c.err
		})))
		got := ""
		for range 3 {
			w := send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
			got += fmt.Sprint(w.Code, " ", w.Header().Get("X-RateLimit-Limit"), " ")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	g := httplimit.PerCaller(1, time.Minute, httplimit.WithCaller(func(*http.Request) (caller.Caller, error) { panic("no request") }))
	if r := g.Decide(t.Context(), httplimit.Request{Method: http.MethodGet, Path: rules.EncodedPath("/")}); !errors.Is(r.Err,
		caller.ErrUnverified) {
		t.Errorf("without a request: got %v, want ErrUnverified", r.Err)
	}
}

// A claim by which a limit counts and that cannot count is reported for each request, and logged once.
func TestGate_uncounted(t *testing.T) {
	const document = `{"rules":[{"endpoint":"/","limits":{"*":{"name":"org","requests":5,"window":"1m","per":["claim:org"]}}}]}`
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	values, reported := []string{}, 0
	g := storetest.Must(httplimit.FromDocument([]byte(document), httplimit.WithCaller(func(*http.Request) (caller.Caller, error) {
		return caller.Caller{User: "u", Claims: map[string][]string{"org": values}}, nil
	}), httplimit.WithObserver(func(_ context.Context, o telemetry.Outcome) {
		if o.Uncounted {
			reported++
		}
	})))
	for range 3 {
		send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
	}
	values = []string{"acme"}
	send(t, g.Wrap(ok), http.MethodGet, "/", "203.0.113.7:1")
	if lines := strings.Count(log.String(), "a claim cannot count"); reported != 3 || lines != 1 ||
		!strings.Contains(log.String(), "claim=org") {
		t.Errorf("got %d reports and the log %s, want 3 reports and one line with the claim", reported, &log)
	}
}

// A Gate of FromFile follows the file. A document with mistakes changes nothing. The log has notices that nothing writes.
func TestFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	if _, err := httplimit.FromFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no such file", err)
	}
	changed := time.Now()
	write := func(requests string) {
		changed = changed.Add(time.Second)
		err := os.WriteFile(path, []byte(`{"rules":[{"endpoint":"*","limits":{"*":{"requests":`+requests+`,"window":"1h"}}}]}`), 0o600)
		if err := errors.Join(err, os.Chtimes(path, changed, changed)); err != nil {
			t.Fatal(err)
		}
	}
	write("5")
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		api := storetest.Must(httplimit.FromFile(path)).Wrap(ok)
		for i, requests := range []string{"5", "7", "no", "9", `8,"notify":[80]`} {
			if i > 0 { // at first, the file is the one of the start
				write(requests)
			}
			for range 3 { // the first one starts the reload
				time.Sleep(time.Minute)
				synctest.Wait()
				send(t, api, http.MethodGet, "/", "203.0.113.7:1")
			}
			want := requests[:1]
			if requests == "no" {
				want = "7"
			}
			if got := send(t, api, http.MethodGet, "/", "203.0.113.7:1").Header().Get("X-RateLimit-Limit"); got != want {
				t.Errorf("%s: got the limit %s, want %s", requests, got, want)
			}
			if refused := strings.Contains(log.String(), "rules refused"); refused != (requests == "no") {
				t.Errorf("%s: got the log %s, want a refused document: %t", requests, &log, requests == "no")
			}
			if unwritten := strings.Contains(log.String(), "nothing writes its notices"); unwritten != (want == "8") {
				t.Errorf("%s: got the log %s, want a warning of notices: %t", requests, &log, want == "8")
			}
			log.Reset()
		}
	})
}
