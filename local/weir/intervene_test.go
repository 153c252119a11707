package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/why"
)

// A blocked user, key and address are refused by both APIs of a running gateway, with every store, until the block ends.
// Explain, usage and why name the block. A raised limit has its number, and the same usage.
func TestBlock_gateway(t *testing.T) {
	for _, store := range append([]string{serve.Memory}, remoteStores...) {
		t.Run(store, func(t *testing.T) {
			l := newLocal(t, store, "../serve/testdata/design.json")
			t.Setenv("WEIR_URL", l.rest.URL)
			keys, err := l.checkout.SampleKeys()
			if err != nil {
				t.Fatal(err)
			}
			search := func(url, token, key string) commandtest.Reply {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/search", nil)
				if err != nil {
					t.Fatal(err)
				}
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				if key != "" {
					r.Header.Set("X-Api-Key", key)
				}
				return commandtest.Do(t, r)
			}
			expect := func(name, token, key string, rest, http int) {
				t.Helper()
				l.Set(l.Now().Add(2 * time.Second)) // functions read the file once a second
				for url, want := range map[string]int{l.rest.URL: rest, l.web.URL: http} {
					got := search(url, token, key)
					if got.StatusCode != want || want == 403 && !strings.Contains(got.Text, `"error":"blocked"`) {
						t.Errorf("%s at %s: got status %d, want %d", name, url, got.StatusCode, want)
					}
				}
			}
			alice := l.token("alice")
			for _, c := range []struct{ caller, token, key string }{
				{"user:alice", alice, ""}, {"apikey:sample-paid", "", keys["paid"]}, {"ip:127.0.0.1", "", ""},
			} {
				expect(c.caller, c.token, c.key, 200, 200)
				ok(t, "block", c.caller, "--note", "abuse")
				expect(c.caller+", blocked", c.token, c.key, 429, 403)
				if i := answers[operator.Usage](t, "usage", c.caller).Interventions; len(i) != 1 || i[0].Note != "abuse" {
					t.Errorf("usage: got %+v, want the block", i)
				}
				ok(t, "unblock", c.caller)
				expect(c.caller+", unblocked", c.token, c.key, 200, 200)
			}
			ok(t, "raise", "user:alice", "search", "6000")
			expect("raised", alice, "", 200, 200)
			if u := answers[operator.Usage](t, "usage", "user:alice"); u.Limits[0].Requests != 6000 || len(u.Interventions) != 1 {
				t.Errorf("raised: got %+v, want 6000 requests", u)
			}
			ok(t, "raise", "user:alice", "search", "0")
			ok(t, "block", "user:alice", "--for", "1h")
			expect("alice", alice, "", 429, 403)
			if e := answers[operator.Explanation](t, "explain", "GET", "/api/v1/search", "--user", "alice"); e.Decision.Status != 403 ||
				len(e.Interventions) != 1 {
				t.Errorf("explain: got %+v, want the block", e)
			}
			if out := ok(t, "explain", "GET", "/api/v1/search", "--user", "alice"); !strings.Contains(out,
				"operator user:alice is blocked until ") ||
				!strings.Contains(out, "none is charged: the caller is blocked\n") || strings.Contains(out, "other paths") ||
				!strings.Contains(out, "now  403: an operator has blocked the caller") {
				t.Errorf("explain: got\n%s", out)
			}
			if a := answers[why.Refusals](t, "why", "user:alice"); a.Count != 4 || !a.Rows[0].Blocked {
				t.Errorf("why: got %+v, want four blocked requests", a)
			}
			if out := ok(t, "why", "user:alice"); !strings.Contains(out, "(blocked)") {
				t.Errorf("why: got\n%s", out)
			}
			l.Set(l.Now().Add(time.Hour))
			expect("after the end", alice, "", 200, 200)
			t.Setenv("IPV6_BITS", "32")
			if out := ok(t, "block", "ip:2001:db8::7"); !strings.Contains(out, "ip:2001:db8::/32 ") {
				t.Errorf("block: got\n%s\nwant the network", out)
			}
		})
	}
}

// In a folder without the .weir of a weir serve, the commands write nothing.
func TestBlock_outside(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, out, errs := weir(t, "block", "ip:203.0.113.7"); code != 1 || out != "" ||
		!strings.Contains(errs, "weir serve --upstream; or set --table") {
		t.Errorf("got exit %d, %q, %q, want 1 and the folders to change to", code, out, errs)
	}
	if _, err := os.Stat(".weir"); !os.IsNotExist(err) {
		t.Errorf(".weir: got error %v, want no such folder", err)
	}
}

// With a records table, the commands write one item, which stays when rules are published.
func TestBlock_table(t *testing.T) {
	recordsTable(t)
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(`{"rules":[{"endpoint":"/s","limits":{"*":{"requests":5,"window":"1m"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "rules", "publish", file)
	if out := ok(t, "block"); out != "nobody is blocked, and no limit is raised\n" {
		t.Errorf("empty table: got %q", out)
	}
	ok(t, "block", "ip:2001:db8::7", "--for", "30m")
	ok(t, "raise", "user:alice", "s", "9", "--note", "launch")
	list := answers[[]rules.Intervention](t, "block")
	if len(list) != 2 || list[0].Value != "2001:db8::/64" || list[1].Requests != 9 || list[1].Note != "launch" {
		t.Errorf("got %+v, want a block of the network, and a raised limit", list)
	}
	ok(t, "raise", "user:alice", "s", "0")
	if out := ok(t, "unblock", "ip:2001:db8::8"); out != "nobody is blocked, and no limit is raised\n" {
		t.Errorf("after the end: got %q", out)
	}
	for args, want := range map[string]string{
		"block x":                      "want user:ID",
		"block user:a --for 0s":        "--for",
		"block user:a --for 9000h":     "--for",
		"raise user:a s x":             "NUMBER",
		"raise user:a t 5":             `counts by user, want "s"`,
		"raise user:a s 5 --table no-": "no table",
	} {
		if code, _, errs := weir(t, strings.Fields(args)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: got exit %d, %q, want %q", args, code, errs, want)
		}
	}
}

// kept has interventions in memory.
type kept struct{ in *rules.Interventions }

func (k *kept) Interventions(context.Context) (*rules.Interventions, error) { return k.in, nil }

func (k *kept) Intervene(_ context.Context, v *rules.Interventions, _ int64) error {
	k.in = v
	return nil
}

// Only a block in force has a key at the distribution that a new block must delete.
func TestInterveneOptions_write(t *testing.T) {
	now := time.Unix(1e9, 0)
	one := rules.Intervention{Kind: "user", Value: "a", End: now.Unix() + 1, Edge: "old"}
	k, o := &kept{storetest.Must((&rules.Interventions{}).Put(now, one))}, interveneOptions{}
	one.Edge, one.End = "", now.Unix()+9
	if _, err := o.write(t.Context(), k, now, one); err == nil || !strings.Contains(err.Error(), "--key-value-store: required") {
		t.Errorf("in force: got %v, want an error that names the flag", err)
	}
	if v, err := o.write(t.Context(), k, now.Add(time.Second), one); err != nil || len(v.List) != 1 || v.List[0].Edge != "" {
		t.Errorf("after the end: got %+v, %v, want the new block alone", v, err)
	}
}
