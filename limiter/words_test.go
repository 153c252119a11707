package limiter_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// TestWords proves that each word in ARCHITECTURE.md names something: an exported name of a package, or a
// field of the rules document.
func TestWords(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Words\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([a-z]+) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(section, -1)[1:] // without the heading
	if len(rows) == 0 {
		t.Fatal("got no words, want a table")
	}
	for _, row := range rows {
		for name := range strings.SplitSeq(row[2], ", ") {
			if field, ok := strings.CutPrefix(name, "field "); ok {
				if !strings.Contains(string(rules.Schema), `"`+strings.Trim(field, "`")+`": {`) {
					t.Errorf("%s: got no field %s in the schema of rules, want one", row[1], field)
				}
			} else if path, symbol, _ := strings.Cut(strings.Trim(name, "`"), "."); !declares(t, path, symbol) {
				t.Errorf("%s: got no declaration of %s, want one", row[1], name)
			}
		}
	}
}

// declares reports whether the package in the folder declares a type, or a type and its method or field.
func declares(t *testing.T, folder, symbol string) bool {
	t.Helper()
	name, member, ok := strings.Cut(symbol, ".")
	declaration := `(?m)^type ` + name + `\b`
	if ok {
		declaration = `(?m)^func \(\w+ \*?` + name + `\) ` + member + `\(|^type ` + name + ` struct \{\n(?:\t.*\n|\n)*?\t` + member + ` `
	}
	files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(declaration).Match(source) {
			return true
		}
	}
	return false
}
