package console_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/console/scenario"
	"github.com/weir-limits/weir/local/serve"
)

// played returns the result of a scenario that starts from the defaults and then sets the
// parameters in query.
func played[R any](t *testing.T, name, query string) R {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	all := scenario.All()
	s := all[slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Name() == name })]
	if err := scenario.Set(s, values); err != nil {
		t.Fatal(err)
	}
	result, err := s.Play()
	if err != nil {
		t.Fatal(err)
	}
	return result.(R)
}

// shown is what the page shows of one demonstration.
type shown struct {
	Figures []string       // numbers above the chart
	Table   [][]string     // cells of the table body
	Status  string         // sentence below the chart
	Plotted [][][2]float64 // points of each series
	Error   string         // message below the form
}

// replay types parameters into the form of a demonstration, runs it, and returns the result that the
// page shows.
func (b *tab) replay(name, query string) shown {
	b.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		b.t.Fatal(err)
	}
	for field := range values {
		input := "#" + name + " [name=" + field + "]"
		b.do(chromedp.Focus(input), chromedp.Evaluate[chromedp.Void](`document.querySelector("`+input+`").select()`),
			chromedp.KeyEvent(values.Get(field)+kb.Enter))
	}
	section := `document.getElementById("` + name + `")`
	b.await(`[...new FormData(` + section + `.querySelector("form"))].every(([k, v]) => new URLSearchParams(` + section +
		`.dataset.played).get(k) === v) || ` + section + `.querySelector(".error").textContent`)
	return b.shows(name)
}

func (b *tab) shows(name string) shown {
	b.t.Helper()
	return evaluate[shown](b, `(() => {
		const section = document.getElementById("`+name+`");
		return {
			Figures: [...section.querySelectorAll(".view .figures dd")].map((e) => e.textContent),
			Table: [...section.querySelector("table.numbers").tBodies[0].rows].map((row) => [...row.cells].map((e) => e.textContent)),
			Status: section.querySelector(".status").textContent,
			Plotted: section.querySelector(".view .chart").plotted,
			Error: section.querySelector(".error").textContent,
		};
	})()`)
}

// last returns the last y of each series.
func (s shown) last() (values []float64) {
	for _, points := range s.Plotted {
		values = append(values, points[len(points)-1][1])
	}
	return values
}

// at returns y at x of a series that is drawn as steps: the y of the last point at or before x.
func (s shown) at(series int, x float64) (y float64) {
	for _, point := range s.Plotted[series] {
		if point[0] <= x {
			y = point[1]
		}
	}
	return y
}

