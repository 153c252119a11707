package limiter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-limits/weir/"

// TestImports proves that dependencies point inward, for every package of the module:
//
//	local -> functions -> limiter/* -> limiter -> layers -> other packages of limiter/internal -> limiter/algo
//	infra -> its own packages and those that a test of infra lists
func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		packages++
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module)
		for _, to := range fields[1:] {
			if why := forbidden(from, to); why != "" {
				t.Errorf("%s: got an import of %s, want none: %s", from, to, why)
			}
		}
	}
	if packages < 20 {
		t.Errorf("go list: got %d packages, want at least 20, all packages of the module", packages)
	}
}

// TestImports_forbidden shows that each rule of TestImports can fail.
func TestImports_forbidden(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"limiter", module + "limiter/algo", true},
		{"limiter", module + "limiter/internal/quota", true},
		{"limiter", module + "limiter/resilient", false},
		{"limiter", "github.com/redis/go-redis/v9", false},
		{"limiter", "net/http", false},
		{"limiter/internal/quota", module + "limiter/algo", true},
		{"limiter/internal/leases", module + "limiter/internal/table", true},
		{"limiter/internal/leases", module + "limiter/internal/outage", false},
		{"limiter/internal/table", module + "limiter/internal/deny", false},
		{"limiter/internal/table", module + "limiter/memstore", false},
		{"limiter/internal/quota", module + "limiter", false},
		{"limiter/algo", module + "limiter", false},
		{"limiter/algo", "golang.org/x/sync", false},
		{"limiter/redisstore", module + "limiter", true},
		{"limiter/redisstore", module + "limiter/memstore", false},
		{"limiter/redisstore", module + "limiter/internal/quota", false},
		{"limiter/redisstore", module + "functions/boot", false},
		{"limiter/redisstore", module + "infra", false},
		{"limiter/redisstore", module + "local/gateway", false},
		{"limiter/rules/live", module + "limiter/rules", true},
		{"functions/boot", module + "limiter/rules", true},
		{"functions/boot", module + "local/gateway", false},
		{"functions/boot", module + "infra", false},
		{"infra", module + "local/gateway", false},
		{"local/gateway", module + "functions/boot", true},
		{"local/gateway", module + "infra", false},
		{"local/serve", module + "infra/golden", true},
		{"functions/boot", module + "infra/golden", false},
		{"local/weir", module + "limiter/rules", true},
	} {
		if why := forbidden(c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s imports %s: got the reason %q, want it allowed: %t", c.from, c.to, why, c.ok)
		}
	}
}

// layers are the packages of the layers of a Limiter, from the front to the store.
var layers = []string{"leases", "outage", "counters", "shards", "regions", "deny", "groups", "throttle", "wire"}

// TestLayers proves that a layer is small, that only limiter.go and its tests name one, and that package limiter is small too.
func TestLayers(t *testing.T) {
	const mostOfLayer, mostOfRoot, mostFiles = 450, 2300, 18
	for _, layer := range layers {
		if n := len(codeOf(t, filepath.Join("internal", layer, "*.go"))); n == 0 || n > mostOfLayer {
			t.Errorf("layer %s: got %d lines of code, want 1 to %d", layer, n, mostOfLayer)
		} else {
			t.Logf("layer %s: %d lines of code", layer, n)
		}
	}
	root, files := codeOf(t, "*.go"), map[string]bool{}
	for _, l := range root {
		files[l.file] = true
		for _, layer := range layers {
			if l.file != "limiter.go" && strings.Contains(l.text, `"`+module+"limiter/internal/"+layer+`"`) {
				t.Errorf("%s: got an import of layer %s, want it in limiter.go only", l.file, layer)
			}
		}
	}
	t.Logf("package limiter: %d lines of code in %d files", len(root), len(files))
	if len(root) > mostOfRoot || len(files) > mostFiles {
		t.Errorf("package limiter: got %d lines of code in %d files, want at most %d in %d", len(root), len(files), mostOfRoot, mostFiles)
	}
}

type codeLine struct{ file, text string }

