package sample

import (
	"encoding/json"
	"io"
	"net/http"
	"os"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// maxBody is the size, in bytes, of the largest request body that the API reads.
const maxBody = 1 << 20

// New returns the sample API. Replace it with your own http.Handler. Its routes contain no code for
// limits, because the Environment enforces rules.json before it calls them. Only the login calls the
// limiter.
//
// make run has the routes of this Mux. After a change of a route, run make golden, which takes seconds: a deployment has only
// the routes of the templates that it writes.
//
// The variable SAMPLE_LOGIN is the user:password of the login. Without it, no login succeeds.
func New(e *lambdahttp.Environment) http.Handler { return WithLogin(e, os.Getenv("SAMPLE_LOGIN")) }

// WithLogin is New with the user:password of the login.
func WithLogin(e *lambdahttp.Environment, valid string) http.Handler {
	api := new(lambdahttp.Mux)
	api.HandleFunc("GET /api/v1/search", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"query": r.URL.Query().Get("q"), "results": []string{}})
	})
	api.HandleFunc("POST /api/v1/data", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			reply(w, http.StatusRequestEntityTooLarge, map[string]any{"error": "body_too_large"})
			return
		}
		reply(w, http.StatusCreated, map[string]any{"bytes": n})
	})
	api.Handle("POST /api/v1/login", login{e, valid})
	api.HandleFunc("GET /api/v1/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id")})
	})
	api.ServeMux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		write(w, http.StatusNotFound, httplimit.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound,
			Error: "not_found", Message: "No resource at this path with this method.",
		})
	})
	return api
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, value)
}

func write(w http.ResponseWriter, status int, value any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
