package checkout_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout/checkouttest"
)

// The commands of ADOPTING.md work on a copy of this checkout. The copy then has the new name and builds. After an
// upgrade, it has the changes of both sides.
func TestAdopting(t *testing.T) {
	root := checkouttest.Find(t).Root
	page, err := os.ReadFile(filepath.Join(root, ".github", "ADOPTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)<!-- not run: TestAdopting [^\n]+\n```sh\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("blocks of commands: got %d, want those of the first day and of an upgrade", len(blocks))
	}
	weir := t.TempDir()
	shell(t, root, `git ls-files -z --cached --others --exclude-standard |
		while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done | tar --null -T - -cf - | tar -xf - -C "$1"`,
		weir)
	shell(t, weir, `git init --quiet --initial-branch main && git add --all && git commit --quiet --message Weir`)
	work := t.TempDir()
	for _, variable := range []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + weir + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/weir-limits/weir"} {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	shell(t, work, string(blocks[0][1]))
	limits := filepath.Join(work, "limits")
	shell(t, limits, `
		! git grep -F github.com/weir-limits/weir/ || exit 1
		[[ $(go list -m) == github.com/example/limits && -z $(gofmt -l functions limiter) ]]
		go build -trimpath $(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./functions/...) # the programs would be linked too
		go vet -trimpath ./limiter/algo ./functions/contract ./functions/handler
		printf '{"rules": []}\n' >functions/rules.json
		git commit --quiet --all --message rules`)
	shell(t, weir, `
		printf '\nvar _ = "github.com/weir-limits/weir/new"\n' >>limiter/algo/window.go
		git rm --quiet LICENSE && git mv .github/SECURITY.md MOVED.md && git commit --quiet --all --message next`)
	shell(t, limits, string(blocks[1][1]))
	shell(t, limits, `
		grep -q '"github.com/example/limits/new"' limiter/algo/window.go
		[[ $(cat functions/rules.json) == '{"rules": []}' && ! -e LICENSE && -e MOVED.md && ! -e .github/workflows/ci.yml ]]
		[[ -z $(git status --porcelain) ]]`)
}

func shell(t *testing.T, dir, script string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", append([]string{"-euo", "pipefail", "-c", script, "bash"}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("got error %v, want none\n%s\nof:\n%s", err, bytes.TrimSpace(out), script)
	}
}
