package checkout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout"
)

// The search for .weir ends where another user, or another repository, could provide its keys and rules.
func TestHere_search(t *testing.T) {
	folder := func(name string, mode os.FileMode) func() error {
		return func() error {
			if err := os.MkdirAll(name, 0o700); err != nil {
				return err
			}
			return os.Chmod(name, mode)
		}
	}
	owned := func(name string) func() error { return func() error { return os.Chown(name, 12345, -1) } }
	const here = "parent/here"
	for name, c := range map[string]struct {
		change []func() error
		want   string // a folder, or part of an error
	}{
		"nothing":                            {nil, here},
		"a parent's":                         {[]func() error{folder("parent/.weir", 0o700)}, "parent"},
		"its own":                            {[]func() error{folder("parent/.weir", 0o700), folder(here+"/.weir", 0o700)}, here},
		"a parent to which others can write": {[]func() error{folder("parent/.weir", 0o700), folder("parent", 0o777)}, here},
		"above a checkout":                   {[]func() error{folder("parent/.weir", 0o700), folder(here+"/.git", 0o700)}, here},
		"a checkout's top":                   {[]func() error{folder("parent/.weir", 0o700), folder("parent/.git", 0o700)}, "parent"},
		"rules in a parent to which others can write": {[]func() error{folder("parent/functions/rules.json", 0o700), folder("parent", 0o777)},
			here},
		"a .weir to which others can write": {[]func() error{folder(here+"/.weir", 0o777)}, "another user can write"},
		"a parent of another user":          {[]func() error{folder("parent/.weir", 0o700), owned("parent")}, here},
		"a .weir of another user": {[]func() error{folder("parent/.weir", 0o700), owned("parent/.weir")},
			"another user can write"},
		"a .weir of another user beside rules": {[]func() error{folder(here+"/functions/rules.json", 0o700), folder(here+"/.weir", 0o700),
			owned(here + "/.weir")}, "belongs to another user"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			for _, change := range append([]func() error{folder(here, 0o700)}, c.change...) {
				if err := change(); os.IsPermission(err) && os.Getuid() != 0 {
					t.Skip("SKIPPED: only root can give a file to another user")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(here)
			got, err := checkout.Here()
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v, want %s", err, c.want)
				}
			} else if got.Root != filepath.Join(dir, c.want) {
				t.Errorf("got %s, want %s", got.Root, filepath.Join(dir, c.want))
			}
		})
	}
}
