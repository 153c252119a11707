package console_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/serve"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// open starts a console.
func open(t *testing.T) *httptest.Server {
	t.Helper()
	parsed, err := rules.Parse([]byte(`{"version":7,"rules":[{"endpoint":"/a","limits":{"free":{"requests":1,"window":"1m"},`+
		`"paid":{"requests":2,"window":"1m"}}}]}`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(console.New(serve.Page{
		Rules: func() *rules.Rules { return parsed }, Source: "<rules>.json", Store: "memory",
		Reload: func() serve.Reload { return serve.Reload{Since: noon, Problem: errors.New("line 1: mistake")} },
		Clock:  func() time.Time { return noon.Add(90 * time.Second) },
	}))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, r)
}

func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// The pages and their files have a Content-Security-Policy that forbids inline scripts and styles. The
// pages contain neither.
func TestPage(t *testing.T) {
	s := open(t)
	for path, media := range map[string]string{"": "text/html; charset=utf-8", "demos": "text/html; charset=utf-8",
		"limits":    "application/json",
		"limits.js": "text/javascript; charset=utf-8", "console.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
		"uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8", "state": "application/json"} {
		r, body := get(t, s.URL+serve.SitePath+path)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != media || body == "" {
			t.Errorf("%q: got %s, header %v and %d bytes, want 200, the media type %s and a body", path, r.Status, r.Header, len(body), media)
		}
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%q: got the header %v, want a strict Content-Security-Policy and Cache-Control: no-store", path, r.Header)
		}
	}
	for path, wants := range map[string][]string{
		"":       {`aria-current="page">Limits<`, "&lt;rules&gt;.json", `<script type="module" src="limits.js">`},
		"demos":  {`aria-current="page">Demonstrations<`, `name="intervalMs" type="number" inputmode="numeric" min="0" max="1000" value="400"`},
		"state":  {`{"ageSeconds":90,"problem":"line 1: mistake","rules":"version 7","since":"2026-11-21T12:00:00Z","version":7}`},
		"limits": {`"name":"a","path":"rules[0].limits.free","tier":"free","rule":"/a"`, `"requests":2,"windowSeconds":60`},
	} {
		_, page := get(t, s.URL+serve.SitePath+path)
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%q: got no %s in %s, want it", path, want, page)
			}
		}
		for _, forbidden := range []string{"<script>", "<style", "style=", "onclick=", "http://", "https://"} {
			if strings.Contains(page, forbidden) {
				t.Errorf("%q: got %s, want none", path, forbidden)
			}
		}
	}
	for _, path := range []string{"nothing", "../console.go", "demo/nothing", "limits.html", "pages/limits.html"} {
		if r, _ := get(t, s.URL+serve.SitePath+path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %s, want 404", path, r.Status)
		}
	}
}

// The console plays a demonstration by name with the given parameters. It rejects an unknown name
// or parameter.
func TestDemo(t *testing.T) {
	s := open(t)
	var result struct {
		Runs []struct {
			Algorithm string
			Admitted  int
		}
	}
	r, body := get(t, s.URL+serve.SitePath+"demo/boundary?limit=20")
	if err := json.Unmarshal([]byte(body), &result); err != nil || r.StatusCode != http.StatusOK || len(result.Runs) != 3 ||
		result.Runs[0].Algorithm != "fixed_window" || result.Runs[0].Admitted != 40 || result.Runs[1].Admitted != 20 {
		t.Errorf("boundary: got %s %+v (error %v), want 200 and 3 runs that admit 40, 20 and 20", r.Status, result, err)
	}
	for query, want := range map[string]string{
		"demo/boundary?limit=1e9": `limit: got "1e9", want 1 to 200`,
		"demo/sync?intervalMs=5":  "intervalMs: got 5, want 0, or 10 to 1000",
		"demo/bucket?speed=1":     `"speed": unknown parameter (want capacity, rate, burst, offered, seconds)`,
		"demo/algorithms?rate=50&capacity=49": "capacity: got 49, want at least the rate 50, so that a window (capacity/rate) lasts a " +
			"second or longer",
		"demo/bucket?" + strings.Repeat("a", 5000): `"` + strings.Repeat("a", 40) +
			`": unknown parameter (want capacity, rate, burst, offered, seconds)`,
	} {
		if r, body := get(t, s.URL+serve.SitePath+query); r.StatusCode != http.StatusBadRequest || body != want+"\n" {
			t.Errorf("%.60s: got %s %q, want %q", query, r.Status, body, want)
		}
	}
}

// The copy of uPlot in the repository equals the pinned npm package, whose checksum npm has
// verified.
func TestConsole_vendored(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity string }
	}
	document, err := os.ReadFile("package-lock.json")
	if err == nil {
		err = json.Unmarshal(document, &lock)
	}
	pinned := lock.Packages["node_modules/uplot"]
	if err != nil || !strings.HasPrefix(pinned.Integrity, "sha512-") || pinned.Resolved != "" {
		t.Fatalf("package-lock.json: got error %v and package %+v, want a sha512 digest and no address", err, pinned)
	}
	library, err := os.ReadFile("web/uplot/uPlot.iife.min.js")
	if err != nil || !bytes.Contains(library[:100], []byte("(v"+pinned.Version+")")) {
		t.Errorf("web/uplot: got a different version, want %s; run make vendor (%v)", pinned.Version, err)
	}
	for _, file := range []string{"dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"} {
		want, err := os.ReadFile(filepath.Join("node_modules/uplot", file))
		if err != nil {
			storetest.Unfetched(t, "node", "make -C local/lab modules", err)
		}
		if got, err := os.ReadFile(filepath.Join("web/uplot", filepath.Base(file))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got a file that differs from the package; run make vendor (%v)", file, err)
		}
	}
}

// The README's screenshot is small enough for a repository. Renew it with: go -C
// local/lab test -run TestConsole_sizes ./console -args -screenshot
func TestScreenshot(t *testing.T) {
	file, err := os.Open("console.png")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if picture, err := png.DecodeConfig(file); err != nil || picture.Width < 1000 || info.Size() > 200_000 {
		t.Errorf("screenshot: got %+v of %d bytes (error %v), want a width of at least 1000 and at most 200000 bytes", picture, info.Size(), err)
	}
}
