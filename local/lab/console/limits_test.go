package console_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-limits/weir/local/command/commandtest"
)

// rows returns the texts of the cells of a section's table.
func (b *tab) rows(section string) (list []string) {
	b.t.Helper()
	return evaluate[[]string](b, `[...document.querySelector("#`+section+
		` table").tBodies[0]?.rows ?? []].map((row) => [...row.cells].map((e) => e.textContent).join(" | "))`)
}

// record is the time after which a refusal is in the gateway's record: a second, and the duration of the request.
const record = 2 * time.Second

// awaitRows waits until the table of a section has these rows.
func (b *tab) awaitRows(section string, want ...string) {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got := b.rows(section)
		if slices.Equal(got, want) {
			return
		}
		if time.Since(begun) > patience {
			b.t.Fatalf("%s: got %q, want %q", section, got, want)
		}
	}
}

// arrive waits until the page of a caller has loaded. A page that loads cancels what the test evaluates in it.
func (b *tab) arrive(caller string) {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.documentElement.dataset.ready !== undefined && new `+
			`URLSearchParams(location.search).get("caller") || ""`))
		if err == nil && got == caller {
			return
		}
		if time.Since(begun) > patience {
			b.t.Fatalf("caller of the page: got %q, error %v, want %s", got, err, caller)
		}
	}
}

func (b *tab) status(section, want string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector("#%s .status").textContent === %q`, section, want))
}

// The page shows who is limited now and why, without a further request. A caller leaves the list when its
// wait is over, or with a reset; the refusals stay in their list. Other callers keep their usage.
func TestConsole_limits(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, limitsPage, 1280, 900)
	b.status("limited", "No caller is limited now.")
	b.status("refusals", "No request was refused in the last hour.")
	l.burst(t, http.MethodGet, "/api/v1/search", "alice", 26)
	l.Wait(time.Second)
	l.burst(t, http.MethodPost, "/api/v1/data", "bob", 12)
	b.open(l.rest, limitsPage)
	l.Wait(record)
	b.awaitRows("limited",
		"user:alice | search | GET /api/v1/search | 20 of 20 | 6 times | now",
		"user:bob | data | POST /api/v1/data | 10 of 10 | 2 times | 12:01:31")
	b.status("limited", "2 callers were refused in the last ten seconds, or must still wait.")
	b.status("refusals", "8 refusals in the last hour.")
	if bars := evaluate[[]float64](b, `[...document.querySelectorAll("#limited meter")].map((m) => m.value / m.max)`); !slices.Equal(bars,
		[]float64{1, 1}) {
		t.Errorf("bars: got %v, want 1 and 1", bars)
	}
	l.Wait(15 * time.Second)
	bob := "user:bob | data | POST /api/v1/data | 10 of 10 | 2 times | 12:01:31"
	b.awaitRows("limited", bob)

	b.do(chromedp.Click(`#limited a`))
	b.arrive("user:bob")
	b.status("caller", "user:bob uses 1 of 4 limits; 1 refuses now.")
	b.awaitRows("caller", "data | free | POST /api/v1/data | 10 in 1 min | 10 of 10 | 12:01:31 | 12:01:31")
	b.awaitRows("limited", bob)
	b.do(chromedp.Click(`#reset`))
	b.status("caller", "user:bob uses 0 of 4 limits.")
	b.awaitRows("limited")
	b.awaitRows("refusals",
		"12:00:31 | user:bob | data | POST /api/v1/data | 2 | 60 s",
		"12:00:30 | user:alice | search | GET /api/v1/search | 6 | 1 s")

	// The form works with keys alone.
	b.do(chromedp.Focus(`#subject`), chromedp.Evaluate[chromedp.Void](`document.getElementById("subject").select()`),
		chromedp.KeyEvent("user:alice"+kb.Enter))
	b.arrive("user:alice")
	b.status("caller", "user:alice uses 0 of 4 limits.")
}

// The limits of a caller have what they count, their mode and their period. Those that refuse come first.
func TestConsole_caller(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	write(t, file, `{"rules":[{"endpoint":"/api/v1/search","method":"GET","limits":{
		"free":[{"name":"tokens","requests":100,"period":"month","per":["user"],"count":"cost","reserve":20},{"name":"soft","requests":2,
			"window":"1h","algorithm":"fixed_window","mode":"mark"},{"name":"hard","requests":3,"window":"2d"}],
		"paid":{"name":"paid","requests":5,"window":"1h"}}}],
		"exempt":[{"endpoint":"/api/v1/items/*","name":"items"}]}`)
	l := newLocal(t, file)
	b := openConsole(t, l.rest, limitsPage, 1280, 900)
	l.burst(t, http.MethodGet, "/api/v1/search", "alice", 4)
	b.open(l.rest, "?caller=user:alice")
	b.status("caller", "user:alice uses 3 of 4 limits; 1 refuses now.")
	b.awaitRows("caller",
		"soft (mark) | free | GET /api/v1/search | 2 in 1 h | 2 of 2 | 13:00:00 (refuses nothing) | 13:00:00",
		"hard | free | GET /api/v1/search | 3 in 2 d | 3 of 3 | 2100-03-06 12:00:30 | 2100-03-06 12:00:30",
		"tokens | free | GET /api/v1/search | 100 (cost) in a month from 1 (UTC) | 60 of 100 | now | 2100-04-01 00:00:00")
	if facts := evaluate[string](b, `document.querySelector(".facts").textContent`); !strings.Contains(facts, "Exempt") ||
		!strings.Contains(facts, "items") {
		t.Errorf("facts: got %q, want the exemption", facts)
	}
	b.expect("400 (Bad Request)")
	b.open(l.rest, "?caller=alice")
	b.await(`document.querySelector("#caller .error").textContent.startsWith('subject: got "alice", want')`)
}

