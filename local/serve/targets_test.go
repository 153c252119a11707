package serve

import (
	"slices"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

// targets returns one endpoint for each route that has a rule, and no other.
func TestTargets(t *testing.T) {
	routes := []gateway.Route{{Method: "GET", Path: "/a/{id}"}, {Method: "ANY", Path: "/g/{rest+}"}, {Method: "OPTIONS", Path: "/a/{id}"},
		{Method: "POST", Path: "/"}}
	for _, c := range []struct {
		rule endpoint
		want []target
	}{
		{endpoint{"/a/{x}", "GET"}, []target{{Method: "GET", Path: "/a/1"}}},
		{endpoint{"/g/b/*", "PUT"}, []target{{Method: "PUT", Path: "/g/b/1"}}},
		{endpoint{"*", ""}, []target{{Method: "GET", Path: "/a/1"}, {Method: "GET", Path: "/g/1"}, {Method: "POST", Path: "/"}}},
		{endpoint{"/nowhere", ""}, nil},
	} {
		if got := targets([]endpoint{c.rule, c.rule}, routes); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.rule, got, c.want)
		}
	}
	if got := targets([]endpoint{{"/x/{y}/z", "DELETE"}}, []gateway.Route{{Method: "ANY", Path: "$default"}}); !slices.Equal(got,
		[]target{{Method: "DELETE", Path: "/x/1/z"}}) {
		t.Errorf("default route: got %v, want DELETE /x/1/z", got)
	}
}