func texts(numbers ...int) (list []string) {
	for _, n := range numbers {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// Each demonstration shows the numbers that the algorithms compute, with default and with changed
// parameters, in figures, sentence, table and chart.
func TestConsole_demos(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, demosPage, 1280, 900)
	t.Run("bucket", func(t *testing.T) {
		for _, query := range []string{"", "capacity=5&rate=2&burst=7&offered=3&seconds=2"} {
			want, got := played[scenario.BucketResult](t, "bucket", query), b.replay("bucket", query)
			run := want.Runs[0]
			if !slices.Equal(got.Figures, texts(run.AtOnce, run.Admitted, run.Refused, run.Most)) || len(got.Table) != len(run.PerSecond) {
				t.Errorf("%q: got figures %+v, want the figures of %+v", query, got.Figures, run)
			}
			if query == "" && got.Status != "20 admitted at once, 60 in all, 30 refused; the first refused request may retry after 100 ms." {
				t.Errorf("status: got %q, want the sentence of the defaults", got.Status)
			}
			for i, level := range want.Levels {
				if p := got.Plotted[0][i]; p[0] != float64(level.At)/1000 || p[1] != float64(level.Tokens) {
					t.Fatalf("%q: point %d of the level: got %v, want %+v", query, i, p, level)
				}
			}
		}
	})
	t.Run("boundary", func(t *testing.T) {
		for _, c := range []struct {
			query string
			want  []string
		}{{"", []string{"40", "20", "20"}}, {"limit=100&percent=99", []string{"200", "100", "100"}}} {
			query, want := c.query, c.want
			got := b.replay("boundary", query)
			result := played[scenario.BoundaryResult](t, "boundary", query)
			if !slices.Equal(got.Figures, want) || want[0] != strconv.Itoa(result.Runs[0].Admitted) || !strings.HasPrefix(got.Status,
				fmt.Sprintf("Within %v ms a fixed window admits %s,", result.Span, want[0])) {
				t.Errorf("%q: got figures %v and status %q, want %v and a span of %v ms", query, got.Figures, got.Status, want, result.Span)
			}
			for i, y := range got.last() {
				if strconv.Itoa(int(y)) != want[i] || got.at(i, 0.999) != float64(result.Runs[0].Admitted/2) {
					t.Errorf("%q: series %d: got %v, want %v", query, i, got.at(i, 0.999), y)
				}
			}
		}
	})
	t.Run("sync", func(t *testing.T) {
		for _, c := range []struct {
			query string
			want  []string
		}{
			{"", []string{"132", "72", "9", "60 36 36"}},
			{"intervalMs=0", []string{"60", "0"}},
			{"intervalMs=1000", []string{"180", "120", "3", "60 60 60"}},
			{"intervalMs=1000&nodes=5&limit=10", []string{"50", "40", "5", "10 10 10 10 10"}},
		} {
			query, want := c.query, c.want
			got := b.replay("sync", query)
			result := played[scenario.SyncResult](t, "sync", query)
			if !slices.Equal(got.Figures[:len(want)], want) || got.last()[0] != float64(result.Admitted) || len(got.Table[0]) != len(result.PerNode)+
				1 {
				t.Errorf("%q: got %v, want %v", query, got.Figures, want)
			}
			sweep := evaluate[[][]string](b, `[...document.getElementById("sweep").tBodies[0].rows].map((row) => [...row.cells].map((e) => `+
				`e.textContent))`)
			for i, c := range result.Sweep {
				if want := append([]string{fmt.Sprintf("%d ms", c.Interval)}, texts(c.Admitted, c.Overshoot, c.StoreCalls)...); !slices.Equal(sweep[i],
					want) {
					t.Errorf("%q: sweep: got %v, want %v", query, sweep[i], want)
				}
			}
		}
		b.expect("400 (Bad Request)")
		if got := b.replay("sync", "intervalMs=5"); got.Error != "intervalMs: got 5, want 0, or 10 to 1000" {
			t.Errorf("interval of 5 ms: got error %q, want the allowed range 0, or 10 to 1000", got.Error)
		}
	})
	t.Run("algorithms", func(t *testing.T) {
		for _, query := range []string{"", "capacity=10&rate=10&burst=40&offered=30&seconds=3"} {
			want, got := played[scenario.AlgorithmsResult](t, "algorithms", query), b.replay("algorithms", query)
			for i, run := range want.Runs {
				want := texts(run.AtOnce, run.Admitted, run.Refused, run.Most)
				var column []string
				for _, row := range got.Table[:len(want)] {
					column = append(column, row[i+1])
				}
				if got.Figures[i] != want[1] || !slices.Equal(column, want) || got.last()[i] != float64(run.Admitted) {
					t.Errorf("%q %s: got %s, %v, %v, want %v", query, run.Algorithm, got.Figures[i], column, got.last()[i], want)
				}
				// Every algorithm admits the full capacity at once. A leaky bucket then releases
				// one request after another, so only one leaves at once.
				if y := got.at(i, 0); (run.Algorithm == algo.LeakyBucket) != (y == 1) || run.Algorithm != algo.LeakyBucket && y != float64(run.AtOnce) {
					t.Errorf("%q %s: got first value %v, want 1 for the leaky bucket and %d otherwise", query, run.Algorithm, y, run.AtOnce)
				}
			}
		}
	})
}

// The page shows reserved and settled tokens, and the caller's debt.
func TestConsole_tokens(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, demosPage, 1280, 900)
	for _, query := range []string{"", "limit=2000&reserve=50&short=10&long=6000&answerMs=500&offered=4"} {
		want, got := played[scenario.TokensResult](t, "tokens", query), b.replay("tokens", query)
		if figures := texts(want.Admitted, want.Refused, int(want.Refunded), int(want.Charged), int(want.MostDebt)); !slices.Equal(got.Figures,
			figures) {
			t.Errorf("%q: got figures %v, want %v", query, got.Figures, figures)
		}
		for i, step := range want.Steps {
			if x := float64(step.At) / 1000; got.at(0, x) != float64(step.Used) || got.at(1, x) != float64(step.Reserved) ||
				got.at(2, x) != float64(step.Debt) {
				t.Fatalf("%q: step %d: got %v used, %v reserved and a debt of %v, want %+v", query, i, got.at(0, x), got.at(1, x), got.at(2, x), step)
			}
		}
		if query == "" && got.Status != "13 questions reserved 1300 tokens and used 1860: 440 refunded, 1000 charged above the reserves. The "+
			"largest debt was 422." {
			t.Errorf("status: got %q, want the sentence of the defaults", got.Status)
		}
		if said := strings.Contains(got.Status, "exceeded the largest debt"); said != (want.Excess > 0) {
			t.Errorf("%q: got status %q, want the excess of %d", query, got.Status, want.Excess)
		}
	}
}

