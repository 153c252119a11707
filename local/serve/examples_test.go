package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// A gateway of one region has the whole limit of all regions.
func TestExample_regions(t *testing.T) {
	eachStore(t, "../examples/regions.json", func(l *local, api *httptest.Server) {
		l.times(92, 90, http.StatusOK, "search", l.search(api, l.token("alice", "")))
	})
}

// Every example document is valid.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: got none (error %v), want at least one", err)
	}
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.Parse(document, rules.Options{OneRegion: true}); err != nil {
			t.Errorf("%s: got error %v, want none", file, err)
		}
	}
}
