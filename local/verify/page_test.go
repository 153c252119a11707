package verify_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/verify"
)

var update = flag.Bool("update", false, "write the lists into infra/LIMITATIONS.md")

const page = "../../infra/LIMITATIONS.md"

// The lists in LIMITATIONS.md are those of the rows.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rows of local/verify -->\n", "<!-- end of the rows -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: got no lines %q and %q, want the lists between them", page, begin, end)
	}
	want := verify.Page(verify.Rows())
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s: got lists that differ from the rows, want the same; run go test ./local/verify -run TestPage -update", page)
	}
}

// Each row has a stable name, a claim of one sentence and a way to test it by hand. A row depends only on
// earlier rows.
func TestRows(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	var earlier []string
	for _, r := range verify.Rows() {
		if !id.MatchString(r.ID) || slices.Contains(earlier, r.ID) {
			t.Errorf("row %q: got this ID, want a new one in kebab-case", r.ID)
		}
		if !strings.HasSuffix(r.Claim, ".") || r.Hand == "" || len(r.Needs) == 0 {
			t.Errorf("row %s: got claim %q, hand %q, needs %v, want all of them", r.ID, r.Claim, r.Hand, r.Needs)
		}
		for _, after := range r.After {
			if !slices.Contains(earlier, after) {
				t.Errorf("row %s: got After %q, want an earlier row", r.ID, after)
			}
		}
		earlier = append(earlier, r.ID)
	}
}