// counts returns the counters in the live section of the page.
func (b *tab) counts() []string {
	b.t.Helper()
	return evaluate[[]string](b, `["sent", "allowed", "refused", "other"].map((id) => document.getElementById(id).textContent)`)
}

// burst starts a run of requests on the page and waits for their answers.
func (b *tab) burst(api, endpoint, tier, user string, count int, rate ...int) {
	b.t.Helper()
	choose := func(field, value string) {
		evaluate[bool](b, fmt.Sprintf(`(() => {
			const field = document.querySelector("#order [name=%s]");
			field.value = %q;
			field.dispatchEvent(new Event("change", { bubbles: true }));
			if (field.value !== %q) throw new Error("cannot choose " + %q);
			return true;
		})()`, field, value, value, value))
	}
	for _, c := range [][2]string{{"api", api}, {"endpoint", endpoint}, {"tier", tier}, {"user", user}, {"count", strconv.Itoa(count)},
		{"rate", strconv.Itoa(append(rate, console.MaxRate)[0])}} {
		choose(c[0], c[1])
	}
	b.do(chromedp.Click(`#order [type=submit]`))
	b.await(`document.getElementById("live-status").textContent.startsWith("Done: ` + strconv.Itoa(count) +
		` sent") || document.getElementById("live-error").textContent`)
}

// The live section sends the chosen number of requests to an API as a caller of a tier. It shows
// how many were allowed and refused, and the last answer.
func TestConsole_live(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, requestsPage, 1280, 900)
	for _, c := range []struct {
		api, endpoint, tier, user string
		count, allowed            int
		line, policy, wait        string
	}{
		{"REST", "GET /api/v1/search", "free", "alice", 26, 20, "429 Too Many Requests", `"search";q=100;w=60`, "1"},
		// the HTTP API shares its counters with the REST API
		{"HTTP", "GET /api/v1/search", "free", "alice", 2, 0, "429 Too Many Requests", `"search";q=100;w=60`, "1"},
		{"HTTP", "POST /api/v1/data", "free", "alice", 12, 10, "429 Too Many Requests", `"data";q=10;w=60`, ""},
		{"REST", "GET /api/v1/search", "paid", "bob", 101, 100, "429 Too Many Requests", `"search";q=1000;w=60`, "1"},
		{"REST", "GET /api/v1/search", "enterprise", "eve", 3, 3, "200 OK", `"search";q=10000;w=60`, ""},
		{"HTTP", "GET /api/v1/search", "", "alice", 21, 20, "429 Too Many Requests", `"search";q=100;w=60`, "1"}, // an anonymous caller
	} {
		t.Run(c.api+" "+c.endpoint+" "+c.tier, func(t *testing.T) {
			b.do(chromedp.Click(`#clear`))
			b.burst(c.api, c.endpoint, c.tier, c.user, c.count)
			if want := texts(c.count, c.allowed, c.count-c.allowed, 0); !slices.Equal(b.counts(), want) {
				t.Errorf("counts: got %v, want %v", b.counts(), want)
			}
			b.await(`document.getElementById("live-chart").plotted.slice(0, 2).map((points) => points.reduce((sum, p) => sum + p[1], 0)).join() ` +
				`=== "` + fmt.Sprintf("%d,%d", c.count, c.allowed) + `"`)
			// The third series of the chart is the rate of the limit, a horizontal line in requests
			// per second.
			var requests, window float64
			if _, err := fmt.Sscanf(strings.TrimLeft(c.policy, `"abcdefghijklmnopqrstuvwxyz`), ";q=%f;w=%f", &requests, &window); err != nil {
				t.Fatal(err)
			}
			if line := evaluate[[][2]float64](b, `document.getElementById("live-chart").plotted[2]`); len(line) != 2 ||
				math.Abs(line[0][1]-requests/window) > 1e-9 || line[1][1] != line[0][1] {
				t.Errorf("line of the limit: got %v, want %v", line, requests/window)
			}
			last := evaluate[map[string]string](b, `Object.fromEntries([["line", document.getElementById("last-line").textContent],
				...[...document.querySelectorAll("#last-header dt")].map((e) => [e.textContent, e.nextElementSibling.textContent])])`)
			if last["line"] != c.line || last["RateLimit-Policy"] != c.policy || c.wait != "" && last["Retry-After"] != c.wait {
				t.Errorf("last answer: got %v, want %s by %s, after %s s", last, c.line, c.policy, c.wait)
			}
			if rows := evaluate[int](b, `document.getElementById("log").rows.length`); rows != min(c.count, 10) {
				t.Errorf("rows of last answers: got %d, want 10", rows)
			}
		})
	}
	if body := evaluate[string](b, `document.getElementById("last-body").textContent`); !json.Valid([]byte(body)) ||
		!strings.Contains(body, `"error": "rate_limit_exceeded"`) {
		t.Errorf("last body: got %s, want the JSON of a refusal", body)
	}
	// The page does not contain a token.
	if evaluate[bool](b, `document.documentElement.outerHTML.includes("eyJ")`) {
		t.Error("token in the page: got one, want none")
	}
}