// A limit in shadow mode does not look as if it refused. The page lists what it would have refused.
func TestConsole_shadow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	write(t, file, `{"rules":[{"endpoint":"/api/v1/search","method":"GET","mode":"shadow","limits":{"free":{"name":"trial","requests":2,
		"window":"1h","algorithm":"fixed_window"}}},
		{"endpoint":"/api/v1/search","limits":{"free":{"name":"enforced","requests":9,"window":"1h"},"*":{"name":"rest","requests":9,
			"window":"1h"}}}]}`)
	l := newLocal(t, file)
	b := openConsole(t, l.rest, limitsPage, 1280, 900)
	b.await(`document.getElementById("shadow").hidden`)
	l.burst(t, http.MethodGet, "/api/v1/search", "alice", 4)
	l.Wait(record)
	b.open(l.rest, "?caller=user:alice")
	b.awaitRows("shadow", "12:00:30 | user:alice | trial | GET /api/v1/search | 2")
	b.status("caller", "user:alice uses 2 of 3 limits.")
	b.await(`document.querySelector("#caller tbody tr").textContent.includes("13:00:00 (refuses nothing)") && ` +
		`!document.querySelector("#caller tbody .refused")`)
	if high := evaluate[float64](b, `document.querySelector("#caller meter").high / document.querySelector("#caller meter").max`); high != 1 {
		t.Errorf("bar: got the color of a refusal above %v, want 1", high)
	}
	b.awaitRows("rules",
		"GET /api/v1/search | free | trial (shadow) | 2 in 1 h | fixed window",
		"/api/v1/search | other tiers | rest | 9 in 1 h | sliding window",
		"/api/v1/search | free | enforced | 9 in 1 h | sliding window")
}

// The page shows what a link or the name of a caller contains as text, never as HTML.
func TestConsole_hostile(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, limitsPage, 1280, 900)
	const name = `<img src=x onerror="alert(1)">`
	b.expect("400 (Bad Request)")
	evaluate[bool](b, fmt.Sprintf(`(document.getElementById("subject").value = %q) !== ""`, name))
	b.do(chromedp.Focus(`#subject`), chromedp.KeyEvent(kb.Enter))
	b.arrive(name)
	b.await(`document.querySelector("#caller .error")?.textContent.includes("<img src=x onerror=")`)
	if evaluate[bool](b, `document.querySelector("main img") !== null`) {
		t.Error("image: got one, want none")
	}
}

// The page shows the version and the age of the rules, and their limits. It follows a change of the document, and shows
// the mistakes of a document that is not in force.
func TestConsole_version(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	write(t, file, `{"version":1,"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":3,"window":"1m"}}}]}`)
	l := newLocal(t, file)
	b := openConsole(t, l.rest, limitsPage, 1280, 900)
	rules := func(want string) {
		t.Helper()
		b.await(fmt.Sprintf(`document.querySelector(".facts dd").textContent === %q`, want))
	}
	reload := func() {
		t.Helper()
		l.Wait(5 * time.Minute)                                              // after this time, the next request checks the file again
		commandtest.Send(t, http.MethodGet, l.rest.URL+"/api/v1/search", "") // this request starts the reload
	}
	rules("version 1, in force for 0 seconds")
	b.awaitRows("rules", "/api/v1/search | free | search | 3 in 1 min | sliding window")
	l.Wait(3 * time.Hour)
	rules("version 1, in force for 3 hours")
	write(t, file, `{"version":2,"rules":[{"endpoint":"/api/v1/search","limits":{"*":{"requests":4,"window":"90s",`+
		`"algorithm":"token_bucket","burst":2}}}]}`)
	reload()
	rules("version 2, in force for 0 seconds")
	b.awaitRows("rules", "/api/v1/search | all tiers | search | 4 in 90 s, 2 at once | token bucket")
	write(t, file, `{"version":3,"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":-1,"window":"1m"}}}]}`)
	reload()
	b.await(`document.getElementById("rules-error").textContent.includes("rules[0].limits.free")`)
	rules("version 2, in force for 5 minutes")
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
