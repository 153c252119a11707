package limiter_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An if statement initializes by a definition only, so that each effect has a line of its own. No variable is called it.
func TestStyle(t *testing.T) {
	eachFile(t, func(_ string, files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				define, ok := n.Init.(*ast.AssignStmt)
				if n.Init != nil && (!ok || define.Tok != token.DEFINE) {
					t.Errorf("%s: got an if with an effect in its initializer, want the effect on a line before", files.Position(n.Pos()))
				}
			case *ast.Ident:
				if n.Name == "it" {
					t.Errorf("%s: got the name it, want a noun", files.Position(n.Pos()))
				}
			}
			return true
		})
	})
}

// eachFile calls a function with each Go file of the repository.
func eachFile(t *testing.T, visit func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	read := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && slices.Contains([]string{"node_modules", ".git", ".bin", ".weir", "dist", "cdk.out"}, entry.Name()) {
			return cmp.Or(err, filepath.SkipDir)
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		read++
		visit(path, files, file)
		return nil
	})
	if err != nil || read < 300 {
		t.Errorf("got %d files, %v, want at least 300, all of the repository", read, err)
	}
}
