package console_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/serve"
)

// patience is the longest time to wait for a browser or for a condition.
const patience = 30 * time.Second

// tab is a page in a browser. The test fails if the browser reports an error of a script, an error on
// its console, or a violation of the Content-Security-Policy.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	expected   string // an error of the browser that contains this text does not fail the test
}

var closeBrowser = func() {}

// TestMain closes the browser after the tests, which share it.
func TestMain(m *testing.M) {
	m.Run()
	closeBrowser()
}

// browser starts the browser once and returns its context.
var browser = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(os.Getenv("WEIR_BROWSER")))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocated)
	closeBrowser = func() {
		_ = chromedp.Cancel(ctx) // Cancel waits until the browser has ended
		cancel()
	}
	return ctx, chromedp.Do(ctx)
})

// openTab opens an empty page of this size. It shares no storage with pages of other tests.
func openTab(t *testing.T, width, height int64) *tab {
	t.Helper()
	storetest.Server(t, "browser", "WEIR_BROWSER")
	parent, err := browser()
	if err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, complaint := range b.complaints {
			t.Errorf("browser error: got %q, want none", complaint)
		}
	})
	b.do(chromedp.EmulateViewport(width, height))
	return b
}

func (b *tab) note(event any) {
	var complaint string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		complaint = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		complaint = fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console.%s", e.Type)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expected != "" && strings.Contains(complaint, b.expected) {
		return
	}
	b.complaints = append(b.complaints, complaint)
}

func (b *tab) expect(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = part
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of a JavaScript expression. If the value is a promise, evaluate awaits it.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

func (b *tab) await(expression string) {
	b.t.Helper()
	evaluate[bool](b, `new Promise((done) => { const look = async () => await (`+expression+
		`) ? done(true) : setTimeout(look, 10); look(); })`)
}

// media sets a media feature of the browser, such as prefers-color-scheme.
func (b *tab) media(feature, value string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
		return err
	}))
}

// The pages of the console.
const (
	limitsPage = ""
	demosPage  = "demos"
)

// openConsole opens a page of the console and waits until it shows its contents.
func openConsole(t *testing.T, api *httptest.Server, page string, width, height int64) *tab {
	t.Helper()
	b := openTab(t, width, height)
	b.open(api, page)
	return b
}

func (b *tab) open(api *httptest.Server, page string) {
	b.t.Helper()
	b.do(chromedp.Navigate(api.URL + serve.SitePath + page))
	b.await(`document.documentElement.dataset.ready !== undefined`)
}

func screenshots(t *testing.T) string {
	t.Helper()
	c, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := c.Path(".weir", "screenshots")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// screenshot makes TestConsole_sizes write the picture for the README (-args -screenshot).
var screenshot = flag.Bool("screenshot", false, "write local/console/console.png")

func (b *tab) view(file string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, image, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) picture(dir, name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	// The page's header stays on the screen while the page scrolls, so scroll to the top.
	b.do(chromedp.Evaluate[chromedp.Void](`scrollTo({ top: 0, behavior: "instant" })`))
	image, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".png")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
