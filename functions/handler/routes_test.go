package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
)

var update = flag.Bool("update", false, "write infra/stack/routes.txt")

// The stack in infra has the routes of the API.
func TestRoutes(t *testing.T) {
	const file = "../../infra/stack/routes.txt"
	api, ok := sample.New(&lambdahttp.Environment{}).(interface{ Routes() []string })
	if !ok {
		t.Skip("the API is no lambdahttp.Mux, so infra/stack/routes.txt is written by hand")
	}
	want := strings.Join(api.Routes(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s: got %q, error %v, want %q; run make golden", file, got, err, want)
	}
}
