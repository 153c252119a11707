package limiter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/weir-limits/weir/"

// Dependencies point inward: this test is the list of who may import whom.
func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module)
		for _, to := range fields[1:] {
			if why := forbidden(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// forbidden says why from must not import to, empty if it may.
func forbidden(from, to string) string {
	to, ours := strings.CutPrefix(to, module)
	room, _, _ := strings.Cut(to, "/")
	outside := !ours && strings.Contains(room, ".")
	switch {
	case from == "limiter" && (outside || to == "net/http"):
		return "the domain knows no AWS, Redis or HTTP"
	case from == "limiter" && ours && to != "limiter/algo":
		return "the domain imports nothing of ours but algo"
	case from == "limiter/algo" && (outside || ours):
		return "the algorithms are pure"
	case !ours:
		return ""
	case from == "limiter/httplimit" && (to == "limiter/rules" || to == "limiter/telemetry"):
		return "" // the path that rules match, and one log line a second for bad credentials
	case strings.HasPrefix(from, "limiter/") && to != "limiter" && to != "limiter/algo":
		return "packages of limiter do not know each other"
	case room == "infra" && !strings.HasPrefix(from, "infra"):
		return "nobody imports infra"
	case room == "local" && !strings.HasPrefix(from, "local"):
		return "nobody imports local"
	}
	return ""
}

// Stores and algorithms take the instant as an argument: none of them reads a clock,
// and so no retry can.
func TestClock(t *testing.T) {
	for _, pattern := range []string{"algo/*.go", "memstore/*.go", "dynamostore/*.go", "redisstore/*.go", "rules/*.go", "identity/*.go", "telemetry/*.go", "events/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer"} {
				if strings.Contains(string(source), call) {
					t.Errorf("%s calls %s", file, call)
				}
			}
		}
	}
}
