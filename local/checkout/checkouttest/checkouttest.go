// Package checkouttest provides checkouts for tests.
package checkouttest

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-limits/weir/local/checkout"
)

// Scratch creates a temporary checkout and makes it the working directory of the test. The checkout
// has separate folders .weir, .bin and dist.
func Scratch(t *testing.T) checkout.Checkout {
	t.Helper()
	original := Find(t)
	dir := t.TempDir()
	for _, name := range []string{"infra", "functions", "local"} {
		if err := os.Symlink(original.Path(name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return Find(t)
}

// Find returns the checkout that contains the working directory.
func Find(t *testing.T) checkout.Checkout {
	t.Helper()
	c, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Namespace returns a namespace that no other test uses.
func Namespace() string { return "test-" + rand.Text() }
