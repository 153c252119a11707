package console_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/serve"
)

// newRegions starts three regions, and returns the REST API of each one.
func newRegions(t *testing.T) (*commandtest.Clock, []*httptest.Server) {
	t.Helper()
	rules, err := filepath.Abs("../../examples/regions.json")
	if err != nil {
		t.Fatal(err)
	}
	checkouttest.Scratch(t)
	var clock commandtest.Clock
	clock.Set(time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC))
	servers, err := serve.New(serve.Options{API: sample.New, Console: console.New, Rules: rules, Store: serve.Memory, Regions: 3,
		Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now, Namespace: checkouttest.Namespace()}).EachRegion()
	if err != nil {
		t.Fatal(err)
	}
	var list []*httptest.Server
	for _, s := range servers {
		t.Cleanup(s.Close)
		rest, _ := commandtest.Serve(t, func(urls []string) ([]http.Handler, error) { return s.Open(t.Context(), urls) })
		list = append(list, rest)
	}
	return &clock, list
}

// The page of the regions shows shares and transfers, and a switch cuts a region off and connects it.
func TestConsole_regions(t *testing.T) {
	axe, dir := axe(t), screenshots(t) // before newRegions, which works in a scratch folder
	clock, regions := newRegions(t)
	send := func(region, requests int) {
		for range requests {
			commandtest.Send(t, http.MethodGet, regions[region].URL+"/api/v1/search", "")
		}
	}
	send(0, 92)
	b := openConsole(t, regions[0], "regions", 1280, 900)
	b.status("regions", "All regions reach each other.")
	b.awaitRows("shares",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-1 | 30 | got 60 | 90 | 0",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-2 | 30 | gave 30 | 0 | 0",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-3 | 30 | gave 30 | 0 | 0")
	b.await(`/requests moved/.test(document.querySelector("#transfers tbody").textContent)`)

	b.open(regions[0], "?caller=ip:127.0.0.1")
	b.status("caller", "ip:127.0.0.1 uses 1 of 2 limits; 1 refuses now.")
	b.awaitRows("caller", "search | all tiers | GET /api/v1/search | 90 in 1 min | 0 of 90 left here | 12:01:00 | 12:01:00")
	b.open(regions[0], "regions")
	b.awaitRows("regions",
		"region-1 | "+regions[0].URL+" | connected | Cut off",
		"region-2 | "+regions[1].URL+" | connected | Cut off",
		"region-3 | "+regions[2].URL+" | connected | Cut off")

	const last = `#regions tr:last-child button`
	b.do(chromedp.Click(last))
	b.status("regions", "region-3: cut off from the other regions.")
	b.await(`document.activeElement.textContent === "Connect"`) // the focus stays on the switch
	clock.Wait(time.Minute)
	send(2, 35)
	b.open(regions[2], "regions?caller=ip:127.0.0.1")
	b.awaitRows("shares",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-1 | 30 | none | 0 | 30",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-2 | 30 | none | 0 | 30",
		"ip:127.0.0.1 | search, GET /api/v1/search | region-3 | 30 | none | 30 | 0")
	b.await(`/no answer of region-[12]/.test(document.querySelector("#transfers tbody").textContent)`)
	b.do(chromedp.Click(last))
	b.status("regions", "All regions reach each other.")
	evaluate[bool](b, axe+`; true`)
	for _, window := range windows {
		b.do(chromedp.EmulateViewport(window.width, window.height))
		b.await(`document.getAnimations().length === 0`)
		b.picture(dir, "regions "+window.name)
		b.fits(t, window.width)
		b.accessible(t)
	}
}
