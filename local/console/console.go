package console

import (
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/console/scenario"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/serve"
)

// policy is the Content-Security-Policy of the pages. A page loads files only from its own origin,
// has no inline scripts or styles, and cannot be shown in a frame of another site.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'"

//go:embed pages web
var web embed.FS

// files are the scripts and style sheets of the pages.
var files = func() fs.FS {
	sub, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // never happens: the folder is embedded
	}
	return sub
}()

var pages = template.Must(template.ParseFS(web, "pages/*.html"))

// Console serves the pages and their API below Path. It is safe for concurrent use. Make one
// with New.
type Console struct {
	serve.Page

	mux *http.ServeMux
}

// New returns a Console. It is the value of [serve.Options].Console.
func New(p serve.Page) http.Handler {
	c := &Console{Page: p, mux: http.NewServeMux()}
	c.mux.HandleFunc("GET "+serve.SitePath+"{$}", c.page("limits", "Limits"))
	c.mux.HandleFunc("GET "+serve.SitePath+"demos", c.page("demos", "Demonstrations"))
	c.mux.Handle("GET "+serve.SitePath, http.StripPrefix(serve.SitePath, http.FileServerFS(files)))
	c.mux.HandleFunc("GET "+serve.SitePath+"state", c.state)
	c.mux.HandleFunc("GET "+serve.SitePath+"limits", c.limits)
	c.mux.HandleFunc("GET "+serve.SitePath+"demo/{name}", demo)
	return c
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	c.mux.ServeHTTP(w, r)
}

// page returns a handler that serves an HTML page.
func (c *Console) page(name, title string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		demos := map[string][]scenario.Parameter{}
		for _, s := range scenario.All() {
			demos[s.Name()] = s.Parameters()
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = pages.ExecuteTemplate(w, name+".html", map[string]any{ // an error means that the browser has disconnected
			"Title": title, "Console": c, "Demos": demos, "Rules": c.Rules(),
		})
	}
}

// state serves the version and the age of the rules, which can change while a page is open.
func (c *Console) state(w http.ResponseWriter, _ *http.Request) {
	reload, version := c.Reload(), c.Rules().Version()
	state := map[string]any{"version": version, "rules": command.RulesVersion(version), "since": reload.Since.UTC(),
		"ageSeconds": int64(c.Clock().Sub(reload.Since) / time.Second)}
	if reload.Problem != nil {
		state["problem"] = reload.Problem.Error()
	}
	reply(w, state)
}

func (c *Console) limits(w http.ResponseWriter, _ *http.Request) {
	reply(w, operator.Limits(c.Rules(), c.Clock()))
}

func demo(w http.ResponseWriter, r *http.Request) {
	for _, s := range scenario.All() {
		if s.Name() != r.PathValue("name") {
			continue
		}
		err := scenario.Set(s, r.URL.Query())
		var result any
		if err == nil {
			result, err = s.Play()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, result)
		return
	}
	http.NotFound(w, r)
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // an error means that the browser has disconnected
}
