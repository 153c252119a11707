package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every npm ci in this repository has --ignore-scripts, because packages could run scripts
// otherwise.
func TestSupply_npm(t *testing.T) {
	call := regexp.MustCompile(`npm ci\b[^\n]*|"npm", "ci"[^\n]*`)
	calls := 0
	eachFile(t, func(path, text string) {
		if !strings.Contains(text, "npm") { // the expression is slow in large files
			return
		}
		for _, found := range call.FindAllString(text, -1) {
			// This is a test or an error text, not a call of npm.
			if strings.Contains(path, "_test.go") || strings.Contains(found, "npm ci:") {
				continue
			}
			calls++
			if !strings.Contains(found, "--ignore-scripts") {
				t.Errorf("%s: got %s, want --ignore-scripts", path, found)
			}
		}
	})
	if calls < 3 {
		t.Errorf("got %d calls, want those of the Makefile and of the servers", calls)
	}
}

// The release workflow waits for the tests of the commit.
func TestSupply_release(t *testing.T) {
	workflow, err := os.ReadFile(filepath.Join(realCheckout(t), ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    uses: ./.github/workflows/ci.yml\n", "    needs: test\n"} {
		if !strings.Contains(string(workflow), want) {
			t.Errorf("release.yml: got no line %q, want it", want)
		}
	}
}

// CI checks every Go module for known vulnerabilities.
func TestSupply_vulnerabilities(t *testing.T) {
	root := realCheckout(t)
	workflow, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	eachFile(t, func(path, _ string) {
		if filepath.Base(path) == "go.mod" {
			modules = append(modules, filepath.Dir(path))
		}
	})
	if !slices.Contains(modules, ".") || len(modules) < 2 {
		t.Fatalf("modules: got %v, want the root and at least one other", modules)
	}
	for _, module := range modules {
		want := "govulncheck@v1.8.0 -C " + module + " ./..."
		if module == "." {
			want = "govulncheck@v1.8.0 ./..."
		}
		if !strings.Contains(string(workflow), want) {
			t.Errorf("ci.yml: got no command %s, want it", want)
		}
	}
}

// eachFile calls see with each file of the repository that can contain commands.
func eachFile(t *testing.T, see func(path, text string)) {
	t.Helper()
	root := realCheckout(t)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{".git", ".bin", ".weir", "dist", "node_modules", "cdk.out", "testdata"}, name) {
				return fs.SkipDir
			}
			return nil
		case name != "Makefile" && name != "go.mod" && !slices.Contains([]string{".go", ".yml", ".sh", ".md", ".json"}, filepath.Ext(name)) &&
			!strings.HasPrefix(path, ".ci/"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		see(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// weir does not link the client of Kafka or the dependencies of weir-tools, so that
// the first make run builds fast.
func TestSupply_links(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.Lines(string(out)) {
		for _, heavy := range []string{"franz-go", "local/lab"} {
			if strings.Contains(dependency, heavy) {
				t.Errorf("weir: got a link to %s, want none", dependency)
			}
		}
	}
}

// Each workflow pins its actions to a commit, because a tag can move. A reusable workflow of this
// repository needs no commit.
func TestSupply_actions(t *testing.T) {
	pinned := regexp.MustCompile(`^([\w-]+/[\w-]+@[0-9a-f]{40} # v\d|\./\.github/workflows/ci\.yml\n)`)
	actions := 0
	eachFile(t, func(path, text string) {
		if filepath.Dir(path) != ".github/workflows" {
			return
		}
		for line := range strings.Lines(text) {
			_, action, found := strings.Cut(line, "uses: ")
			if found {
				actions++
			}
			if found && !pinned.MatchString(action) {
				t.Errorf("%s: got %s, want owner/name@commit # version", path, strings.TrimSpace(action))
			}
		}
	})
	if actions < 5 {
		t.Errorf("got %d actions, want those of both workflows", actions)
	}
}
