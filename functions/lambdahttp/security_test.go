package lambdahttp_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	named    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)`")
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// Every test that SECURITY.md and FAILURES.md name exists. SECURITY.md names every TestAttack.
func TestSecurity(t *testing.T) {
	page := storetest.Must(os.ReadFile("../../.github/SECURITY.md"))
	faults := storetest.Must(os.ReadFile("../../limiter/FAILURES.md"))
	tests := map[string]string{} // file of each test
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "cdk.out" || strings.HasPrefix(entry.Name(), ".") &&
			len(entry.Name()) > 2):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	claims := 0
	for _, m := range named.FindAllSubmatch(page, -1) {
		claims++
		if tests[string(m[1])] == "" {
			t.Errorf("SECURITY.md names the test %s, which does not exist", m[1])
		}
	}
	for _, m := range named.FindAllSubmatch(faults, -1) {
		if tests[string(m[1])] == "" {
			t.Errorf("FAILURES.md names the test %s, which does not exist", m[1])
		}
	}
	if claims < 35 {
		t.Errorf("tests in SECURITY.md: got %d, want at least 35", claims)
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestAttack_") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("SECURITY.md does not name the test %s", name)
		}
	}
}