// Without rules, the page offers no endpoint and shows a message.
func TestConsole_noRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(`{"rules":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openConsole(t, newLocal(t, file).rest, requestsPage, 1280, 900)
	b.do(chromedp.Click(`#one`))
	b.await(`document.getElementById("live-error").textContent === "No rule applies to an endpoint of this API."`)
	if want := texts(0, 0, 0, 0); !slices.Equal(b.counts(), want) {
		t.Errorf("counts: got %v, want %v", b.counts(), want)
	}
}

// A request goes to the path in the form, at first that of the endpoint.
func TestConsole_path(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, requestsPage, 1280, 900)
	b.burst("REST", "GET /api/v1/search", "", "alice", 1)
	evaluate[bool](b, `(document.querySelector("#order [name=path]").value += "/nowhere") !== ""`)
	b.do(chromedp.Click(`#one`))
	b.await(`document.getElementById("last-line").textContent.startsWith("403")`)
	if want := texts(2, 1, 0, 1); !slices.Equal(b.counts(), want) {
		t.Errorf("counts: got %v, want %v", b.counts(), want)
	}
}

// After an edit of the rules file, the page's requests get the new rules.
func TestConsole_rules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	write := func(version, requests int) {
		t.Helper()
		document := fmt.Sprintf(`{"version":%d,"rules":[{"endpoint":"/api/v1/search","limits":{"free":{"requests":%d,"window":"1m"}}}`, version,
			requests)
		if version > 1 {
			document += `,{"endpoint":"/api/v1/data","method":"POST","limits":{"free":{"requests":1,"window":"1m"}}}`
		}
		document += "]}"
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 3)
	l := newLocal(t, file)
	b := openConsole(t, l.rest, requestsPage, 1280, 900)
	b.burst("REST", "GET /api/v1/search", "free", "alice", 5)
	if want := texts(5, 3, 2, 0); !slices.Equal(b.counts(), want) {
		t.Errorf("version 1: got %v, want %v", b.counts(), want)
	}
	write(2, 10)
	l.Wait(5 * time.Minute)                                     // after the window, the next request checks the file again
	b.burst("REST", "GET /api/v1/search", "free", "another", 1) // this request starts the reload
	b.await(`fetch("state").then((r) => r.json()).then((state) => state.version === 2)`)
	b.do(chromedp.Click(`#clear`))
	b.burst("REST", "GET /api/v1/search", "free", "alice", 12)
	if want := texts(12, 10, 2, 0); !slices.Equal(b.counts(), want) {
		t.Errorf("version 2: got %v, want %v", b.counts(), want)
	}
	b.do(chromedp.Reload()) // after a reload, the page offers the endpoint of the new rule
	b.do(chromedp.Click(`#clear`))
	b.burst("REST", "POST /api/v1/data", "free", "alice", 2)
	if want := texts(2, 1, 1, 0); !slices.Equal(b.counts(), want) {
		t.Errorf("endpoint of a new rule: got %v, want %v", b.counts(), want)
	}
}

