// Package api is the API behind the limits. Replace its routes by yours.
package api

import (
	"encoding/json"
	"net/http"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// New returns the API. Its routes are those of `make run` and of the deployed API. The handlers contain no code for
// limits: functions/rules.json has them.
func New(*lambdahttp.Environment) http.Handler {
	mux := new(lambdahttp.Mux)
	mux.HandleFunc("GET /orders/{id}", get)
	mux.HandleFunc("POST /orders", create)
	return mux
}

func get(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, map[string]string{"id": r.PathValue("id")})
}

func create(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusCreated, map[string]string{"id": "7"})
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
