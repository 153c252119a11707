package console

import (
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/console/scenario"
	"github.com/weir-limits/weir/local/operator"
)

// Path is the prefix of all paths of a Console.
const Path = "/_weir/"

// policy is the Content-Security-Policy of the pages. A page loads files only from its own origin,
// has no inline scripts or styles, and cannot be shown in a frame of another site.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

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

// Options are the options of a Console.
type Options struct {
	// APIs are the APIs to which the page can send requests.
	APIs []API
	// Rules returns the rules in force, and Reload their state.
	Rules  func() *rules.Rules
	Reload func() Reload
	Clock  func() time.Time
	// Source is a text that names the origin of the rules, and Store one that names the store. The
	// page shows both.
	Source, Store string
	// Regions reports that several regions share limits. The page of the regions exists only then.
	Regions bool
	// Upstream reports that the only API is a server of the user.
	Upstream bool
	// Token returns a token for a user and a tier that the APIs accept.
	Token func(user, tier string) (string, error)
}

// Reload is the state of the rules after the last reload.
type Reload struct {
	Since   time.Time // when the rules in force were loaded
	Problem error     // the reason why the document at the source is not in force; nil if it is
}

// API is an API to which the page can send requests.
type API struct {
	Kind string // REST or HTTP
	URL  string // base URL without a path
	// Endpoints returns the endpoints that the rules in force apply to. The page offers them. It can replace the path.
	Endpoints func() []Endpoint
}

// Endpoint is a method and a path of an API.
type Endpoint struct{ Method, Path string }

// Console serves the pages and their API below Path. It is safe for concurrent use. Make one
// with New.
type Console struct {
	Options

	mux  *http.ServeMux
	runs chan struct{} // has one element for each active run
}

// New returns a Console.
func New(o Options) *Console {
	c := &Console{Options: o, mux: http.NewServeMux(), runs: make(chan struct{}, MaxRuns)}
	c.mux.HandleFunc("GET "+Path+"{$}", c.page("limits", "Limits"))
	c.mux.HandleFunc("GET "+Path+"requests", c.page("requests", "Requests"))
	c.mux.HandleFunc("GET "+Path+"demos", c.page("demos", "Demonstrations"))
	if c.Regions {
		c.mux.HandleFunc("GET "+Path+"regions", c.page("regions", "Regions"))
	}
	c.mux.Handle("GET "+Path, http.StripPrefix(Path, http.FileServerFS(files)))
	c.mux.HandleFunc("GET "+Path+"state", c.state)
	c.mux.HandleFunc("GET "+Path+"limits", c.limits)
	c.mux.HandleFunc("GET "+Path+"demo/{name}", demo)
	c.mux.HandleFunc("POST "+Path+"requests", c.send)
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
			"Title": title, "Console": c, "Demos": demos, "Rules": c.Rules(), "MaxCount": MaxCount, "MaxRate": MaxRate, "MaxUser": maxUser,
		})
	}
}

// state serves the version and the age of the rules, which can change while a page is open.
func (c *Console) state(w http.ResponseWriter, _ *http.Request) {
	reload, version := c.Reload(), c.Rules().Version()
	state := map[string]any{"version": version, "rules": command.RulesVersion(version), "since": reload.Since.UTC(), "ageSeconds": int64(c.Clock().Sub(reload.Since) / time.Second)}
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
