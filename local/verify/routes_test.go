package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/verify"
)

// The routes of a list or of an OpenAPI document have the values of their parameters. Given values replace those of the
// document.
func TestParseRoutes(t *testing.T) {
	values := map[string]string{"id": "a b/c", "path": "x/y z"}
	for name, c := range map[string]struct {
		document string
		values   map[string]string
		want     []string // method, pattern and path
	}{
		"a list": {"# the API\nGET /items/{id}\n\nPOST /files/{path+} # a comment\nDELETE /{other}/x\n", values,
			[]string{"GET /items/{id} /items/a%20b%2Fc", "POST /files/{path+} /files/x/y%20z", "DELETE /{other}/x "}},
		"examples": {`{"openapi":"3.0.3","paths":{"/{a}/{b}/{c}/{d}/{e}/{f}":{"get":{"parameters":[
			{"name":"a","in":"path","example":1.5,"schema":{"default":2}},
			{"name":"b","in":"path","examples":{"z":{"value":"no"},"y":{"value":"b"}}},
			{"name":"c","in":"path","schema":{"example":true,"default":"no"}},
			{"name":"d","in":"path","schema":{"examples":["d"],"enum":["no"]}},
			{"name":"e","in":"path","schema":{"enum":["e","no"]}},
			{"name":"f","in":"path","schema":{"default":1000000000}}]}}}}`, nil,
			[]string{"GET /{a}/{b}/{c}/{d}/{e}/{f} /1.5/b/true/d/e/1000000000"}},
		"given values": {`{"paths":{"/items/{id}":{"get":{"parameters":[{"name":"id","in":"path","example":7}]}}}}`, values,
			[]string{"GET /items/{id} /items/a%20b%2Fc"}},
		"no value": {`{"paths":{"/items/{id}":{"get":{"parameters":[{"name":"id","in":"path","schema":{"type":"string"}}]}}}}`, nil,
			[]string{"GET /items/{id} "}},
		"references and parameters of the path": {`{"paths":{"/{a}/{b}":{"parameters":[{"$ref":"#/components/parameters/A"},{"name":"b",
			"in":"path","example":"no"}],
			"put":{"parameters":[{"name":"b","in":"path","schema":{"$ref":"#/components/schemas/B"}}]}}},
			"components":{"parameters":{"A":{"name":"a","in":"path","example":"1"}},"schemas":{"B":{"default":2}}}}`, nil,
			[]string{"PUT /{a}/{b} /1/2"}},
		"query": {`{"paths":{"/s":{"get":{"parameters":[{"name":"q","in":"query","example":"a&b"},{"name":"none","in":"query"},` +
			`{"name":"h","in":"header","example":"x"}]}}}}`, nil, []string{"GET /s /s?q=a%26b"}},
		"only methods": {`{"paths":{"/s":{"head":{},"options":{},"summary":"x","post":{},"x-amazon-apigateway-any-method":{}}}}`, nil,
			[]string{"GET /s /s", "HEAD /s /s", "POST /s /s"}},
	} {
		routes, err := verify.ParseRoutes([]byte(c.document), c.values)
		var got []string
		for _, r := range routes {
			got = append(got, r.String()+" "+r.Path)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, error %v, want %q", name, got, err, c.want)
		}
	}
	for document, want := range map[string]string{
		"":                            "got no route",
		"openapi: 3.0.3\npaths: {}\n": `got the line "openapi: 3.0.3", want a route such as GET /items/{id}, or OpenAPI in JSON`,
		"get /items":                  `got the line "get /items", want a route such as GET /items/{id}`,
		"GET items":                   `got the line "GET items"`,
		"{":                           "unexpected end of JSON input",
		`{"paths":{"/a":{"get":[]}}}`: "cannot unmarshal",
		`{"info":{}}`:                 "got no route",
	} {
		if routes, err := verify.ParseRoutes([]byte(document), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v, want %s", document, routes, err, want)
		}
	}
}