// codeOf returns the lines of the files that are neither empty nor a comment, without tests.
func codeOf(t *testing.T, pattern string) (lines []codeLine) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			text := strings.TrimSpace(line)
			if !strings.HasSuffix(file, "_test.go") && text != "" && !strings.HasPrefix(text, "//") {
				lines = append(lines, codeLine{file, text})
			}
		}
	}
	return lines
}

// siblings lists which packages of limiter may import which others, with the reason. A
// package and its own subpackages may import each other.
var siblings = map[string][]string{
	// caller keeps keys and records while they are fresh.
	"limiter/caller": {"limiter/cache"},
	// These packages use the type Caller. Rules charge limits of a caller, and the other packages record
	// the caller.
	"limiter/rules":      {"limiter/caller", "limiter/meter"},
	"limiter/rules/live": {"limiter/caller"},
	"limiter/telemetry":  {"limiter/caller"},
	"limiter/otellimit":  {"limiter/telemetry"},
	// Rules say which members of bodies are costs.
	"limiter/rules/document": {"limiter/meter"},
	// Stores outside the process have a circuit breaker unless a program declines it.
	"limiter/dynamostore": {"limiter/resilient"},
	"limiter/redisstore":  {"limiter/resilient"},
	// A full memory store evicts like the table of a Limiter.
	"limiter/memstore": {"limiter/internal/evict"},
	// httplimit uses the path that rules match, the costs in bodies, the outcome of a request, the log line for bad
	// credentials, and the store of a middleware that gets none.
	"limiter/httplimit": {"limiter/caller", "limiter/memstore", "limiter/meter", "limiter/rules", "limiter/rules/live",
		"limiter/telemetry"},
}

// forbidden returns the reason why the package from must not import the package to; "" if it may.
func forbidden(from, to string) string {
	to, ours := strings.CutPrefix(to, module)
	top, _, _ := strings.Cut(to, "/")
	external := !ours && strings.Contains(top, ".")
	within := func(folder string) bool { return from == folder || strings.HasPrefix(from, folder+"/") }
	switch {
	case from == "limiter" && (external || to == "net/http"):
		return "the domain does not depend on AWS, Redis or HTTP"
	case from == "limiter" && ours && to != "limiter/algo" && !strings.HasPrefix(to, "limiter/internal/"):
		return "the domain imports algo and its internal packages only"
	case strings.HasPrefix(from, "limiter/internal/") && (external || ours && to != "limiter/algo" &&
		!strings.HasPrefix(to, "limiter/internal/")):
		return "what a Limiter is made of depends on algo only"
	case strings.HasPrefix(from, "limiter/internal/") && slices.Contains(layers, strings.TrimPrefix(to, "limiter/internal/")):
		return "a layer knows no other layer, and nothing below the layers knows one"
	case from == "limiter/algo" && (external || ours):
		return "the algorithms are pure"
	case !ours:
		return ""
	case top == "infra" && !within("infra") && (to != "infra/golden" || !within("local")):
		return "only infra imports infra, but local runs a template"
	case top == "local" && !within("local"):
		return "only local imports local"
	case within("limiter") && top == "functions":
		return "the library does not depend on the functions"
	case strings.HasPrefix(from, "limiter/") && to != "limiter" && to != "limiter/algo" && noun(from) != noun(to) &&
		!slices.Contains(siblings[from], to):
		return "packages of limiter do not import each other"
	}
	return ""
}

// noun returns the folder under limiter that a package belongs to.
func noun(path string) string {
	parts := strings.SplitN(path, "/", 3)
	return parts[min(1, len(parts)-1)]
}

// Packages that take the instant as an argument do not read a clock, so a retry decides at the
// instant of its request. redisstore/batch.go measures how long connections stall, and
// dynamostore/debit.go how long a round trip takes; they decide nothing by that.
func TestClock(t *testing.T) {
	for _, pattern := range []string{"algo/*.go", "memstore/*.go", "dynamostore/*.go", "redisstore/*.go", "rules/*.go", "rules/*/*.go",
		"caller/*.go", "cache/*.go", "telemetry/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %d files and error %v, want at least one file", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || file == filepath.Join("redisstore", "batch.go") || file == filepath.Join("dynamostore",
				"debit.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer"} {
				if strings.Contains(string(source), call) {
					t.Errorf("%s: got a call of %s, want none; use the instant that the caller passes", file, call)
				}
			}
		}
	}
}
