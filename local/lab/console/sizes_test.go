package console_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
)

// windows are the sizes of a desktop and of a phone.
var windows = []struct {
	name          string
	width, height int64
}{{"desktop", 1280, 900}, {"phone", 390, 844}}

// brokenWords lists the words in the heads of columns that do not fit in one line.
const brokenWords = `[...document.querySelectorAll("thead th")].flatMap((head) => [...head.textContent.matchAll(/\S+/g)].filter((word) => {
	const range = document.createRange();
	range.setStart(head.firstChild, word.index);
	range.setEnd(head.firstChild, word.index + word[0].length);
	return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
}).map((word) => word[0]))`

// axe returns the script that checks whether a page is accessible.
func axe(t *testing.T) string {
	t.Helper()
	c, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(c.Path("local", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		storetest.Program(t, "node")
		t.Fatalf("%v: run make -C local/lab modules", err)
	}
	return string(script)
}

// On a desktop and on a phone, in both colour schemes, each page fits the window and is accessible. No
// word in the head of a column is broken. The test writes pictures to .weir/screenshots.
func TestConsole_sizes(t *testing.T) {
	axe, dir := axe(t), screenshots(t)
	l := newLocal(t, rules)
	b := openConsole(t, l.rest, limitsPage, 1280, 900)
	for _, user := range []string{"alice", "bob"} {
		l.burst(t, http.MethodGet, "/api/v1/search", user, 26)
	}
	l.burst(t, http.MethodPost, "/api/v1/data", "alice", 16)
	l.Wait(record)
	for _, page := range []string{"?caller=user:alice", demosPage} {
		b.open(l.rest, page)
		if *screenshot && strings.HasPrefix(page, "?") {
			b.record()
		}
		evaluate[bool](b, `document.querySelectorAll("details").forEach((e) => { e.open = true }) || true`)
		evaluate[bool](b, axe+`; true`)
		for _, window := range windows {
			for _, scheme := range []string{"light", "dark"} {
				name := fmt.Sprintf("%s %s %s", cmp.Or(strings.Split(page, "?")[0], "limits"), window.name, scheme)
				t.Run(name, func(t *testing.T) {
					b.media("prefers-color-scheme", scheme)
					b.do(chromedp.EmulateViewport(window.width, window.height))
					b.await(`document.getAnimations().length === 0`) // a button that still changes its colour has too little contrast
					b.await(`[...document.querySelectorAll(".chart canvas")].every((c) => Math.abs(c.clientWidth - c.closest(".chart").clientWidth) < 2)`)
					b.picture(dir, name)
					b.fits(t, window.width)
					b.accessible(t)
				})
			}
		}
	}
}

// record writes the picture of the README: the open page of limits.
func (b *tab) record() {
	b.t.Helper()
	c, err := checkout.Find()
	if err != nil {
		b.t.Fatal(err)
	}
	b.media("prefers-color-scheme", "light")
	// Hide the path of the rules file on this machine.
	evaluate[bool](b, `(document.querySelector(".facts .path").textContent = "functions/rules.json") !== ""`)
	b.do(chromedp.EmulateViewport(1120, 860))
	b.view(c.Path("local", "console", "console.png"))
}

// fits reports what is wider than the window, and broken words in the heads of columns.
func (b *tab) fits(t *testing.T, width int64) {
	t.Helper()
	if wide := evaluate[int64](b, `document.documentElement.scrollWidth`); wide > width {
		t.Errorf("page width: got %d, want at most %d", wide, width)
	}
	if cut := evaluate[[]string](b, `[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => `+
		`e.ariaLabel ?? e.getAttribute("aria-labelledby"))`); len(cut) > 0 {
		t.Errorf("clipped tables: got %v, want none", cut)
	}
	if broken := evaluate[[]string](b, brokenWords); len(broken) > 0 {
		t.Errorf("words in heads of columns: got %q broken, want none", broken)
	}
}

func (b *tab) accessible(t *testing.T) {
	t.Helper()
	found := evaluate[struct {
		Violations []string
		Passes     int
	}](b, `axe.run().then((r) => ({ Violations: r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target).join(", `+
		`")), Passes: r.passes.length }))`)
	for _, violation := range found.Violations {
		t.Errorf("accessibility: got violation %s, want none", violation)
	}
	if found.Passes < 20 {
		t.Errorf("passed accessibility checks: got %d, want at least 20", found.Passes)
	}
}
