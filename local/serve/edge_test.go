package serve

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/servers"
)

// flooded limits an address to 20 requests in five minutes. A flood waits for minutes.
const flooded = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":20,"window":"5m","algorithm":"sliding_log","per":["ip"]}}}]}`

// distributed is a server with a distribution in front.
type distributed struct {
	commandtest.Clock
	*Server
	t    *testing.T
	file string // of the rules
	apis []http.Handler
}

// edgeLag is the time after which a change of the list acts.
const edgeLag = 2 * time.Second

func newDistributed(t *testing.T, store string) *distributed {
	t.Helper()
	f := &distributed{t: t, file: filepath.Join(t.TempDir(), "rules.json")}
	f.write(flooded)
	checkouttest.Scratch(t)
	f.Set(start)
	f.Server = New(Options{API: sample.New, Rules: f.file, Store: store, Edge: edgeLag, Unthrottled: true, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: f.Now, Namespace: checkouttest.Namespace()})
	t.Cleanup(f.Close)
	f.apis = storetest.Must(f.Open(t.Context(), []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}))
	return f
}

func (f *distributed) write(document string) {
	f.t.Helper()
	if err := os.WriteFile(f.file, []byte(document), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *distributed) send(api int, address string) (status int, atEdge bool) {
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "/api/v1/search", http.NoBody)
	r.RemoteAddr = address + ":4711"
	r.Header.Set("Weir-Viewer-Address", "192.0.2.99") // forged
	w := httptest.NewRecorder()
	f.apis[api].ServeHTTP(w, r)
	return w.Code, w.Header().Get("Weir-Edge") != ""
}

// flood sends more requests from the address flooding than the limit admits, and waits until the entry in the list acts.
func (f *distributed) flood(api int) {
	f.t.Helper()
	admitted := 0
	for range 60 {
		if status, atEdge := f.send(api, flooding); atEdge {
			f.t.Fatal("during the flood: got a refusal at the edge, want none before the lag")
		} else if status == http.StatusOK {
			admitted++
		}
	}
	if admitted != 20 {
		f.t.Fatalf("got %d admitted requests, want 20", admitted)
	}
	f.Wait(edgeLag)
}

const flooding, other = "203.0.113.7", "203.0.113.8"

// ask asks the operator's endpoints.
func (f *distributed) ask(path, question string) string {
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://127.0.0.1"+operator.Path+path, strings.NewReader(question))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.apis[0].ServeHTTP(w, r)
	return w.Body.String()
}

// With --edge, the viewer function refuses a flood in front of both APIs, until the wait ends or the caller is reset. Another
// address passes.
func TestServe_edge(t *testing.T) {
	for _, store := range []string{Memory, "redis"} {
		t.Run(store, func(t *testing.T) {
			if variable := servers.Variables[store]; variable != "" {
				storetest.Server(t, store, variable)
			}
			f := newDistributed(t, store)
			f.flood(0)
			for api := range f.apis {
				if status, atEdge := f.send(api, flooding); status != http.StatusTooManyRequests || !atEdge {
					t.Errorf("API %d after the lag: got %d, at the edge: %t; want a refusal there", api, status, atEdge)
				}
				if status, atEdge := f.send(api, other); status != http.StatusOK || atEdge {
					t.Errorf("API %d, another address: got %d, at the edge: %t; want 200", api, status, atEdge)
				}
			}
			if answer := f.ask("reset", `{"subject":"ip:`+flooding+`"}`); !strings.Contains(answer, `"listed":1`) {
				t.Fatalf("reset: got %s, want one removed entry", answer)
			}
			f.Wait(edgeLag)
			if status, _ := f.send(0, flooding); status != http.StatusOK {
				t.Errorf("after the reset: got %d, want 200", status)
			}
			f.Wait(10 * time.Minute)
			f.flood(1)
			if _, atEdge := f.send(1, flooding); !atEdge {
				t.Error("the second flood: got no refusal at the edge, want one")
			}
			f.Wait(5 * time.Minute)
			if status, _ := f.send(0, flooding); status != http.StatusOK {
				t.Errorf("after the wait: got %d, want 200", status)
			}
		})
	}
}

// explain, usage and why show the entry of a caller in the list, and that log lines do not count its refusals.
func TestServe_edge_operator(t *testing.T) {
	f := newDistributed(t, Memory)
	subject := `{"subject":"ip:` + flooding + `"}`
	questions := map[string]string{"explain": `{"method":"GET","path":"/api/v1/search","ip":"` + flooding + `"}`, "usage": subject, "why": subject}
	entry := regexp.MustCompile(`"edge":\[{"subject":"ip:` + flooding + `","limit":"flood","rulesVersion":\d+,"until":"2[^"]*Z"}\]`)
	shown := func(when string, want bool) {
		t.Helper()
		for path, question := range questions {
			if answer := f.ask(path, question); entry.MatchString(answer) != want {
				t.Errorf("%s %s: got %s; want the entry: %t", path, when, answer, want)
			}
		}
	}
	shown("before the flood", false)
	f.flood(0)
	shown("during the wait", true)
	if answer := f.ask("usage", `{"subject":"user:`+flooding+`"}`); strings.Contains(answer, `"edge"`) {
		t.Errorf("usage of a user: got %s, want no entry", answer)
	}
	if answer := f.ask("explain", strings.Replace(questions["explain"], "GET", "OPTIONS", 1)); strings.Contains(answer, `"edge"`) {
		t.Errorf("explain OPTIONS, which passes: got %s, want no entry", answer)
	}
	if answer := f.ask("why", `{}`); !strings.Contains(answer, `"distribution":true`) {
		t.Errorf("why: got %s, want that a distribution is in front", answer)
	}
	if answer := f.ask("unlist", subject); answer != "{\"listed\":1}\n" {
		t.Errorf("unlist: got %s, want one removed entry", answer)
	}
	shown("after the removal", false)
	f.Wait(edgeLag)
	if status, atEdge := f.send(0, flooding); status != http.StatusTooManyRequests || atEdge {
		t.Errorf("after the removal: got %d, at the edge: %t; want a refusal by the limiter, which still counts", status, atEdge)
	}
}

// New rules end the entries of older ones, also if no request reaches a function.
func TestServe_edge_reload(t *testing.T) {
	f := newDistributed(t, Memory)
	f.flood(0)
	if _, atEdge := f.send(0, flooding); !atEdge {
		t.Fatal("before the change: got no refusal at the edge")
	}
	f.write(strings.Replace(flooded, "20", "200", 1))
	newer := time.Now().Add(time.Minute)
	if err := os.Chtimes(f.file, newer, newer); err != nil { // the time is the version
		t.Fatal(err)
	}
	if err := f.live.Refresh(t.Context(), f.Now()); err != nil { // as watchRules does
		t.Fatal(err)
	}
	f.Wait(edgeLag)
	if status, atEdge := f.send(0, flooding); status != http.StatusOK || atEdge {
		t.Errorf("after the change: got %d, at the edge: %t; want 200", status, atEdge)
	}
}
