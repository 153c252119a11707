// Package templatetest reads template files for tests.
package templatetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-limits/weir/local/gateway/template"
)

// Glob returns the files that match a pattern. It fails the test if no file matches.
func Glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: got no files (error %v), want at least one", pattern, err)
	}
	return paths
}

// Read returns the content of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Parse returns the parsed template in a file. It fails the test if the template is invalid.
func Parse(t testing.TB, path string) *template.Template {
	t.Helper()
	parsed, err := template.Parse(Read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
