package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// changes lists documents, each of which replaces the previous one. A higher or lower limit applies at
// once, and a change does not reset the usage. statuses are the answers to requests of alice (tier free)
// under the document, and remaining is the quota in the last answer.
var changes = []struct {
	name, document string
	statuses       []int
	remaining      string
}{
	{"at first", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":3,"window":"1h"}}}]`, []int{200, 200, 200, 429}, "0"},
	{"more", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":5,"window":"1h"}}}]`, []int{200, 200, 429}, "0"},
	{"fewer", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":4,"window":"1h"}}}]`, []int{429}, "0"},
	{"an override", `"overrides":[{"user":"alice","limits":{"search":{"requests":7,"window":"1h"}}}],"rules":[{"endpoint":"/api/v1/search",` +
		`"limits":{"free":{"requests":4,"window":"1h"}}}]`, []int{200, 200, 429}, "0"},
	{"no override again", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":4,"window":"1h"}}}]`, []int{429}, "0"},
	{"another default tier", `"default_tier":"basic","rules":[{"endpoint":"/api/v1/search","limits":{"basic":{"requests":2,"window":"1h"}}}]`,
		[]int{200, 200, 429}, "0"},
	{"the one before", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":8,"window":"1h"}}}]`, []int{200, 429}, "0"},
	{"document in shadow mode", `"mode":"shadow","rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":1,"window":"1h"}}}]`,
		[]int{200, 200, 200}, ""},
	{"document in force again", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":9,"window":"1h"}}}]`, []int{200, 429},
		"0"},
	{"rule in shadow mode", `"rules":[{"endpoint":"/api/v1/search","mode":"shadow","limits":{"free":{"requests":1,"window":"1h"}}}]`,
		[]int{200, 200}, ""},
	{"no rule", `"rules":[]`, []int{200, 200}, ""},
	{"a rule again", `"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":10,"window":"1h"}}}]`, []int{200, 429}, "0"},
}

func changed(i int) []byte { return fmt.Appendf(nil, `{"version":%d,%s}`, i+1, changes[i].document) }

// follow passes each document of changes to the function put, which brings it into force. Then follow
// checks the answers.
func follow(t *testing.T, put func(document []byte), search func() commandtest.Reply) {
	t.Helper()
	for i, c := range changes {
		put(changed(i))
		var last commandtest.Reply
		for j, want := range c.statuses {
			last = search()
			if last.StatusCode != want {
				t.Errorf("%s, request %d: got %d, want %d: %s", c.name, j+1, last.StatusCode, want, last.Text)
			}
		}
		if got := last.Header.Get("X-RateLimit-Remaining"); got != c.remaining {
			t.Errorf("%s: got %q remaining, want %q", c.name, got, c.remaining)
		}
	}
}

// With every store, a running gateway uses a changed rules file within a second.
func TestServe_rulesChange(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.json")
			put := func(document []byte) {
				if err := os.WriteFile(file, document, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put(changed(0))
			l := newLocal(t, store, file)
			token := l.token("alice", "")
			follow(t, func(document []byte) { put(document); l.Wait(time.Second) }, func() commandtest.Reply {
				return l.send(l.rest, http.MethodGet, "/api/v1/search", token)
			})
			// An invalid or missing file does not change the rules in force.
			put([]byte(`{"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":0,"window":"1h"}}}]}`))
			for _, what := range []string{"invalid", "gone"} {
				l.Wait(time.Second)
				if r := l.send(l.rest, http.MethodGet, "/api/v1/search", token); r.StatusCode != http.StatusTooManyRequests ||
					r.Header.Get("X-RateLimit-Limit") != "10" {
					t.Errorf("%s file: got %d, %v, want 429 and a limit of 10", what, r.StatusCode, r.Header)
				}
				_ = os.Remove(file)
			}
		})
	}
}

// An edit of the file prints one line about the rules in force, and one for each endpoint that matches no route.
func TestServe_printReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	const valid = `{"version":%d,"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":1,"window":"1m"}}}]}`
	write := func(document string) {
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(valid, 1))
	checkouttest.Scratch(t)
	crowd, warnings := fmt.Sprintf(valid, 4), "" // the loop below adds limits until they exceed one item
	for i := range 14 {
		crowd = strings.Replace(crowd, `[{`, fmt.Sprintf(`[{"endpoint":"/a%d","limits":{"*":{"requests":1,"window":"1m"}}},{`, i), 1)
		warnings += fmt.Sprintf("warning: rules[%d] matches no route: /a%d\n", i, 13-i)
	}
	const unrouted = `{"version":%d,"rules":[{"endpoint":"/api/v1/serch","method":"GET","limits":{"*":{"requests":1,"window":"1m"}}}]}`
	const similar = `{"version":7,"rules":[{"endpoint":"*","limits":{"pald":{"name":"all","requests":1,"window":"1m"},"paid":{"name":"all",` +
		`"requests":1,"window":"1m"},"*":{"name":"all","requests":1,"window":"1m"}}}]}`
	var out bytes.Buffer
	s := &Server{Options: Options{API: sample.New, Rules: file, Out: &out, Logger: slog.New(slog.DiscardHandler), Clock: time.Now}}
	t.Cleanup(s.Close)
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ document, want string }{
		{fmt.Sprintf(valid, 1), ""}, // same document as at the start
		{`{"rules":[{"endpoint":"*"}]}`, "rules  FILE has mistakes; version 1 stays in force\n  line 1: rules[0].limits: required\n"},
		{`{"rules":[{"endpoint":"*"}]}`, ""},
		{fmt.Sprintf(valid, 1) + " ", "rules  FILE has mistakes; version 1 stays in force\n  version: got 1, the version of the rules in " +
			"force, for a different document; give it a higher version\n"},
		{fmt.Sprintf(valid, 3), "rules  FILE (1 rule, version 3) are in force now\n"},
		{fmt.Sprintf(valid, 2), "rules  the document is older than the rules in force: got version 2, want more than 3; version 3 stays in " +
			"force\n"},
		{crowd, "rules  FILE (15 rules, version 4) are in force now\nrules  counts restart, because they move to other items: " +
			"rules[14].limits.* (all)\n" + warnings},
		{fmt.Sprintf(unrouted, 5), "rules  FILE (1 rule, version 5) are in force now\nwarning: rules[0] matches no route: GET /api/v1/serch\n"},
		{fmt.Sprintf(unrouted, 5), ""}, // once for each version
		{fmt.Sprintf(unrouted, 6), "rules  FILE (1 rule, version 6) are in force now\nwarning: rules[0] matches no route: GET /api/v1/serch\n"},
		{similar, "rules  FILE (1 rule, version 7) are in force now\n"},
		{"", "rules  stat FILE: no such file or directory; version 7 stays in force\n"},
		{"", ""},
	} {
		out.Reset()
		write(c.document)
		if c.document == "" {
			_ = os.Remove(file)
		}
		_ = s.live.Refresh(t.Context(), time.Now())
		if want := strings.ReplaceAll(c.want, "FILE", file); out.String() != want {
			t.Errorf("%s:\n got %q\nwant %q", c.document, &out, want)
		}
	}
}
