package lambdahttp_test

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

// backEnd is a router, and the fields of a document that describe how it reads paths.
type backEnd struct {
	routes   router
	settings string
	plain    func(path string) string // removes from a path what the settings ignore
	command  []string                 // serves the routes on a port of loopback
}

// backEnds start the routers. Those of Rails, Tomcat and IIS are in Go.
var backEnds = map[string]func(*testing.T) backEnd{
	"ServeMux": func(*testing.T) backEnd { return backEnd{routes: muxRoutes, plain: identity} },
	"Express": func(t *testing.T) backEnd {
		modules := storetest.Must(filepath.Abs("../../infra/examples/express/node_modules"))
		if _, err := os.Stat(modules); err != nil {
			storetest.Unfetched(t, "node", "make -C local/lab modules", err)
		}
		return inProgram(`"ignore_case":true,`, strings.ToLower, "node", "testdata/express.js", modules)
	},
	"Fastify": func(t *testing.T) backEnd {
		storetest.Program(t, "node")
		return backEnd{plain: identity, command: []string{"node", "testdata/fastify.js", storetest.Server(t, "clients", "WEIR_CLIENTS")}}
	},
	"Flask":     func(t *testing.T) backEnd { return inPython(t, "testdata/flask_routes.py") },
	"Starlette": func(t *testing.T) backEnd { return inPython(t, "testdata/asgi_routes.py", "Starlette") },
	"FastAPI":   func(t *testing.T) backEnd { return inPython(t, "testdata/asgi_routes.py", "FastAPI") },
	"class URL": func(t *testing.T) backEnd {
		storetest.Program(t, "node")
		return inProgram(`"backslash_is_slash":true,`, slashes.Replace, "node", "testdata/url.js")
	},
	"Rails": func(*testing.T) backEnd {
		return backEnd{routes: readBy(identity, identity, `(?:\.[^/.?]+)?`), settings: `"ignore_suffix":true,`, plain: identity}
	},
	"Tomcat": func(*testing.T) backEnd {
		return backEnd{routes: readBy(withoutParameters, identity, ""), settings: `"ignore_parameters":true,`, plain: withoutParameters}
	},
	"IIS": func(*testing.T) backEnd {
		plain := func(path string) string { return strings.ToLower(slashes.Replace(path)) }
		return backEnd{routes: readBy(identity, plain, ""), settings: `"ignore_case":true,"backslash_is_slash":true,`, plain: plain}
	},
}

func inPython(t *testing.T, command ...string) backEnd {
	t.Helper()
	python := filepath.Join(storetest.Server(t, "tools", "WEIR_TOOLS"), "python")
	return inProgram("", identity, append([]string{python}, command...)...)
}

// inProgram returns a router in a program that reads events. With the argument serve, it listens on a port.
func inProgram(settings string, plain func(string) string, command ...string) backEnd {
	return backEnd{program(command...), settings, plain, append(slices.Clip(command), "serve")}
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
