package limiter_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFiles proves that the files of some packages do not use each other in a circle. Therefore, a
// reader can read the files from the bottom to the top. File a uses file b if a names something that b
// defines: a type, a function, a constant, a variable, a method or a field. A use through an interface
// does not count.
func TestFiles(t *testing.T) {
	for _, name := range []string{"limiter", "limiter/internal/quota", "local/weir"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-trimpath", "-export", "-deps", "-f",
			"{{.ImportPath}} {{.Dir}} {{.Export}} {{.GoFiles}}", module+name).Output()
		if err != nil {
			t.Fatalf("%s: go list: got error %v, want none", name, err)
		}
		exports, sources := map[string]string{}, map[string]string{}
		for line := range strings.Lines(string(out)) {
			fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
			exports[fields[0]] = fields[2]
			if fields[0] != module+name {
				continue
			}
			for file := range strings.FieldsSeq(strings.Trim(fields[3], "[]")) {
				source, err := os.ReadFile(filepath.Join(fields[1], file))
				if err != nil {
					t.Fatal(err)
				}
				sources[file] = string(source)
			}
		}
		uses, err := fileUses(sources, func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
		if err != nil || len(uses) == 0 {
			t.Fatalf("%s: got uses by %d of %d files and error %v, want at least one file and no error", name, len(uses), len(sources), err)
		}
		if circle := circleOf(uses); circle != nil {
			t.Errorf("%s: got files that use each other in a circle, want none: %s", name, strings.Join(circle, ", "))
		}
	}
}

// TestFiles_table proves that the table of files in ARCHITECTURE.md names each file of this package, and
// no other file.
func TestFiles_table(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## The files of `limiter`")
	table, _, _ = strings.Cut(table, "\n## ")
	var got, want []string
	for _, word := range regexp.MustCompile("`[a-z]+\\.go`").FindAllString(table, -1) {
		got = append(got, strings.Trim(word, "`"))
	}
	slices.Sort(got)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file != "doc.go" && !strings.HasSuffix(file, "_test.go") {
			want = append(want, file)
		}
	}
	got = slices.Compact(got)
	if !slices.Equal(got, want) {
		t.Errorf("table: got the files %v, want %v", got, want)
	}
}

// TestFiles_circle shows that TestFiles finds circles, also circles through methods.
func TestFiles_circle(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{"none", "type A struct{}", "func f(A) {}", ""},
		{"function", "type A struct{}; func g() { f(A{}) }", "func f(A) {}", "b.go f, a.go A"},
		{"method", "type A struct{}; func (a A) g() { a.f() }", "func (A) f() {}", "b.go f, a.go A"},
	} {
		uses, err := fileUses(map[string]string{"a.go": "package p\n" + c.a, "b.go": "package p\n" + c.b}, nil)
		if err != nil {
			t.Fatalf("%s: got error %v, want none", c.name, err)
		}
		if got := strings.Join(circleOf(uses), ", "); got != c.want {
			t.Errorf("%s: got circle %q, want %q", c.name, got, c.want)
		}
	}
}

// fileUses returns, for each file of a package, the files that this file uses. For each used file, the
// value is the first name that is used. lookup opens the export data of an imported package.
func fileUses(sources map[string]string, lookup importer.Lookup) (map[string]map[string]string, error) {
	set := token.NewFileSet()
	var files []*ast.File
	for name, source := range sources {
		f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup)}
	p, err := config.Check("p", set, files, info)
	if err != nil {
		return nil, fmt.Errorf("check types: %w", err)
	}
	uses := map[string]map[string]string{}
	for id, object := range info.Uses {
		from, to := set.File(id.Pos()).Name(), ""
		if f := set.File(object.Pos()); f != nil {
			to = f.Name()
		}
		if object.Pkg() != p || from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		if name, known := uses[from][to]; !known || object.Name() < name {
			uses[from][to] = object.Name()
		}
	}
	return uses, nil
}

// circleOf returns the files of a circle, each with a name that its predecessor uses; nil if there is
// no circle.
func circleOf(uses map[string]map[string]string) []string {
	done := map[string]bool{}
	var visit func(file string, path []string) []string
	visit = func(file string, path []string) []string {
		if i := slices.Index(path, file); i >= 0 {
			circle := append(slices.Clone(path[i:]), file)
			for j, next := range circle[1:] {
				circle[j] = next + " " + uses[circle[j]][next]
			}
			return circle[:len(circle)-1]
		}
		if done[file] {
			return nil
		}
		for _, next := range slices.Sorted(maps.Keys(uses[file])) {
			if circle := visit(next, append(slices.Clone(path), file)); circle != nil {
				return circle
			}
		}
		done[file] = true
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if circle := visit(file, nil); circle != nil {
			return circle
		}
	}
	return nil
}
