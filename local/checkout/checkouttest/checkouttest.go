// Package checkouttest provides checkouts for tests.
package checkouttest

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// Built returns a scratch checkout with functions that are built for this machine. The build uses
// .bin of the original checkout, so that the go command can reuse earlier builds. Built skips the test
// if environments cannot run on this system.
func Built(t *testing.T) checkout.Checkout {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: environments need Linux")
	}
	dist := Find(t).Path(".bin", "test", "dist")
	for _, bundle := range []string{"authorizer", "handler", "settle", "authorizer-redis", "handler-redis", "settle-redis"} {
		path := filepath.Join(dist, checkout.HostArch(), bundle, "bootstrap")
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc,nethttpomithttp2", "-o", path, "github.com/weir-limits/weir/functions/"+bundle)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build of the functions: got error %v, output %s, want no error", err, out)
		}
	}
	c := Scratch(t)
	if err := os.Symlink(dist, c.Path("dist")); err != nil {
		t.Fatal(err)
	}
	return c
}
