package rules_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

func TestParsePath(t *testing.T) {
	for encoded, want := range map[string]string{
		"/": "/", "": "/", "//": "/", "/a": "/a", "a": "/a", "/a/": "/a", "/a//b": "/a/b", "//a": "/a", "/a/b/": "/a/b",
		"/%61": "/a", "/a%2fb": "/a/b", "/%2561": "/%61", "/a%00b": "/a\x00b", "/%ff": "/\xff", "/100%25": "/100%",
		"/./a": "/a", "/a/.": "/a", "/a/./b": "/a/b", "/a/../b": "/b", "/../..": "/", "/a/..": "/", "/%2e%2e/a": "/a", "/a/%2e%2E/b": "/b", "/.a": "/.a", "/a.b": "/a.b", "/...": "/...",
		"/A": "/A", "/a b": "/a b", "/a?b": "/a?b", "/a+b": "/a+b", "/a;b=c": "/a;b=c", `/a\b`: `/a\b`, "/a%5cb": `/a\b`, "*": "/*",
	} {
		if got, err := rules.ParsePath(encoded, ""); err != nil || got.String() != want {
			t.Errorf("%q: got %q, %v; want %q", encoded, got, err, want)
		}
	}
}

// A path is malformed if it contains a % without two hexadecimal digits after it. Programs interpret
// such a path differently.
func TestParsePath_malformed(t *testing.T) {
	for _, encoded := range []string{"/%", "/%6", "/%zz", "/a%zz/../b", "/%u0061", "/%%61", "/a/%2", "/v1/%", "/%2%35"} {
		if got, err := rules.ParsePath(encoded, "/v1"); !errors.Is(err, rules.ErrMalformedPath) || got != (rules.Path{}) {
			t.Errorf("%q: got %q, %v; want ErrMalformedPath", encoded, got, err)
		}
	}
}

// DecodedPath does not decode a path a second time.
func TestDecodedPath(t *testing.T) {
	for decoded, want := range map[string]string{
		"/a": "/a", "/%61": "/%61", "/100%": "/100%", "/%zz/../b": "/b", "/%2f": "/%2f", "//a/./b/": "/a/b", "": "/",
	} {
		if got := rules.DecodedPath(decoded, ""); got.String() != want {
			t.Errorf("%q: got %q, want %q", decoded, got, want)
		}
	}
}

func TestParsePath_prefix(t *testing.T) {
	for encoded, want := range map[string]string{
		"/v1/a": "/a", "/v1": "/", "/v1/": "/", "//v1//a": "/a", "/%761/a": "/a", "/v1/v1/a": "/v1/a", "/v1/../v1/a": "/a",
		"/v10/a": "/v10/a", "/v1a": "/v1a", "/a": "/a", "/V1/a": "/V1/a", "/a/v1/b": "/a/v1/b", "/": "/",
	} {
		parsed, err := rules.ParsePath(encoded, "/v1")
		if err != nil || parsed.String() != want {
			t.Errorf("%q: got %q, %v; want %q", encoded, parsed, err, want)
		}
		decoded, err := url.PathUnescape(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.DecodedPath(decoded, "/v1"); got != parsed && got.String() != want {
			t.Errorf("%q, decoded: got %q, want %q", encoded, got, want)
		}
	}
}

// The zero Path is the root. Rules match it like "/".
func TestPath_zero(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/","limits":{"*":{"requests":1,"window":"1m"}}}]}`)
	for _, root := range []rules.Path{{}, rules.MustParsePath("/"), rules.DecodedPath("/v1", "/v1")} {
		if got := r.Charges(nil, http.MethodGet, root, alice); root.String() != "/" || len(got) != 1 {
			t.Errorf("%q: got charges %v, want one charge on the path /", root, got)
		}
	}
}

// FuzzPath searches for a path with two meanings. The router must get the same path as the rules, and an
// http.ServeMux must not change a path in normal form.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "//a/%73/../b/", "/.", "/%2f%2e%2e", "/%2541", "/%25%34%31", "/a%", "/%zz%2F..%2F..%2Fq", "/a%00\xff", "/v1/%2e", "/a;b+c\\d"} {
		f.Add(seed, "/v1")
	}
	f.Fuzz(func(t *testing.T, sent, prefix string) {
		if prefix = rules.DecodedPath(prefix, "").String(); prefix == "/" {
			prefix = ""
		}
		paths := []rules.Path{rules.DecodedPath(sent, prefix)}
		parsed, err := rules.ParsePath(sent, prefix)
		if _, malformed := url.PathUnescape(sent); (err != nil) != (malformed != nil) {
			t.Errorf("%q: got error %v, want an error only if net/url returns one: %v", sent, err, malformed)
		}
		if err == nil {
			paths = append(paths, parsed)
		}
		for _, p := range paths {
			normal := p.String()
			if !strings.HasPrefix(normal, "/") || strings.Contains(normal+"/", "//") && normal != "/" || strings.Contains(normal+"/", "/./") || strings.Contains(normal+"/", "/../") {
				t.Errorf("%q: got %q, want a normal path", sent, normal)
			}
			u := p.URL("")
			if again := rules.URLPath(u); again.String() != normal {
				t.Errorf("%q: got %q, but %q from its URL; want the same path", sent, normal, again)
			}
			if again, err := url.ParseRequestURI(u.RequestURI()); err != nil || rules.URLPath(again).String() != normal {
				t.Errorf("%q: got %q, but %v, %v from its request line; want the same path", sent, normal, again, err)
			}
		}
	})
}
