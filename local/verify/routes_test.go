package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/verify"
)

// The routes of a list have the values of their parameters.
func TestParseRoutes(t *testing.T) {
	routes, err := verify.ParseRoutes("# the API\nGET /items/{id}\n\nPOST /files/{path+}?x={id} # a comment\nDELETE /{other}/x\n",
		map[string]string{"id": "a b/c", "path": "x/y z"})
	var got []string
	for _, r := range routes {
		got = append(got, r.String()+" "+r.Path)
	}
	if want := []string{"GET /items/{id} /items/a%20b%2Fc", "POST /files/{path+}?x={id} /files/x/y%20z?x=a%20b%2Fc", "DELETE /{other}/x "}; err !=
		nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	for list, want := range map[string]string{
		"":               "got no route",
		"openapi: 3.0.3": `got the line "openapi: 3.0.3", want a route such as GET /items/{id}; infra/VERIFY.md makes the list`,
		"get /items":     `got the line "get /items"`,
		"GET items":      `got the line "GET items"`,
	} {
		if routes, err := verify.ParseRoutes(list, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v, want %s", list, routes, err, want)
		}
	}
}
