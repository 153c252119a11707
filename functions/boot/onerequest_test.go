package boot_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An allowed request of one caller crosses few files and functions of this module: a reader of its path reads them.
func TestOneRequest(t *testing.T) {
	const mostFiles, mostFunctions = 64, 261
	const module = "github.com/weir-limits/weir/"
	folder := t.TempDir()
	program := filepath.Join(folder, "onerequest")
	output := func(name string, arguments ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: got error %v, want none: %s", name, arguments, err, out)
		}
		return string(out)
	}
	output("go", "build", "-trimpath", "-cover", "-covermode=atomic", "-coverpkg="+module+"limiter/...,"+module+"functions/...", "-o", program, "./testdata/onerequest")
	output(program, folder)
	files, functions := map[string]int{}, 0
	for line := range strings.Lines(output("go", "tool", "covdata", "func", "-i="+folder)) {
		fields := strings.Fields(line) // such as limiter/decide.go:68: decide 82.4%
		file, _, isFunction := strings.Cut(fields[0], ":")
		if !isFunction || fields[len(fields)-1] == "0.0%" || strings.Contains(file, "/memtable/") || strings.Contains(file, "/testdata/") {
			continue
		}
		files[strings.TrimPrefix(file, module)]++
		functions++
	}
	t.Logf("one allowed request crosses %d files and %d functions: %v", len(files), functions, files)
	if len(files) == 0 || len(files) > mostFiles || functions > mostFunctions {
		t.Errorf("got %d files and %d functions, want at most %d and %d", len(files), functions, mostFiles, mostFunctions)
	}
}
