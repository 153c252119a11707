package serve

import (
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

// The greeting suggests a GET request that has a rule and a route.
func TestEndpoint_sample(t *testing.T) {
	routes := []gateway.Route{{Method: "GET", Path: "/a/{id}"}, {Method: "ANY", Path: "/g/{rest+}"}, {Method: "OPTIONS", Path: "/a/{id}"},
		{Method: "POST", Path: "/"}}
	for e, want := range map[endpoint]string{{"/a/{x}", "GET"}: "/a/1", {"/g/b/*", ""}: "/g/b/1", {"*", ""}: "/a/1", {"/g/b/*", "PUT"}: "",
		{"/", ""}: "", {"/nowhere", ""}: ""} {
		if got, ok := e.sample(routes); got != want || ok != (want != "") {
			t.Errorf("%v: got %s, %t, want %q", e, got, ok, want)
		}
	}
	for e, want := range map[endpoint]string{{"/x/{y}/z", ""}: "/x/1/z", {"*", ""}: "/"} {
		if got, _ := e.sample([]gateway.Route{{Method: "ANY", Path: gateway.DefaultRoute}}); got != want {
			t.Errorf("%v of the default route: got %s, want %s", e, got, want)
		}
	}
}
