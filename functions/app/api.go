package app

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// maxBody is the longest body that the sample API reads.
const maxBody = 1 << 20

// NewAPI returns the sample API, the place of your own. It knows nothing of limits, but
// for its login.
func NewAPI(e *Environment) http.Handler {
	api := http.NewServeMux()
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
	api.HandleFunc("GET /api/v1/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id")})
	})
	api.HandleFunc("POST /api/v1/login", e.login)
	api.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		write(w, http.StatusNotFound, httplimit.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound,
			Error: "not_found", Message: "There is nothing at this path, or not with this method.",
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
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
