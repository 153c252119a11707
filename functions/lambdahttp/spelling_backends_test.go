package lambdahttp_test

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

// backEnd is a router, and the fields of a document that describe how it reads paths.
type backEnd struct {
	routes   router
	settings string
	plain    func(path string) string // removes from a path what the settings ignore
}

// backEnds start the routers. Those of Rails, Tomcat and IIS are in Go.
var backEnds = map[string]func(*testing.T) backEnd{
	"ServeMux": func(*testing.T) backEnd { return backEnd{muxRoutes, "", identity} },
	"Express": func(t *testing.T) backEnd {
		modules := storetest.Must(filepath.Abs("../../infra/examples/express/node_modules"))
		if _, err := os.Stat(modules); err != nil {
			storetest.Unfetched(t, "node", "make -C local/lab modules", err)
		}
		return backEnd{program("node", "testdata/express.js", modules), `"ignore_case":true,`, strings.ToLower}
	},
	"Flask":     func(t *testing.T) backEnd { return inPython(t, "testdata/flask_routes.py") },
	"Starlette": func(t *testing.T) backEnd { return inPython(t, "testdata/asgi_routes.py", "Starlette") },
	"FastAPI":   func(t *testing.T) backEnd { return inPython(t, "testdata/asgi_routes.py", "FastAPI") },
	"class URL": func(t *testing.T) backEnd {
		storetest.Program(t, "node")
		return backEnd{program("node", "testdata/url.js"), `"backslash_is_slash":true,`, slashes.Replace}
	},
	"Rails": func(*testing.T) backEnd {
		return backEnd{readBy(identity, identity, `(?:\.[^/.?]+)?`), `"ignore_suffix":true,`, identity}
	},
	"Tomcat": func(*testing.T) backEnd {
		return backEnd{readBy(withoutParameters, identity, ""), `"ignore_parameters":true,`, withoutParameters}
	},
	"IIS": func(*testing.T) backEnd {
		plain := func(path string) string { return strings.ToLower(slashes.Replace(path)) }
		return backEnd{readBy(identity, plain, ""), `"ignore_case":true,"backslash_is_slash":true,`, plain}
	},
}

func inPython(t *testing.T, command ...string) backEnd {
	t.Helper()
	python := filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python")
	return backEnd{program(append([]string{python}, command...)...), "", identity}
}

func identity(path string) string { return path }

var slashes = strings.NewReplacer(`\`, "/")

var parameters = regexp.MustCompile(`;[^/]*`)

func withoutParameters(path string) string { return parameters.ReplaceAllString(path, "") }

// routed matches the routes of readBy. The group that matches is the name of the route.
const routed = `(?s)^/(?:(?P<admin>admin)|(?P<item>items/[^/]+?)|(?P<part>items/[^/]+/parts/[^/]+?)|(?P<files>files/.+?)|(?P<report>[^` +
	`/]+/report)|(?P<health>health))`

// readBy returns a router that applies encoded to a path, decodes it, applies decoded, and drops empty segments. Its
// routes end with format.
func readBy(encoded, decoded func(path string) string, format string) router {
	pattern := regexp.MustCompile(routed + format + "$")
	return func(_ *testing.T, _ delivery, paths []string) (names []string) {
		for _, sent := range paths {
			name := ""
			if text, err := url.PathUnescape(encoded(sent)); err == nil {
				for i, segments := range pattern.FindStringSubmatch(path.Clean(decoded(text))) {
					if segments != "" {
						name = pattern.SubexpNames()[i]
					}
				}
			}
			names = append(names, name)
		}
		return names
	}
}
