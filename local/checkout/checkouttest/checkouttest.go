// Package checkouttest provides checkouts for tests.
package checkouttest

import (
	"crypto/rand"
	"errors"
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
	bundles := []string{"authorizer", "handler", "log"}
	built := Find(t).Path(".bin", "test", "functions") + string(filepath.Separator)
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-tags", "lambda.norpc,nethttpomithttp2", "-o", built}
	for _, bundle := range bundles {
		args = append(args, "github.com/weir-limits/weir/functions/"+bundle)
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of the functions: got error %v, output %s, want no error", err, out)
	}
	c := Scratch(t)
	for _, bundle := range bundles {
		bootstrap := c.Path("dist", checkout.HostArch(), bundle, "bootstrap")
		if err := errors.Join(os.MkdirAll(filepath.Dir(bootstrap), 0o750), os.Symlink(built+bundle, bootstrap)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
