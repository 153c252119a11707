package limiter_test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// wordTypes has the packages that declare a type with the name of a word, and the reason for each further one. An alias is
// no declaration.
var wordTypes = map[string]map[string]string{
	"Limit":      {"limiter/internal/domain": "", "limiter/rules/document": "a limit as the JSON of a document has it"},
	"Rule":       {"limiter/rules/document": ""},
	"Decision":   {"limiter": ""},
	"Settlement": {"limiter": "", "limiter/telemetry": "what metrics need of a settlement; telemetry is imported where the limiter is not"},
	"Answer":     {"limiter/httplimit": "", "limiter/meter": "the body of an API's answer, which it reads"},
	"Caller":     {"limiter/caller": ""}, "Client": {"limiter/redisstore": ""}, "Record": {"limiter/caller": ""},
	"Lease": {"limiter/internal/quota": ""}, "Share": {"limiter/internal/quota": ""}, "Shared": {"limiter/algo": ""},
	"Shares": {"limiter/internal/domain": ""}, "Settled": {"limiter/internal/domain": ""}, "Report": {"functions/contract": ""},
	"Held": {"limiter/internal/domain": ""},
}

// TestWords_types proves that one word has one type: each type of wordTypes is declared in the packages listed there only.
func TestWords_types(t *testing.T) {
	declared := map[string]map[string]bool{}
	eachFile(t, func(path string, _ *token.FileSet, file *ast.File) {
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(folder, "local/lab/") {
			return
		}
		for _, d := range file.Decls {
			general, _ := d.(*ast.GenDecl)
			if general == nil {
				continue
			}
			for _, spec := range general.Specs {
				is, ok := spec.(*ast.TypeSpec)
				if !ok || is.Assign.IsValid() || wordTypes[is.Name.Name] == nil {
					continue
				}
				if declared[is.Name.Name] == nil {
					declared[is.Name.Name] = map[string]bool{}
				}
				declared[is.Name.Name][folder] = true
			}
		}
	})
	for word, allowed := range wordTypes {
		got, want := slices.Sorted(maps.Keys(declared[word])), slices.Sorted(maps.Keys(allowed))
		if !slices.Equal(got, want) {
			t.Errorf("type %s: got declarations in %q, want %q: another word for another thing", word, got, want)
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