// The page reads JSON lines correctly, even if a network packet ends inside a multi-byte character.
func TestConsole_lines(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, requestsPage, 1280, 900)
	for _, size := range []int{1, 2, 7, 100} {
		got := evaluate[string](b, fmt.Sprintf(`(async () => {
			const { lines } = await import("%slines.js");
			const bytes = new TextEncoder().encode('{"a":"é€"}\n{"a":2}\n');
			const body = new ReadableStream({ start(c) { for (let i = 0; i < bytes.length; i += %d) c.enqueue(bytes.slice(i, i + %d)); c.close(); } });
			const read = [];
			for await (const line of lines(new Response(body))) read.push(line.a);
			return read.join();
		})()`, serve.SitePath, size, size))
		if got != "é€,2" {
			t.Errorf("split every %d bytes: got %q, want %q", size, got, "é€,2")
		}
	}
}

// After a stop, a run sends no more requests.
func TestConsole_stop(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, requestsPage, 1280, 900)
	b.do(chromedp.SetValue(`#order [name=count]`, strconv.Itoa(console.MaxCount)), chromedp.SetValue(`#order [name=rate]`, "5"),
		chromedp.Click(`#order [type=submit]`))
	b.await(`document.getElementById("sent").textContent >= 2`)
	b.do(chromedp.Click(`#stop`))
	b.await(`document.getElementById("live-status").textContent.startsWith("Stopped: ")`)
	sent, err := strconv.Atoi(b.counts()[0])
	if err != nil || sent < 2 || sent >= console.MaxCount {
		t.Errorf("sent requests: got %d (error %v), want at least 2, and not all", sent, err)
	}
	// The page shows every request that was sent, except one that had no answer when the run
	// stopped.
	r := commandtest.Send(t, http.MethodGet, l.rest.URL+"/api/v1/search", "")
	if remaining, err := strconv.Atoi(r.Header.Get("X-RateLimit-Remaining")); err != nil || 19-remaining < sent || 19-remaining > sent+1 {
		t.Errorf("requests that the page shows: got %d, want %d, the number of charged requests, or one less", sent, 19-remaining)
	}
}

// The page works without a mouse. The first tab stop is a link that skips the navigation. A key can
// start a run, and the focus then stays on its button.
func TestConsole_keyboard(t *testing.T) {
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, requestsPage, 1280, 900)
	focused := func() string {
		return evaluate[string](b, `document.activeElement.name || document.activeElement.id || document.activeElement.className || `+
			`document.activeElement.tagName`)
	}
	b.do(chromedp.KeyEvent(kb.Tab))
	if focused() != "skip" {
		t.Errorf("first tab stop: got %s, want skip", focused())
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(`document.activeElement.id === "main"`)
	keys := map[string]string{"tier": "free", "user": "karl", "count": "23", "rate": "50"}
	var stops []string
	for range 7 {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := focused()
		stops = append(stops, stop)
		if text := keys[stop]; text != "" {
			if stop != "tier" {
				evaluate[bool](b, `document.activeElement.select() || true`)
			}
			b.do(chromedp.KeyEvent(text))
		}
	}
	if want := []string{"api", "endpoint", "path", "tier", "user", "count", "rate"}; !slices.Equal(stops, want) {
		t.Fatalf("tab stops: got %v, want %v", stops, want)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(`document.getElementById("live-status").textContent.startsWith("Done: ")`)
	if want := texts(23, 20, 3, 0); !slices.Equal(b.counts(), want) || focused() != "rate" {
		t.Errorf("counts: got %v with the focus on %s, want %v with the focus on rate", b.counts(), focused(), want)
	}
	// The Start button is a Stop button during a run.
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(" "))
	b.await(`document.getElementById("live-status").textContent.startsWith("Done: ") && document.getElementById("sent").textContent === "46"`)
	if label := evaluate[string](b, `document.activeElement.textContent`); label != "Start" {
		t.Errorf("label of the focused control: got %q, want Start", label)
	}
	// A focused control has a visible outline.
	if evaluate[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "none"`) {
		t.Error("outline of the focused control: got none, want one")
	}
}

// On a phone, the counters and the Start button are visible at the same time.
func TestConsole_phone(t *testing.T) {
	b := openConsole(t, newLocal(t, rules).rest, requestsPage, 390, 844)
	b.do(chromedp.ScrollIntoView(`#order [type=submit]`))
	for _, id := range []string{"sent", "allowed", "refused", "other"} {
		if !evaluate[bool](b, `(() => {
			const counter = document.getElementById("`+id+`"), { left, right, top, bottom } = counter.getBoundingClientRect();
			return top >= 0 && bottom <= innerHeight && document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === counter;
		})()`) {
			t.Errorf("counter %s: got hidden, want visible together with the Start button", id)
		}
	}
}
